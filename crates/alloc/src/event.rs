//! Everything that happened, as one list of events.
//!
//! Trace, hazard checks and ledgers are subscribers; statistics alone are kept by the pools themselves, for they are read
//! at every peak.

use std::sync::Arc;

use millpond_driver::Stream;

use crate::caller::Stack;
use crate::private::PoolId;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A block was handed out; size: requested bytes.
    Alloc,
    /// A block was given back by its owner; size: requested bytes.
    FreeRequested,
    /// A block is free again; size: requested bytes.
    FreeCompleted,
    /// Memory came from cudaMalloc or a custom allocator; size: bytes of the segment.
    SegmentAlloc,
    /// Such memory went back.
    SegmentFree,
    /// Pages were mapped; size: mapped bytes.
    SegmentMap,
    /// Pages were unmapped.
    SegmentUnmap,
    /// An out-of-memory error was raised; size: rounded bytes, address: free bytes of the device.
    Oom,
    /// A snapshot was taken; size: active bytes.
    Snapshot,
    /// A live block was annotated; size: requested bytes.
    Annotate,
    /// The allocator synchronised and asks the driver once more (ours; not in PyTorch's traces).
    Retry,
    /// All streams' events were waited for (ours).
    Synchronised,
    /// A request was rejected by policy (ours).
    Rejected,
}

impl Action {
    /// Whether PyTorch's traces hold it.
    pub const fn is_torch(self) -> bool {
        !matches!(self, Action::Retry | Action::Synchronised | Action::Rejected)
    }

    /// The name in a snapshot (R9.9).
    pub const fn name(self) -> &'static str {
        match self {
            Action::Alloc => "alloc",
            Action::FreeRequested => "free_requested",
            Action::FreeCompleted => "free_completed",
            Action::SegmentAlloc => "segment_alloc",
            Action::SegmentFree => "segment_free",
            Action::SegmentMap => "segment_map",
            Action::SegmentUnmap => "segment_unmap",
            Action::Oom => "oom",
            Action::Snapshot => "snapshot",
            Action::Annotate => "annotate",
            Action::Retry => "retry",
            Action::Synchronised => "synchronised",
            Action::Rejected => "rejected",
        }
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Where; for an out-of-memory error the device's free bytes.
    pub addr: u64,
    /// How many bytes; see [`Action`].
    pub size: u64,
    /// The stream of the block or segment.
    pub stream: Stream,
    /// Microseconds on the driver's clock.
    pub time_us: u64,
    /// The memory pool.
    pub pool: PoolId,
    /// The stack, at the history levels that keep it.
    pub stack: Option<Stack>,
    /// The calling thread's user metadata, or an annotation.
    pub metadata: Option<Arc<str>>,
    /// The enclosing compiled region.
    pub compile_context: Option<Arc<str>>,
    /// Which special operation the event is part of (R2.54).
    pub internal: Option<&'static str>,
}

/// Sees events after they happened, in order, under none of the allocator's locks.
pub trait Observer: Send + Sync {
    /// Some events, oldest first.
    fn events(&self, events: &[Event]);
}
