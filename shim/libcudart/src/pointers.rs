//! What an address is.

use std::ffi::{c_int, c_uint, c_void};

use millpond_cuda::sys::CUpointer_attribute as A;
use millpond_shim::{Answer, driver};

/// `cudaPointerAttributes` as CUDA 12 has it; 13 adds 64 bytes that mean nothing yet.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    kind: c_uint,
    device: c_int,
    on_device: u64,
    on_host: u64,
}

/// Kinds of memory: unknown to CUDA, page-locked; all others are a device's.
const UNREGISTERED: c_uint = 0;
const HOST: c_uint = 1;

impl Attributes {
    /// What the driver knows of an address.
    pub fn of(addr: u64) -> Answer<Self> {
        crate::thread::entered()?;
        let (mut kind, mut device) = (UNREGISTERED, 0);
        let attributes = [A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL];
        let places: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut device).cast()];
        let (count, attributes, places) = (attributes.len() as c_uint, attributes.as_ptr(), places.as_ptr());
        driver!(cuPointerGetAttributes(
            count: c_uint, attributes: *const A, places: *const *mut c_void, addr: u64))?;
        let on_device = if kind == UNREGISTERED { 0 } else { addr };
        let on_host = if kind == UNREGISTERED || kind == HOST { addr } else { 0 };
        Ok(Attributes { kind, device, on_device, on_host })
    }
}
