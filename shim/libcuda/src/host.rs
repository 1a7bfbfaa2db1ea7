//! Page-locked host memory, which is memory of the process.

use std::ffi::{c_uint, c_void};

use millpond_cuda::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE,
    CUdeviceptr,
};
use millpond_driver::{Code, Host, HostFlags};

use crate::context::current_device;
use crate::export::{Answer, Failure};
use crate::machine::sim;
use millpond_shim::Out;

exports! {
    fn cuMemHostAlloc("cuMemHostAlloc" 2020, addr: Out<*mut c_void>, bytes: usize, flags: c_uint) {
        alloc(addr, bytes, flags)
    }

    fn cuMemAllocHost_v2("cuMemAllocHost" 3020, addr: Out<*mut c_void>, bytes: usize) { alloc(addr, bytes, 0) }

    fn cuMemFreeHost("cuMemFreeHost" 2000, addr: u64) {
        if addr == 0 { Ok(()) } else { Ok(sim()?.host_free(addr)?) }
    }

    fn cuMemHostRegister_v2("cuMemHostRegister" 6050, addr: u64, bytes: usize, flags: c_uint) {
        current_device()?;
        let flags = HostFlags {
            portable: flags & CU_MEMHOSTREGISTER_PORTABLE != 0,
            device_map: flags & CU_MEMHOSTREGISTER_DEVICEMAP != 0,
        };
        Ok(sim()?.host_register(addr, bytes as u64, flags)?)
    }

    fn cuMemHostUnregister("cuMemHostUnregister" 4000, addr: u64) {
        Ok(sim()?.host_unregister(addr)?)
    }

    fn cuMemHostGetDevicePointer_v2("cuMemHostGetDevicePointer" 3020, on_device: Out<CUdeviceptr>, addr: u64, _flags: c_uint) {
        // One address space for both: the same number.
        sim()?.page_locked_at(addr).ok_or(Failure(Code::ERROR_INVALID_VALUE))?;
        on_device.set(addr)
    }

    fn cuMemHostGetFlags("cuMemHostGetFlags" 2030, flags: Out<c_uint>, addr: u64) {
        sim()?.page_locked_at(addr).ok_or(Failure(Code::ERROR_INVALID_VALUE))?;
        flags.set(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)
    }
}

fn alloc(addr: Out<*mut c_void>, bytes: usize, flags: c_uint) -> Answer {
    current_device()?;
    let flags = HostFlags {
        portable: flags & CU_MEMHOSTALLOC_PORTABLE != 0,
        device_map: flags & CU_MEMHOSTALLOC_DEVICEMAP != 0,
    };
    let made = sim()?.host_alloc(bytes as u64, flags)?;
    addr.set(std::ptr::with_exposed_provenance_mut(made as usize))
}
