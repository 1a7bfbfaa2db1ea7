//! Events, as C sees them.

use std::ffi::{CString, c_char};
use std::sync::Arc;

use millpond::Action;

use crate::pools::mp_pool_id;

/// A block was handed out; size: requested bytes.
pub const MP_ACTION_ALLOC: u32 = 0;
/// A block was given back by its owner; size: requested bytes.
pub const MP_ACTION_FREE_REQUESTED: u32 = 1;
/// A block is free again; size: requested bytes.
pub const MP_ACTION_FREE_COMPLETED: u32 = 2;
/// Memory came from the driver or a custom allocator; size: bytes of the segment.
pub const MP_ACTION_SEGMENT_ALLOC: u32 = 3;
/// Such memory went back.
pub const MP_ACTION_SEGMENT_FREE: u32 = 4;
/// Pages were mapped; size: mapped bytes.
pub const MP_ACTION_SEGMENT_MAP: u32 = 5;
/// Pages were unmapped.
pub const MP_ACTION_SEGMENT_UNMAP: u32 = 6;
/// An out-of-memory error was raised; size: rounded bytes, addr: free bytes of the device.
pub const MP_ACTION_OOM: u32 = 7;
/// A snapshot was taken; size: active bytes.
pub const MP_ACTION_SNAPSHOT: u32 = 8;
/// A live block was annotated; size: requested bytes.
pub const MP_ACTION_ANNOTATE: u32 = 9;
/// The allocator synchronised and asks the driver once more. Not in PyTorch's traces.
pub const MP_ACTION_RETRY: u32 = 10;
/// All streams' events were waited for. Not in PyTorch's traces.
pub const MP_ACTION_SYNCHRONISED: u32 = 11;
/// A request was rejected by policy. Not in PyTorch's traces.
pub const MP_ACTION_REJECTED: u32 = 12;

/// One event. Pointers are valid as long as the event is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_event {
    /// One of MP_ACTION_…
    pub action: u32,
    /// The device.
    pub device: i32,
    /// Where.
    pub addr: u64,
    /// How many bytes.
    pub size: u64,
    /// The stream of the block or segment.
    pub stream: u64,
    /// Microseconds on the driver's clock.
    pub time_us: u64,
    /// The memory pool.
    pub pool: mp_pool_id,
    /// The token of the stack; 0 for none.
    pub stack: u64,
    /// The thread's user metadata, or an annotation; NULL for none.
    pub metadata: *const c_char,
    /// The enclosing compiled region; NULL for none.
    pub compile_context: *const c_char,
    /// Which special operation the event is part of; NULL for none.
    pub internal: *const c_char,
}

pub(crate) fn number(action: Action) -> u32 {
    match action {
        Action::Alloc => MP_ACTION_ALLOC,
        Action::FreeRequested => MP_ACTION_FREE_REQUESTED,
        Action::FreeCompleted => MP_ACTION_FREE_COMPLETED,
        Action::SegmentAlloc => MP_ACTION_SEGMENT_ALLOC,
        Action::SegmentFree => MP_ACTION_SEGMENT_FREE,
        Action::SegmentMap => MP_ACTION_SEGMENT_MAP,
        Action::SegmentUnmap => MP_ACTION_SEGMENT_UNMAP,
        Action::Oom => MP_ACTION_OOM,
        Action::Snapshot => MP_ACTION_SNAPSHOT,
        Action::Annotate => MP_ACTION_ANNOTATE,
        Action::Retry => MP_ACTION_RETRY,
        Action::Synchronised => MP_ACTION_SYNCHRONISED,
        Action::Rejected => MP_ACTION_REJECTED,
    }
}

/// C strings that live as long as the events that point at them; equal ones in a row are one.
#[derive(Default)]
pub(crate) struct Texts {
    texts: Vec<CString>,
    last: Option<(Arc<str>, *const c_char)>,
}

impl Texts {
    pub fn of(&mut self, text: Option<&Arc<str>>) -> *const c_char {
        let Some(text) = text else { return std::ptr::null() };
        match &self.last {
            Some((known, pointer)) if Arc::ptr_eq(known, text) => *pointer,
            _ => {
                let pointer = self.keep(text);
                self.last = Some((Arc::clone(text), pointer));
                pointer
            }
        }
    }

    pub fn of_static(&mut self, text: Option<&'static str>) -> *const c_char {
        text.map_or(std::ptr::null(), |text| self.keep(text))
    }

    fn keep(&mut self, text: &str) -> *const c_char {
        let text = crate::text::c_string(text);
        let pointer = text.as_ptr();
        self.texts.push(text);
        pointer
    }
}

/// An event of a device; its texts go into `texts`.
pub(crate) fn of(event: &millpond::Event, device: i32, texts: &mut Texts) -> mp_event {
    mp_event {
        action: number(event.action),
        device,
        addr: event.addr,
        size: event.size,
        stream: event.stream.raw,
        time_us: event.time_us,
        pool: event.pool.into(),
        stack: event.stack.as_deref().map_or(0, crate::stacks::token),
        metadata: texts.of(event.metadata.as_ref()),
        compile_context: texts.of(event.compile_context.as_ref()),
        internal: texts.of_static(event.internal),
    }
}
