//! Plain device memory.

use std::ffi::c_uint;

use millpond_cuda::sys::CUdeviceptr;
use millpond_driver::{Code, Memory};

use crate::context::current_device;
use crate::export::{Answer, Failure};
use crate::machine::sim;
use millpond_shim::Out;

exports! {
    fn cuMemGetInfo_v2("cuMemGetInfo" 3020, free: Out<usize>, total: Out<usize>) {
        let (is_free, all) = sim()?.mem_info(current_device()?)?;
        free.offer(is_free as usize);
        total.offer(all as usize);
        Ok(())
    }

    fn cuMemAlloc_v2("cuMemAlloc" 3020, addr: Out<CUdeviceptr>, bytes: usize) {
        checked(addr)?;
        addr.set(sim()?.mem_alloc(current_device()?, bytes as u64)?)
    }

    fn cuMemAllocPitch_v2("cuMemAllocPitch" 3020,
        addr: Out<CUdeviceptr>, pitch: Out<usize>, width: usize, height: usize, _element: c_uint) {
        checked(addr)?;
        let row = width.checked_next_multiple_of(512).ok_or(Failure(Code::ERROR_OUT_OF_MEMORY))?;
        let bytes = row.checked_mul(height).ok_or(Failure(Code::ERROR_OUT_OF_MEMORY))?;
        addr.set(sim()?.mem_alloc(current_device()?, bytes as u64)?)?;
        pitch.set(row)
    }

    fn cuMemAllocManaged("cuMemAllocManaged" 6000, addr: Out<CUdeviceptr>, bytes: usize, _flags: c_uint) {
        checked(addr)?;
        addr.set(sim()?.mem_alloc_managed(current_device()?, bytes as u64)?)
    }

    fn cuMemFree_v2("cuMemFree" 3020, addr: CUdeviceptr) {
        let device = current_device()?;
        // Freeing nothing is allowed.
        if addr == 0 { Ok(()) } else { Ok(sim()?.mem_free(device, addr)?) }
    }

    fn cuMemGetAddressRange_v2("cuMemGetAddressRange" 3020,
        base: Out<CUdeviceptr>, bytes: Out<usize>, addr: CUdeviceptr) {
        let (start, len) = sim()?.mem_address_range(addr)?;
        base.offer(start);
        bytes.offer(len as usize);
        Ok(())
    }
}

/// An answer must have a place to go before memory is taken for it.
fn checked(addr: Out<CUdeviceptr>) -> Answer {
    if addr.is_null() { Err(Code::ERROR_INVALID_VALUE.into()) } else { Ok(()) }
}
