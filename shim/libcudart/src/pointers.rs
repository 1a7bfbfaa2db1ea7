//! What an address is.

use std::ffi::{c_int, c_uint, c_void};

use millpond_cuda::sys::CUpointer_attribute as A;
use millpond_shim::{Out, driver};

/// `cudaPointerAttributes`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attributes {
    kind: c_uint,
    device: c_int,
    on_device: u64,
    on_host: u64,
    reserved: [u64; 8],
}

/// Kinds of memory: unknown to CUDA, page-locked; all others are a device's.
const UNREGISTERED: c_uint = 0;
const HOST: c_uint = 1;

exports! {
    fn cudaPointerGetAttributes(to: Out<Attributes>, addr: u64) {
        crate::thread::entered()?;
        let (mut kind, mut device) = (UNREGISTERED, 0);
        let attributes = [A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL];
        let places: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut device).cast()];
        let (count, attributes, places) = (attributes.len() as c_uint, attributes.as_ptr(), places.as_ptr());
        driver!(cuPointerGetAttributes(
            count: c_uint, attributes: *const A, places: *const *mut c_void, addr: u64))?;
        let on_device = if kind == UNREGISTERED { 0 } else { addr };
        let on_host = if kind == UNREGISTERED || kind == HOST { addr } else { 0 };
        to.set(Attributes { kind, device, on_device, on_host, reserved: [0; 8] })
    }
}
