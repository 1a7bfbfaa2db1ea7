//! Who calls.

use millpond::Caller;
use millpond_driver::Stream;

use crate::allocator::mp_allocator;
use crate::text::mp_text;

/// Who calls: whether a call happens in a capture is a property of the calling thread's current stream, not of the request.
/// Where a function takes a pointer to one, NULL stands for a thread whose current stream is the device's default stream,
/// and in mp_alloc for one whose current stream is the request's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_caller {
    /// The calling thread's current stream on the device.
    pub stream: u64,
    /// The thread's user metadata; NULL for none.
    pub metadata: *const mp_text,
    /// The enclosing compiled region; NULL for none.
    pub compile_context: *const mp_text,
}

impl mp_allocator {
    /// The caller as the library knows it; `stream` stands in for one that is not named.
    ///
    /// # Safety
    /// Null, or as documented, with texts that live for `'a`.
    #[inline]
    pub(crate) unsafe fn caller<'a>(&'a self, caller: *const mp_caller, stream: u64) -> Caller<'a> {
        let device = self.allocator.device();
        let mut known = Caller { stack: Some(&*self.stacks), ..Caller::on(Stream::new(device, stream)) };
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(caller) = caller.as_ref() {
                known.stream.raw = caller.stream;
                known.metadata = caller.metadata.as_ref().map(|text| &text.0);
                known.compile_context = caller.compile_context.as_ref().map(|text| &text.0);
            }
        }
        known
    }
}
