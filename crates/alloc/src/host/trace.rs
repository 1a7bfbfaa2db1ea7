//! Pinned memory in the history and in the snapshot (R9.16, R9.17).

use millpond_driver::{Device, Stream};
use millpond_snapshot::{Block as SavedBlock, BlockState, Segment, SegmentType, Snapshot, StackId};

use super::block::Block;
use super::{HostCache, HostCore};
use crate::caller::{Caller, Stack};
use crate::event::{Action, Event};
use crate::private::PoolId;
use crate::snapshot::{Interned, entry};
use crate::trace::{HistoryOptions, Level};

impl HostCore {
    /// The stack for a call, taken before any lock.
    pub fn stack(&self, caller: &Caller<'_>, from: Level) -> Option<Stack> {
        if self.journal.level() < from {
            return None;
        }
        caller.stack.and_then(|source| source.capture())
    }

    /// Writes what happened to a block, if anybody wants it. Sizes are block sizes (R9.17).
    pub fn emit(&self, action: Action, block: &Block, stack: Option<Stack>, caller: Option<&Caller<'_>>) {
        if !self.journal.is_on() {
            return;
        }
        let event = Event {
            action,
            addr: block.addr,
            size: block.size,
            stream: Stream::default_of(Device(0)),
            time_us: self.driver.now_us(),
            pool: block.pool,
            stack: stack.or_else(|| block.held_by.clone()),
            metadata: None,
            compile_context: None,
            internal: None,
        };
        self.journal.write([event], caller);
    }
}

impl HostCache {
    /// Starts or changes the history of pinned memory (`record_pinned_host_memory`); `None` stops and clears it (R9.18).
    pub fn record_history(&self, options: Option<HistoryOptions>) {
        self.core.journal.record(options);
    }

    /// Whether a history is kept.
    pub fn is_history_enabled(&self) -> bool {
        self.core.journal.is_recording()
    }

    /// Takes the history out, oldest entry first.
    pub fn take_history(&self) -> Vec<Event> {
        self.core.journal.take()
    }

    /// Adds host segments, and with `traces` the host's history, to a snapshot; nothing while no history is kept (R9.16,
    /// R9.17). [`Allocator::snapshot`](crate::Allocator::snapshot) has those of all caches of its world.
    pub fn write_into(&self, snapshot: &mut Snapshot, traces: bool) {
        if !self.is_history_enabled() {
            return;
        }
        let (blocks, external, history) = {
            let state = self.core.lock();
            let history = if traces { self.core.journal.export() } else { Vec::new() };
            (state.blocks.values().cloned().collect::<Vec<_>>(), state.external.clone(), history)
        };
        let mut stacks = Interned::default();
        let mut segments = std::mem::take(&mut snapshot.host_segments);
        segments.extend(blocks.iter().map(|block| segment(block, snapshot, &mut stacks)));
        segments.extend(external.into_iter().map(|(addr, bytes)| {
            let stacks = (StackId::default(), StackId::default());
            one_block((addr, bytes), BlockState::ActiveAllocated, PoolId::DEFAULT, stacks)
        }));
        segments.sort_by_key(|segment| segment.address);
        snapshot.host_segments = segments;
        for event in history {
            let entry = entry(event, snapshot, &mut stacks);
            snapshot.host_traces.push(entry);
        }
    }
}

fn segment(block: &Block, snapshot: &mut Snapshot, stacks: &mut Interned) -> Segment {
    let state = match block {
        Block { allocated: true, .. } => BlockState::ActiveAllocated,
        Block { events: 0, .. } => BlockState::Inactive,
        _ => BlockState::ActivePendingFree,
    };
    let stacks = (stacks.id(&block.made_by, snapshot), stacks.id(&block.held_by, snapshot));
    one_block((block.addr, block.size), state, block.pool, stacks)
}

/// A host segment: exactly one block, device −1 (R9.16).
fn one_block(range: (u64, u64), state: BlockState, pool: PoolId, stacks: (StackId, StackId)) -> Segment {
    let (address, size) = range;
    let block = SavedBlock { address, size, requested_size: size, state, stack: stacks.1, ..SavedBlock::default() };
    Segment {
        device: -1,
        address,
        total_size: size,
        allocated_size: block.allocated(),
        active_size: block.active(),
        requested_size: size,
        stream: 0,
        segment_type: SegmentType::Small,
        pool: Some((pool.0, pool.1).into()),
        is_expandable: false,
        stack: stacks.0,
        blocks: vec![block],
        ..Segment::default()
    }
}
