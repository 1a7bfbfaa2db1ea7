//! Pages held fast by hand.

use millpond::PinnedPages;

use crate::allocator::{mp_allocator, with};
use crate::pointer;
use crate::status::mp_status;

/// Pages that stay where they are.
pub struct mp_pinned_pages {
    _pinned: PinnedPages,
}

/// Holds the pages under `bytes` of the live block at `addr` fast: with `page_reuse` they do not move until
/// `mp_unpin_pages`, also when the block is free again. For memory that is registered, exported, or known by its address to
/// somebody who does not know the allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pin_pages(
    allocator: *const mp_allocator,
    addr: u64,
    bytes: u64,
    out: *mut *mut mp_pinned_pages,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            pointer::put(out, std::ptr::null_mut(), "out")?;
            let pinned = this.allocator.pin_pages(addr, bytes)?;
            pointer::put(out, pointer::give(mp_pinned_pages { _pinned: pinned }), "out")
        })
    }
}

/// Lets the pages go; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_unpin_pages(pinned: *mut mp_pinned_pages) {
    // SAFETY: as the header documents.
    unsafe { pointer::take_back(pinned) };
}
