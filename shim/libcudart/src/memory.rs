//! Memory of devices and of the host.

use std::ffi::{c_uint, c_void};

use millpond_cuda::sys::CUipcMemHandle;
use millpond_shim::{Answer, Out, driver};

use crate::thread::entered;

exports! {
    fn cudaMalloc(to: Out<u64>, bytes: usize) {
        entered()?;
        let mut addr = 0;
        // The runtime allows an allocation of nothing, which is nowhere.
        if bytes != 0 {
            let made = &raw mut addr;
            driver!(cuMemAlloc_v2(made: *mut u64, bytes: usize))?;
        }
        to.set(addr)
    }

    fn cudaHostAlloc(to: Out<*mut c_void>, bytes: usize, flags: c_uint) { on_host(to, bytes, flags) }

    fn cudaMallocHost(to: Out<*mut c_void>, bytes: usize) { on_host(to, bytes, 0) }

    fn cudaMallocPitch(to: *mut u64, pitch: *mut usize, width: usize, height: usize) {
        entered()?;
        let element = 4;
        driver!(cuMemAllocPitch_v2(to: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint))
    }
}

forward! {
    cudaMallocManaged => cuMemAllocManaged(to: *mut u64, bytes: usize, flags: c_uint);
    cudaFree => cuMemFree_v2(addr: u64);
    cudaFreeHost => cuMemFreeHost(addr: *mut c_void);
    cudaHostRegister => cuMemHostRegister_v2(addr: *mut c_void, bytes: usize, flags: c_uint);
    cudaHostUnregister => cuMemHostUnregister(addr: *mut c_void);
    cudaHostGetDevicePointer => cuMemHostGetDevicePointer_v2(to: *mut u64, addr: *mut c_void, flags: c_uint);
    cudaHostGetFlags => cuMemHostGetFlags(flags: *mut c_uint, addr: *mut c_void);
    cudaIpcGetMemHandle => cuIpcGetMemHandle(handle: *mut CUipcMemHandle, addr: u64);
    cudaIpcOpenMemHandle => cuIpcOpenMemHandle_v2(to: *mut u64, handle: CUipcMemHandle, flags: c_uint);
    cudaIpcCloseMemHandle => cuIpcCloseMemHandle(addr: u64);
    cudaMemGetInfo => cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
}

fn on_host(to: Out<*mut c_void>, bytes: usize, flags: c_uint) -> Answer {
    entered()?;
    let mut addr = std::ptr::null_mut();
    if bytes != 0 {
        let made = &raw mut addr;
        driver!(cuMemHostAlloc(made: *mut *mut c_void, bytes: usize, flags: c_uint))?;
    }
    to.set(addr)
}
