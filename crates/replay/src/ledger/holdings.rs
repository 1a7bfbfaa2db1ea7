//! What is held, segment by segment.

use millpond::{Allocator, BlockState, BlockUse, SegmentState};
use serde::Serialize;

/// One segment. Bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentHolding {
    /// First byte.
    pub address: u64,
    /// Bytes with memory behind them.
    pub size: u64,
    /// The stream's raw handle.
    pub stream: u64,
    /// `small` or `large`.
    pub size_class: &'static str,
    /// The memory pool.
    pub pool: [u64; 2],
    /// Whether pages are mapped into it.
    pub expandable: bool,
    /// Held by live blocks.
    pub allocated: u64,
    /// Held by blocks that are live or wait for events.
    pub active: u64,
    /// Asked for by callers.
    pub requested: u64,
    /// The largest free block.
    pub largest_free: u64,
    /// Blocks with memory behind them.
    pub blocks: u64,
}

impl SegmentHolding {
    /// What a segment holds.
    pub fn of(segment: &SegmentState) -> Self {
        let sum = |counts: fn(&BlockState) -> bool, of: fn(&BlockState) -> u64| -> u64 {
            segment.blocks.iter().filter(|block| counts(block)).map(of).sum()
        };
        let size = |block: &BlockState| block.size;
        let active = |block: &BlockState| matches!(block.state, BlockUse::Live | BlockUse::Pending);
        let free = segment.blocks.iter().filter(|block| block.state == BlockUse::Free);
        SegmentHolding {
            address: segment.base,
            size: segment.mapped(),
            stream: segment.stream.raw,
            size_class: segment.class.name(),
            pool: [segment.pool.0, segment.pool.1],
            expandable: segment.expandable,
            allocated: sum(|block| block.state == BlockUse::Live, size),
            active: sum(active, size),
            requested: sum(active, |block| block.requested),
            largest_free: free.map(size).max().unwrap_or(0),
            blocks: segment.blocks.iter().filter(|block| block.state != BlockUse::Unmapped).count() as u64,
        }
    }
}

/// One expandable segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpandableHolding {
    /// The stream's raw handle.
    pub stream: u64,
    /// `small` or `large`.
    pub size_class: &'static str,
    /// Bytes mapped.
    pub mapped: u64,
}

impl ExpandableHolding {
    /// All of an allocator's, those of the default stream included.
    pub fn all(allocator: &Allocator) -> Vec<Self> {
        let segments = allocator.expandable_segments(true).into_iter();
        let holding = segments.map(|segment| ExpandableHolding {
            stream: segment.stream.raw,
            size_class: segment.class.name(),
            mapped: segment.mapped,
        });
        holding.collect()
    }
}
