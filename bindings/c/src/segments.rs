//! The expandable segments.

use crate::allocator::{mp_allocator, with};
use crate::pointer;
use crate::status::mp_status;

/// An expandable segment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_expandable_segment {
    /// Its stream.
    pub stream: u64,
    /// Whether it serves requests up to 1 MiB.
    pub is_small: bool,
    /// Bytes mapped.
    pub mapped: u64,
}

/// The expandable segments, without those of the default stream, as PyTorch lists them.
///
/// @param segments where they go; NULL to ask how many there are.
/// @param capacity room for so many.
/// @param count how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_expandable_segments(
    allocator: *const mp_allocator,
    segments: *mut mp_expandable_segment,
    capacity: usize,
    count: *mut usize,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let all = this.allocator.expandable_segments(false);
            pointer::put(count, all.len(), "count")?;
            let room = if segments.is_null() { 0 } else { capacity };
            for (index, segment) in all.iter().take(room).enumerate() {
                segments.add(index).write(mp_expandable_segment {
                    stream: segment.stream.raw,
                    is_small: segment.class == millpond::size::SizeClass::Small,
                    mapped: segment.mapped,
                });
            }
            Ok(())
        })
    }
}
