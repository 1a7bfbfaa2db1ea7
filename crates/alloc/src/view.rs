//! What the allocator holds, block by block, as one cut: for snapshots, pictures and comparisons.

use millpond_driver::Stream;

use crate::allocator::Allocator;
use crate::block::Block;
use crate::caller::Stack;
use crate::device::Held;
use crate::pool::Pool;
use crate::private::PoolId;
use crate::segment::{Segment, Source};
use crate::size::SizeClass;

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockUse {
    /// Owned by a caller.
    Live,
    /// Given back; other streams may still use it.
    Pending,
    /// In the free list.
    Free,
    /// Addresses without memory, in an expandable segment.
    Unmapped,
}

/// A block, as it is now.
#[derive(Clone, Debug)]
pub struct BlockState {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes asked for; of a free block the last value.
    pub requested: u64,
    /// What it is doing.
    pub state: BlockUse,
    /// Who allocated it, while stacks are recorded.
    pub stack: Option<Stack>,
}

/// A segment, as it is now.
#[derive(Clone, Debug)]
pub struct SegmentState {
    /// First byte.
    pub base: u64,
    /// Bytes: of memory, or for an expandable segment of address space.
    pub size: u64,
    /// Its stream.
    pub stream: Stream,
    /// Its size class.
    pub class: SizeClass,
    /// Its memory pool.
    pub pool: PoolId,
    /// Whether pages are mapped into it.
    pub expandable: bool,
    /// Bytes of a page of an expandable segment; else 0.
    pub page: u64,
    /// Its age among all segments of the world (R1.18).
    pub counter: u64,
    /// Who asked for it, while stacks are recorded.
    pub stack: Option<Stack>,
    /// Its blocks, in address order.
    pub blocks: Vec<BlockState>,
}

impl SegmentState {
    /// Bytes with memory behind them.
    pub fn mapped(&self) -> u64 {
        self.blocks.iter().filter(|block| block.state != BlockUse::Unmapped).map(|block| block.size).sum()
    }
}

impl Allocator {
    /// Every segment with its blocks, by address.
    pub fn segments(&self) -> Vec<SegmentState> {
        self.core.hold().segments(None)
    }

    /// The segments of one memory pool, by address: what has to be registered with a network library, say.
    pub fn segments_of(&self, pool: PoolId) -> Vec<SegmentState> {
        self.core.hold().segments(Some(pool))
    }
}

impl Held<'_> {
    pub(crate) fn segments(&self, only: Option<PoolId>) -> Vec<SegmentState> {
        let pools = self.pools.iter().filter(|pool| only.is_none_or(|id| pool.key.memory_pool == id));
        let mut segments: Vec<_> =
            pools.flat_map(|pool| pool.segments.iter().flatten().map(|segment| segment_state(pool, segment))).collect();
        segments.sort_unstable_by_key(|segment| segment.base);
        segments
    }
}

fn segment_state(pool: &Pool, segment: &Segment) -> SegmentState {
    let page = match &segment.source {
        Source::Expandable(pages) => pages.size,
        _ => 0,
    };
    let blocks = pool.blocks_of(segment).map(|(id, block)| BlockState {
        addr: block.addr,
        size: block.size,
        requested: block.requested,
        state: block_use(block),
        stack: pool.stacks.get(&id).cloned(),
    });
    SegmentState {
        base: segment.base,
        size: segment.size,
        stream: pool.key.stream,
        class: pool.key.class,
        pool: pool.key.memory_pool,
        expandable: page > 0,
        page,
        counter: segment.counter,
        stack: segment.stack.clone(),
        blocks: blocks.collect(),
    }
}

fn block_use(block: &Block) -> BlockUse {
    if block.allocated {
        BlockUse::Live
    } else if block.is_active() {
        BlockUse::Pending
    } else if block.mapped {
        BlockUse::Free
    } else {
        BlockUse::Unmapped
    }
}
