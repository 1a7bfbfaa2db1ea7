//! Pinned blocks: never split, never merged (R7.1).

use std::collections::BTreeSet;

use millpond_driver::Stream;

use crate::caller::Stack;
use crate::private::PoolId;

/// How a block's memory was made, and so how it goes back, whatever the settings say by then (R7.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Page-locked by the driver (`cuMemHostAlloc`).
    Allocated,
    /// The host's memory, page-locked afterwards (`cuMemHostRegister`).
    Registered,
    /// A part of the reserve segment.
    Reserve,
}

/// One block of pinned memory.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    pub bin: usize,
    pub pool: PoolId,
    pub source: Source,
    /// Somebody holds it.
    pub allocated: bool,
    /// Events that have not completed. What stays up here for good keeps the block from ever being used again (R7.15, R7.16).
    pub events: u64,
    /// Streams recorded since it was handed out.
    pub streams: BTreeSet<Stream>,
    /// Handed out while the caller's stream was capturing (R7.16).
    pub in_capture: bool,
    /// Who asked for the memory, while stacks are recorded.
    pub made_by: Option<Stack>,
    /// Who holds the block, while stacks are recorded.
    pub held_by: Option<Stack>,
}

impl Block {
    /// Whether the block counts as active: a block stays so until its events have completed (R7.23).
    pub fn is_active(&self) -> bool {
        self.allocated || self.events > 0
    }
}
