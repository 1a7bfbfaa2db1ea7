//! Devices and versions.

use std::ffi::{c_char, c_int, c_uint, c_void};

use millpond_cuda::sys::CUcontext;
use millpond_driver::Code;
use millpond_shim::{Out, Text, driver};

use crate::thread::{choose, device, entered, primary, started};

exports! {
    fn cudaDriverGetVersion(version: *mut c_int) { driver!(cuDriverGetVersion(version: *mut c_int)) }

    fn cudaGetDeviceCount(count: *mut c_int) {
        started()?;
        driver!(cuDeviceGetCount(count: *mut c_int))
    }

    fn cudaGetDevice(to: Out<c_int>) { to.set(device()) }

    fn cudaSetDevice(wish: c_int) { choose(wish) }

    fn cudaInitDevice(which: c_int, _flags: c_uint, _more: c_uint) { primary(which).map(drop) }

    fn cudaSetDeviceFlags(_flags: c_uint) { Ok(()) }

    fn cudaGetDeviceFlags(flags: Out<c_uint>) { flags.set(0) }

    fn cudaDeviceReset() { Err(Code::ERROR_NOT_SUPPORTED.into()) }

    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_uint, which: c_int) {
        started()?;
        driver!(cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, which: c_int))
    }

    fn cudaDeviceGetPCIBusId(id: *mut c_char, len: c_int, which: c_int) {
        started()?;
        driver!(cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, which: c_int))
    }

    fn cudaDeviceGetByPCIBusId(to: *mut c_int, id: Text) {
        started()?;
        driver!(cuDeviceGetByPCIBusId(to: *mut c_int, id: Text))
    }

    fn cudaDeviceCanAccessPeer(can: *mut c_int, which: c_int, peer: c_int) {
        started()?;
        driver!(cuDeviceCanAccessPeer(can: *mut c_int, which: c_int, peer: c_int))
    }

    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        entered()?;
        let peer = primary(peer)?;
        driver!(cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint))
    }

    fn cudaDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, which: c_int, peer: c_int) {
        started()?;
        driver!(cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, which: c_int, peer: c_int))
    }

    fn cudaDeviceGetGraphMemAttribute(_which: c_int, _attribute: c_uint, value: Out<u64>) {
        // No graph here owns memory.
        value.set(0)
    }

    fn cudaDeviceSetGraphMemAttribute(_which: c_int, _attribute: c_uint, _value: *mut c_void) { Ok(()) }

    fn cudaDeviceGraphMemTrim(which: c_int) { primary(which).map(drop) }

    fn cudaProfilerStart() { Ok(()) }

    fn cudaProfilerStop() { Ok(()) }
}

forward! {
    cudaDeviceSynchronize => cuCtxSynchronize();
    cudaDeviceGetStreamPriorityRange => cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cudaDeviceGetLimit => cuCtxGetLimit(value: *mut usize, limit: c_uint);
    cudaDeviceSetLimit => cuCtxSetLimit(limit: c_uint, value: usize);
    cudaDeviceSetCacheConfig => cuCtxSetCacheConfig(config: c_uint);
}
