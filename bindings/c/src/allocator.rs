//! Allocating and freeing.

use std::ffi::c_char;
use std::sync::Arc;

use millpond::Allocator;
use millpond_driver::{Device, Stream};

use crate::caller::mp_caller;
use crate::pointer;
use crate::pools::mp_pool_id;
use crate::stacks::Stacks;
use crate::status::{Answer, Failure, caught, mp_status};

/// The allocator of one device.
pub struct mp_allocator {
    pub(crate) allocator: Allocator,
    pub(crate) stacks: Arc<Stacks>,
}

impl mp_allocator {
    pub(crate) fn stream(&self, raw: u64) -> Stream {
        Stream::new(self.allocator.device(), raw)
    }
}

/// Runs `body` with an allocator.
///
/// # Safety
/// Null, or an allocator.
#[inline]
pub(crate) unsafe fn with(allocator: *const mp_allocator, body: impl FnOnce(&mp_allocator) -> Answer) -> mp_status {
    // SAFETY: the caller's promise.
    caught(|| body(unsafe { pointer::at(allocator, "allocator") }?))
}

/// At least `size` bytes for work on `stream`; address 0 for a size of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_alloc(
    allocator: *const mp_allocator,
    size: u64,
    stream: u64,
    caller: *const mp_caller,
    addr: *mut u64,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let caller = this.caller(caller, stream);
            let given = this.allocator.alloc(size, this.stream(stream), &caller)?;
            pointer::put(addr, given, "addr").inspect_err(|_| drop(this.allocator.free(given, &caller)))
        })
    }
}

/// `size` bytes at exactly `addr`, which must lie in a free block of the pool that would serve the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_alloc_at(
    allocator: *const mp_allocator,
    addr: u64,
    size: u64,
    stream: u64,
    caller: *const mp_caller,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.alloc_at(addr, size, this.stream(stream), &this.caller(caller, stream))?;
            Ok(())
        })
    }
}

/// Gives a live block back; 0 does nothing. The block is free at once, or when the recorded streams have done what they had
/// queued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_free(allocator: *const mp_allocator, addr: u64, caller: *const mp_caller) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.free(addr, &this.caller(caller, 0))?)) }
}

/// Records that work on `stream` uses the live block at `addr`. 0 and addresses of other allocators are ignored, as in
/// PyTorch; `known` then says false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_record_stream(
    allocator: *const mp_allocator,
    addr: u64,
    stream: u64,
    caller: *const mp_caller,
    known: *mut bool,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let is_known = this.allocator.record_stream(addr, this.stream(stream), &this.caller(caller, 0))?;
            if known.is_null() { Ok(()) } else { pointer::put(known, is_known, "known") }
        })
    }
}

/// Tells the number by which PyTorch knows a stream (its stream id), to be called before the stream is first recorded. Blocks
/// that several streams used become free in an order that PyTorch takes from these numbers; without one it is that of a stream
/// that PyTorch did not make.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_name_stream(allocator: *const mp_allocator, stream: u64, id: u64) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.world().name_stream(this.stream(stream), id);
            Ok(())
        })
    }
}

/// Gives all cached memory back that no live block holds fast.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_empty_cache(allocator: *const mp_allocator, caller: *const mp_caller) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.empty_cache(&this.caller(caller, 0))?)) }
}

/// The same for one memory pool that nobody owns any more; {0, 0} is mp_empty_cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_empty_pool_cache(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    caller: *const mp_caller,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.empty_pool_cache(pool.into(), &this.caller(caller, 0))?)) }
}

/// Frees what has completed, without a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_process_events(allocator: *const mp_allocator, caller: *const mp_caller) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.process_events(&this.caller(caller, 0))?)) }
}

/// Limits the allocator to a fraction of the device's memory; 1 removes the limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_set_memory_fraction(allocator: *const mp_allocator, fraction: f64) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.set_memory_fraction(fraction)?)) }
}

/// The limit as a fraction; 1 without one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_memory_fraction(allocator: *const mp_allocator, fraction: *mut f64) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| pointer::put(fraction, this.allocator.memory_fraction(), "fraction")) }
}

/// Turns caching off or on. Live blocks stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_enable_caching(allocator: *const mp_allocator, on: bool) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.enable_caching(on);
            Ok(())
        })
    }
}

/// Whether caching is on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_is_caching(allocator: *const mp_allocator, on: *mut bool) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| pointer::put(on, this.allocator.is_caching(), "on")) }
}

/// Requested and rounded bytes of the live block at `addr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_size_of(
    allocator: *const mp_allocator,
    addr: u64,
    requested: *mut u64,
    rounded: *mut u64,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let (asked, size) = this.allocator.size_of(addr).ok_or(millpond::Error::UnknownAddress { addr })?;
            for (to, value) in [(requested, asked), (rounded, size)] {
                if !to.is_null() {
                    to.write(value);
                }
            }
            Ok(())
        })
    }
}

/// Base and bytes of the segment that holds the live block at `addr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_base_allocation(
    allocator: *const mp_allocator,
    addr: u64,
    base: *mut u64,
    size: *mut u64,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let (start, bytes) = this.allocator.base_allocation(addr)?;
            pointer::put(base, start, "base")?;
            pointer::put(size, bytes, "size")
        })
    }
}

/// Bytes of the largest free block of any pool, at least `floor`; a floor of 0 stands for the device's free memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_largest_block(allocator: *const mp_allocator, floor: u64, size: *mut u64) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| pointer::put(size, this.allocator.largest_block(floor)?, "size")) }
}

/// Lets the device `peer` use this device's memory, what there is and what comes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_enable_peer_access(allocator: *const mp_allocator, peer: i32) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let wrong = Failure::Argument { argument: "peer", why: "is not the index of a device" };
            let peer = u32::try_from(peer).map_err(|_| wrong)?;
            Ok(this.allocator.enable_peer_access(Device(peer))?)
        })
    }
}

/// Writes an annotation of the live block at `addr` into the history.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_annotate(
    allocator: *const mp_allocator,
    addr: u64,
    text: *const c_char,
    caller: *const mp_caller,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let text = pointer::string(text, "text")?;
            Ok(this.allocator.annotate(addr, &text, &this.caller(caller, 0))?)
        })
    }
}

/// Recounts everything from the blocks: MP_VIOLATION with all that is wrong, a fault of this library. Costs time
/// proportional to the number of blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_verify(allocator: *const mp_allocator) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let told = |wrong: Vec<millpond::Violation>| {
                Failure::Violation(wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
            };
            this.allocator.verify().map_err(told)
        })
    }
}
