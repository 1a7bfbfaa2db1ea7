//! The functions that PyTorch's CUDAPluggableAllocator takes, in its signatures. They use the world of the process.
//!
//! PyTorch gives them no way to fail: an allocation that fails returns NULL, and mp_error_text() has the reason.

use std::ffi::c_void;

use millpond::Error;

use crate::allocator::mp_allocator;
use crate::pointer;
use crate::process::world;
use crate::status::{Answer, Failure, caught};

fn allocator(device: i32) -> Answer<&'static mp_allocator> {
    let made = world()?.allocator(device)?;
    // SAFETY: it lives as long as the world of the process, which is for good.
    unsafe { pointer::at(made, "allocator") }
}

fn raw(stream: *mut c_void) -> u64 {
    stream.expose_provenance() as u64
}

fn addr_of(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

fn pointer_to(addr: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

/// For `alloc_fn`: memory on `stream`, NULL for a size of 0 or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_alloc(size: isize, device: i32, stream: *mut c_void) -> *mut c_void {
    let mut given = 0;
    caught(|| {
        let this = allocator(device)?;
        let size = u64::try_from(size).map_err(|_| Failure::Argument { argument: "size", why: "is negative" })?;
        // SAFETY: no caller is named.
        let caller = unsafe { this.caller(std::ptr::null(), raw(stream)) };
        given = this.allocator.alloc(size, this.stream(raw(stream)), &caller)?;
        Ok(())
    });
    pointer_to(given)
}

/// For `free_fn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_free(pointer: *mut c_void, _size: isize, device: i32, stream: *mut c_void) {
    caught(|| {
        let this = allocator(device)?;
        // SAFETY: no caller is named.
        let caller = unsafe { this.caller(std::ptr::null(), raw(stream)) };
        Ok(this.allocator.free(addr_of(pointer), &caller)?)
    });
}

/// For `set_init_fn`: makes the allocators.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_init(device_count: i32) {
    caught(|| (0..device_count).try_for_each(|device| allocator(device).map(drop)));
}

/// For `set_reset_fn`: gives the cached memory of all devices back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_reset() {
    caught(|| {
        for allocator in world()?.all() {
            let stream = millpond_driver::Stream::default_of(allocator.device());
            allocator.empty_cache(&millpond::Caller::on(stream))?;
        }
        Ok(())
    });
}

/// For `set_memory_fraction_fn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_memory_fraction(fraction: f64, device: i32) {
    caught(|| Ok(allocator(device)?.allocator.set_memory_fraction(fraction)?));
}

/// For `set_base_alloc_fn`: the segment that holds a live block; NULL if there is none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_base_alloc(pointer: *mut c_void, size: *mut usize) -> *mut c_void {
    let mut base = 0;
    caught(|| {
        let addr = addr_of(pointer);
        let allocators = world()?.all();
        let owner = allocators.iter().find(|allocator| allocator.size_of(addr).is_some());
        let (start, bytes) = owner.ok_or(Error::UnknownAddress { addr })?.base_allocation(addr)?;
        base = start;
        // SAFETY: as the header documents, a place for a size.
        if size.is_null() { Ok(()) } else { unsafe { pointer::put(size, bytes as usize, "size") } }
    });
    pointer_to(base)
}

/// For `set_record_stream_fn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_torch_record_stream(pointer: *mut c_void, stream: *mut c_void) {
    caught(|| {
        for allocator in world()?.all() {
            let stream = millpond_driver::Stream::new(allocator.device(), raw(stream));
            if allocator.record_stream(addr_of(pointer), stream, &millpond::Caller::on(stream))? {
                break;
            }
        }
        Ok(())
    });
}
