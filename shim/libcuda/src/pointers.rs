//! What an address is.

use std::ffi::{c_int, c_uint, c_void};

use millpond_cuda::sys::{CUcontext, CUdeviceptr, CUmemorytype, CUpointer_attribute as A};
use millpond_driver::{Code, Device, Memory};

use crate::context::context_of;
use crate::export::{Answer, Failure};
use crate::machine::sim;
use millpond_shim::{In, Out};

/// Memory that CUDA knows.
#[derive(Clone, Copy)]
struct Known {
    /// Its device; `None` for page-locked memory of the host.
    device: Option<Device>,
    base: u64,
    bytes: u64,
}

exports! {
    fn cuPointerGetAttribute("cuPointerGetAttribute" 4000, to: Out<c_void>, attribute: A, addr: CUdeviceptr) {
        answer(to, attribute, addr, known(addr)?.ok_or(Failure(Code::ERROR_INVALID_VALUE))?)
    }

    fn cuPointerGetAttributes("cuPointerGetAttributes" 7000,
        count: c_uint, attributes: In<A>, places: In<Out<c_void>>, addr: CUdeviceptr) {
        let known = known(addr)?;
        let count = count as usize;
        for (attribute, to) in attributes.list(count)?.into_iter().zip(places.list(count)?) {
            match known {
                Some(known) => answer(to, attribute, addr, known)?,
                None => clear(to, attribute)?,
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute("cuPointerSetAttribute" 6000, _value: *const c_void, _attribute: A, addr: CUdeviceptr) {
        known(addr)?.map(drop).ok_or(Failure(Code::ERROR_INVALID_VALUE))
    }
}

fn known(addr: u64) -> Answer<Option<Known>> {
    let sim = sim()?;
    if let Some(device) = sim.device_of(addr) {
        let (base, bytes) = sim.mem_address_range(addr).unwrap_or((addr, 0));
        return Ok(Some(Known { device: Some(device), base, bytes }));
    }
    Ok(sim.page_locked_at(addr).map(|(base, bytes)| Known { device: None, base, bytes }))
}

fn answer(to: Out<c_void>, attribute: A, addr: u64, known: Known) -> Answer {
    let device = known.device.unwrap_or_default();
    match attribute {
        A::CU_POINTER_ATTRIBUTE_CONTEXT => to.of::<CUcontext>().set(context_of(device)),
        A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => to.of::<CUmemorytype>().set(match known.device {
            Some(_) => CUmemorytype::CU_MEMORYTYPE_DEVICE,
            None => CUmemorytype::CU_MEMORYTYPE_HOST,
        }),
        A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => to.of::<u64>().set(addr),
        A::CU_POINTER_ATTRIBUTE_HOST_POINTER => match known.device {
            Some(_) => Err(Code::ERROR_INVALID_VALUE.into()),
            None => to.of::<u64>().set(addr),
        },
        A::CU_POINTER_ATTRIBUTE_IS_MANAGED | A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => to.of::<u8>().set(0),
        A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => to.of::<u8>().set(sim()?.ipc_capable(addr).into()),
        A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => to.of::<c_int>().set(device.0 as c_int),
        A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => to.of::<u64>().set(known.base),
        A::CU_POINTER_ATTRIBUTE_RANGE_SIZE => to.of::<usize>().set(known.bytes as usize),
        _ => Err(Code::ERROR_NOT_SUPPORTED.into()),
    }
}

/// What the plural form answers for memory that CUDA does not know.
fn clear(to: Out<c_void>, attribute: A) -> Answer {
    match attribute {
        A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => to.of::<c_int>().set(-2),
        A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => to.of::<c_uint>().set(0),
        A::CU_POINTER_ATTRIBUTE_IS_MANAGED
        | A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
        | A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => to.of::<u8>().set(0),
        _ => to.of::<u64>().set(0),
    }
}
