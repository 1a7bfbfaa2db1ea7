//! Saved states of memory pools.

use millpond::Checkpoint;

use crate::allocator::{mp_allocator, with};
use crate::caller::mp_caller;
use crate::pointer;
use crate::pools::mp_pool_id;
use crate::status::mp_status;

/// The state of a memory pool at one moment.
pub struct mp_checkpoint {
    checkpoint: Checkpoint,
    live: Vec<u64>,
}

/// Saves the state of a memory pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_checkpoint_create(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    caller: *const mp_caller,
    out: *mut *mut mp_checkpoint,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            pointer::put(out, std::ptr::null_mut(), "out")?;
            let checkpoint = this.allocator.checkpoint(pool.into(), &this.caller(caller, 0))?;
            let live = checkpoint.live().collect();
            pointer::put(out, pointer::give(mp_checkpoint { checkpoint, live }), "out")
        })
    }
}

/// Destroys a saved state; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_checkpoint_destroy(checkpoint: *mut mp_checkpoint) {
    // SAFETY: as the header documents.
    unsafe { pointer::take_back(checkpoint) };
}

/// The addresses that were live, and how many; they belong to the saved state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_checkpoint_live(checkpoint: *const mp_checkpoint, count: *mut usize) -> *const u64 {
    // SAFETY: as the header documents.
    unsafe {
        let live = checkpoint.as_ref().map_or(&[][..], |saved| &saved.live);
        if !count.is_null() {
            count.write(live.len());
        }
        live.as_ptr()
    }
}

/// What restoring a saved state did to live blocks. An address can be in both lists.
pub struct mp_restored {
    freed: Vec<u64>,
    live: Vec<u64>,
}

/// Brings a memory pool back to a saved state: its live blocks are freed, then those of the saved state are live again.
/// Whether the state fits is checked before anything is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_checkpoint_restore(
    allocator: *const mp_allocator,
    checkpoint: *const mp_checkpoint,
    caller: *const mp_caller,
    out: *mut *mut mp_restored,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            pointer::put(out, std::ptr::null_mut(), "out")?;
            let checkpoint = pointer::at(checkpoint, "checkpoint")?;
            let did = this.allocator.restore(&checkpoint.checkpoint, &this.caller(caller, 0))?;
            pointer::put(out, pointer::give(mp_restored { freed: did.freed, live: did.live }), "out")
        })
    }
}

/// The blocks that were live and were freed, and how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_restored_freed(restored: *const mp_restored, count: *mut usize) -> *const u64 {
    // SAFETY: as the header documents.
    unsafe {
        let freed = restored.as_ref().map_or(&[][..], |did| &did.freed);
        if !count.is_null() {
            count.write(freed.len());
        }
        freed.as_ptr()
    }
}

/// The blocks that are live now, as the saved state says, and how many; the caller owns them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_restored_live(restored: *const mp_restored, count: *mut usize) -> *const u64 {
    // SAFETY: as the header documents.
    unsafe {
        let live = restored.as_ref().map_or(&[][..], |did| &did.live);
        if !count.is_null() {
            count.write(live.len());
        }
        live.as_ptr()
    }
}

/// Destroys the lists; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_restored_destroy(restored: *mut mp_restored) {
    // SAFETY: as the header documents.
    unsafe { pointer::take_back(restored) };
}
