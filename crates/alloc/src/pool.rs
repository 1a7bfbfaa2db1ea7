//! One pool: the blocks of one size class, one stream and one memory pool, under one lock.
//!
//! Everything here needs only the pool. What spans pools (limits, peaks, events, the driver) is in the rooms above.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millpond_driver::Stream;
use rustc_hash::FxHashMap;

use crate::block::{Block, BlockId, NONE, Slab};
use crate::caller::Stack;
use crate::free_list::{FreeEntry, FreeList};
use crate::live::Live;
use crate::log::Log;
use crate::order::{NamedStream, TorchSet};
use crate::private::PoolId;
use crate::recent::Recent;
use crate::segment::{Segment, Source};
use crate::size::{MIN_BLOCK, SMALL_SIZE, SizeClass};
use crate::stats::{Counters, Metric};

/// What distinguishes a pool from the others of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolKey {
    pub memory_pool: PoolId,
    pub class: SizeClass,
    pub stream: Stream,
}

/// The settings that a pool acts on, kept beside its blocks so that a hit reads nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Expandable segments are on, and the memory pool has no custom allocator and is awake.
    pub expandable: bool,
    pub max_split_size: u64,
    pub max_non_split_rounding: u64,
    /// The memory pool hands out whole blocks only (R1.12).
    pub no_split: bool,
    /// The collection clock ticks: a limit is set and a threshold too (R1.21).
    pub clock_ticks: bool,
}

/// The streams that were recorded on a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    pub streams: TorchSet<NamedStream>,
    /// Those of them that were recorded in a capture context (R3.7).
    pub in_capture: Vec<NamedStream>,
}

/// One pool. Pools lie side by side, and each is written by whoever holds its lock: on lines of its own, so that two threads on
/// two streams do not take them from each other.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Pool {
    pub key: PoolKey,
    pub policy: Policy,
    pub blocks: Slab,
    pub segments: Vec<Option<Segment>>,
    vacant_segments: Vec<u32>,
    /// Bytes of all segments ever: where the next one begins among the positions of blocks.
    taken_up: u64,
    pub free: FreeList,
    /// Blocks without memory, by address (R1.19).
    pub unmapped: BTreeMap<u64, BlockId>,
    pub uses: FxHashMap<BlockId, Uses>,
    /// Stacks of live blocks, while they are recorded.
    pub stacks: FxHashMap<BlockId, Stack>,
    pub counters: Counters,
    /// The last hand-out, and a free that was put off.
    pub recent: Recent,
    /// Its part of the history, while somebody wants events.
    pub log: Option<Log>,
    /// The collection clock, one for all streams of the memory pool and size class (R1.21).
    pub clock: Arc<AtomicU64>,
}

/// A block that took its neighbours in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub block: BlockId,
    /// How many neighbours, and their bytes.
    neighbours: i64,
    bytes: u64,
}

/// How a request wants its block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// What the caller asked for, bytes.
    pub requested: u64,
    /// Rounded, bytes.
    pub rounded: u64,
    /// Whether expandable segments serve this request (R1.15: the request's flag, not the block's).
    pub expandable: bool,
}

impl Pool {
    pub fn new(key: PoolKey, policy: Policy, clock: Arc<AtomicU64>) -> Self {
        Pool {
            key,
            policy,
            blocks: Slab::default(),
            segments: Vec::new(),
            vacant_segments: Vec::new(),
            taken_up: 0,
            free: FreeList::default(),
            unmapped: BTreeMap::new(),
            uses: FxHashMap::default(),
            stacks: FxHashMap::default(),
            counters: Counters::default(),
            recent: Recent::default(),
            log: None,
            clock,
        }
    }

    pub fn fit(&self, requested: u64, rounded: u64) -> Fit {
        Fit { requested, rounded, expandable: self.policy.expandable }
    }

    pub fn segment(&self, id: BlockId) -> &Segment {
        self.segment_at(self.blocks[id].segment)
    }

    pub fn segment_at(&self, index: u32) -> &Segment {
        match &self.segments[index as usize] {
            Some(segment) => segment,
            None => unreachable!("a block's segment exists as long as the block"),
        }
    }

    #[inline(always)]
    pub fn segment_at_mut(&mut self, index: u32) -> &mut Segment {
        match &mut self.segments[index as usize] {
            Some(segment) => segment,
            None => unreachable!("a block's segment exists as long as the block"),
        }
    }

    /// The live block that starts at `addr`, in the segment that the address index names.
    #[inline(always)]
    pub fn live_at(&self, segment: u32, addr: u64) -> Option<BlockId> {
        let segment = self.segments.get(segment as usize)?.as_ref()?;
        let found = segment.live.get(addr.checked_sub(segment.base)?)?;
        let block = &self.blocks[found];
        (block.allocated && block.addr == addr && !self.recent.has_returned(found)).then_some(found)
    }

    /// The live blocks, in no particular order.
    pub fn live(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.blocks.iter().filter(|(_, block)| block.allocated)
    }

    /// Puts a block into the free list; its age starts again (R1.16, R3.10).
    #[inline(always)]
    pub fn insert_free(&mut self, id: BlockId) {
        self.blocks[id].born = self.clock.load(Relaxed);
        self.free.insert(id, &mut self.blocks);
    }

    #[inline]
    pub fn remove_free(&mut self, id: BlockId) {
        self.take_free(FreeEntry::of(id, &self.blocks));
    }

    /// The same for a block as it was found.
    #[inline]
    pub fn take_free(&mut self, entry: FreeEntry) {
        self.free.remove(entry, &mut self.blocks);
    }

    /// Takes up a new segment, with one block over all of it: free memory, or unmapped addresses. Without a registration
    /// counter it is as old as all others.
    pub fn add_segment(
        &mut self,
        base: u64,
        size: u64,
        counter: Option<u64>,
        source: Source,
        stack: Option<Stack>,
    ) -> BlockId {
        let expandable = matches!(source, Source::Expandable(_));
        let index = self.vacant_segments.pop().unwrap_or_else(|| {
            self.segments.push(None);
            (self.segments.len() - 1) as u32
        });
        let position = if counter.is_some() { self.taken_up } else { base };
        self.taken_up += size;
        let block = Block { position, mapped: !expandable, expandable, ..Block::new(base, size, index) };
        let head = self.blocks.insert(block);
        self.segments[index as usize] = Some(Segment {
            base,
            size,
            counter: counter.unwrap_or(0),
            head,
            source,
            live: Live::new(self.key.class),
            stack,
        });
        head
    }

    /// Forgets a segment whose one block `id` is neither free-listed nor live any more.
    pub fn drop_segment(&mut self, id: BlockId) -> Segment {
        let index = self.blocks[id].segment;
        self.blocks.remove(id);
        self.vacant_segments.push(index);
        match self.segments[index as usize].take() {
            Some(segment) => segment,
            None => unreachable!("a block's segment exists as long as the block"),
        }
    }

    /// Bytes of the block and of the unmapped addresses right behind it: how far it could grow (R1.23).
    fn growable_size(&self, block: &Block) -> u64 {
        match block.next {
            NONE => block.size,
            next if self.blocks[next].mapped => block.size,
            next => block.size + self.blocks[next].size,
        }
    }

    /// Ticks the collection clock, then searches (`get_free_block`).
    #[inline(always)]
    pub fn tick_and_find(&self, fit: Fit) -> Option<FreeEntry> {
        if self.policy.clock_ticks {
            self.clock.fetch_add(1, Relaxed);
        }
        self.find(fit)
    }

    /// The free block for a request (R1.22–R1.25); it stays in the free list.
    #[inline]
    pub fn find(&self, fit: Fit) -> Option<FreeEntry> {
        let mut chosen = self.free.best_fit(fit.rounded)?;
        if fit.expandable {
            // Prefer, among neighbours in the order, the block that could grow the least.
            while self.blocks[chosen.block].expandable {
                let Some(next) = self.free.after(&chosen, &self.blocks) else { break };
                if self.growable_size(&self.blocks[next.block]) >= self.growable_size(&self.blocks[chosen.block]) {
                    break;
                }
                chosen = next;
            }
        } else {
            while self.blocks[chosen.block].expandable {
                chosen = self.free.after(&chosen, &self.blocks)?;
            }
        }
        let size = chosen.size;
        let Policy { max_split_size, max_non_split_rounding, .. } = self.policy;
        let refused = if fit.rounded < max_split_size {
            size >= max_split_size
        } else {
            size >= fit.rounded.saturating_add(max_non_split_rounding)
        };
        (!refused).then_some(chosen)
    }

    /// Whether a block is split for a request (R1.12–R1.14).
    fn splits(&self, block: &Block, fit: Fit) -> bool {
        if self.policy.no_split {
            return false;
        }
        let remaining = block.size - fit.rounded;
        if self.key.class == SizeClass::Small || fit.expandable {
            remaining >= MIN_BLOCK
        } else {
            fit.rounded < self.policy.max_split_size && remaining > SMALL_SIZE
        }
    }

    /// Hands out a free block that is no longer in the free list, split if the rules say so (R1.16, R2.50, R2.51).
    /// Returns the live block.
    #[inline]
    pub fn hand_out(&mut self, id: BlockId, fit: Fit) -> BlockId {
        let split = self.splits(&self.blocks[id], fit);
        self.hand_out_as(id, fit.rounded, fit.requested, split).0
    }

    /// A hit: the best fit, handed out, unless there is none. Returns the block and its address.
    #[inline]
    pub fn hit(&mut self, fit: Fit) -> Option<(BlockId, u64)> {
        if let Some(found) = self.take_recent(fit) {
            return Some(found);
        }
        self.catch_up();
        let found = self.tick_and_find(fit)?;
        self.take_free(found);
        let split = self.splits(&self.blocks[found.block], fit);
        let (live, change) = self.hand_out_as(found.block, fit.rounded, fit.requested, split);
        let addr = self.blocks[live].addr;
        self.remember((live, addr), fit, change);
        Some((live, addr))
    }

    /// A live block that waits for nothing comes back (R3.3, R3.9–R3.12).
    pub fn give_back(&mut self, id: BlockId) {
        // While the block is live, so that a free that was put off does not take it for a listed neighbour.
        self.catch_up();
        self.retire(id);
        self.complete_free(id);
    }

    /// Hands out the first `size` bytes of a block (`split`), or all of it. Returns the live block, and how the inactive-split
    /// count and bytes changed.
    #[inline]
    pub fn hand_out_as(&mut self, id: BlockId, size: u64, requested: u64, split: bool) -> (BlockId, (i64, i64)) {
        let block = &self.blocks[id];
        let (was_split, expandable, whole) = (block.is_split(), block.expandable, block.size);
        let live = if split {
            let front = self.split_front(id, size);
            self.insert_free(id);
            front
        } else {
            id
        };
        // How inactive-split count and bytes change; not for expandable blocks (R2.51).
        let before = if was_split { (1, whole as i64) } else { (0, 0) };
        let after = if split { (1, (whole - size) as i64) } else { (0, 0) };
        let change = if expandable { (0, 0) } else { (after.0 - before.0, after.1 - before.1) };
        self.counters.change(Metric::InactiveSplit, change.0);
        self.counters.change(Metric::InactiveSplitBytes, change.1);
        self.make_live(live, requested);
        (live, change)
    }

    /// The books of a hand-out (R2.50).
    #[inline]
    pub fn make_live(&mut self, id: BlockId, requested: u64) {
        let block = &mut self.blocks[id];
        block.allocated = true;
        block.requested = requested;
        let (addr, size, segment) = (block.addr, block.size, block.segment);
        let segment = self.segment_at_mut(segment);
        segment.live.insert(addr - segment.base, id);
        self.counters.hand_out(size, requested);
        if size >= self.policy.max_split_size {
            self.counters.raise(Metric::OversizeAllocations, 1);
        }
    }

    /// Cuts the first `size` bytes off a block that is in no list; the tail keeps the block's place in the slab (R1.16).
    pub fn split_front(&mut self, id: BlockId, size: u64) -> BlockId {
        let rest = &mut self.blocks[id];
        let front = Block { size, next: id, ..rest.clone() };
        rest.addr += size;
        rest.position += size;
        rest.size -= size;
        let (prev, segment) = (front.prev, front.segment);
        let front = self.blocks.insert(front);
        self.blocks[id].prev = front;
        match prev {
            NONE => self.segment_at_mut(segment).head = front,
            prev => self.blocks[prev].next = front,
        }
        front
    }

    /// Cuts everything after the first `size` bytes off a block that is in no list; returns the new tail.
    pub fn split_back(&mut self, id: BlockId, size: u64) -> BlockId {
        let block = &mut self.blocks[id];
        let (addr, position) = (block.addr + size, block.position + size);
        let tail = Block { addr, position, size: block.size - size, prev: id, ..block.clone() };
        block.size = size;
        let next = tail.next;
        let tail = self.blocks.insert(tail);
        self.blocks[id].next = tail;
        if next != NONE {
            self.blocks[next].prev = tail;
        }
        tail
    }

    /// Takes a free block out of the list and cuts it down to [start, start+size): what lies before and behind stays free.
    /// Returns what lies before.
    pub fn carve(&mut self, id: BlockId, start: u64, size: u64) -> Option<BlockId> {
        self.remove_free(id);
        let before = start - self.blocks[id].addr;
        let front = (before > 0).then(|| self.split_front(id, before));
        if let Some(front) = front {
            self.insert_free(front);
        }
        if self.blocks[id].size > size {
            let back = self.split_back(id, size);
            self.insert_free(back);
        }
        front
    }

    /// A block in no list has no memory any more: it merges with unmapped neighbours. Returns it if it is all of its segment.
    pub fn join_unmapped(&mut self, id: BlockId) -> Option<BlockId> {
        self.blocks[id].mapped = false;
        let id = self.join(id).block;
        let block = &self.blocks[id];
        self.unmapped.insert(block.addr, id);
        (!block.is_split()).then_some(id)
    }

    /// The free call's part of the books (R3.3): the block is no longer live, but still active.
    #[inline(always)]
    pub fn retire(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        block.allocated = false;
        let (addr, size, segment) = (block.addr, block.size, block.segment);
        let segment = self.segment_at_mut(segment);
        segment.live.vacate(addr - segment.base);
        self.counters.lower(Metric::Allocation, 1);
        self.counters.lower(Metric::AllocatedBytes, size);
        if size >= self.policy.max_split_size {
            self.counters.lower(Metric::OversizeAllocations, 1);
        }
    }

    /// Returns a retired block that waits for nothing to the free list, merged with its neighbours (R3.10–R3.12).
    #[inline(always)]
    pub fn complete_free(&mut self, id: BlockId) {
        self.count_inactive(id);
        let Joined { block: id, neighbours, bytes } = self.merge(id);
        let block = &self.blocks[id];
        if !block.expandable {
            // One net update per free, as a rise or as a fall (R3.11).
            let gained = if block.is_split() { (1, block.size as i64) } else { (0, 0) };
            self.counters.change(Metric::InactiveSplit, gained.0 - neighbours);
            self.counters.change(Metric::InactiveSplitBytes, gained.1 - bytes as i64);
        }
    }

    /// The books of a block that is no longer active (R3.12); its stack goes.
    #[inline(always)]
    pub fn count_inactive(&mut self, id: BlockId) {
        if !self.stacks.is_empty() {
            self.stacks.remove(&id);
        }
        let block = &self.blocks[id];
        let (size, requested) = (block.size, block.requested);
        self.counters.lower(Metric::Active, 1);
        self.counters.lower(Metric::ActiveBytes, size);
        self.counters.lower(Metric::RequestedBytes, requested);
    }

    /// Merges an idle block with its idle neighbours and lists it.
    #[inline(always)]
    pub fn merge(&mut self, id: BlockId) -> Joined {
        let joined = self.join(id);
        self.insert_free(joined.block);
        joined
    }

    /// Merges a block in no list with its idle neighbours of the same kind (R3.14). The result is in no list.
    #[inline(always)]
    fn join(&mut self, id: BlockId) -> Joined {
        let Block { prev, next, mapped, .. } = self.blocks[id];
        let mut joined = Joined { block: id, neighbours: 0, bytes: 0 };
        // The one in front goes on, so that nothing before it changes.
        if let Some(bytes) = self.unlist(prev, mapped) {
            self.extend(prev, id);
            joined = Joined { block: prev, neighbours: 1, bytes };
        }
        if let Some(bytes) = self.unlist(next, mapped) {
            self.extend(joined.block, next);
            joined.neighbours += 1;
            joined.bytes += bytes;
        }
        joined
    }

    /// Takes a neighbour out of its list, if it is idle and has memory as `mapped` says. Returns its bytes.
    #[inline]
    fn unlist(&mut self, id: BlockId, mapped: bool) -> Option<u64> {
        if mapped {
            // What is idle and has memory is in the free list.
            if !self.blocks.is_listed(id) {
                return None;
            }
            self.remove_free(id);
        } else {
            if id == NONE || self.blocks[id].mapped || !self.blocks[id].is_idle() {
                return None;
            }
            self.unmapped.remove(&self.blocks[id].addr);
        }
        Some(self.blocks[id].size)
    }

    /// The block `back`, which follows `front`, becomes a part of it.
    #[inline]
    fn extend(&mut self, front: BlockId, back: BlockId) {
        let Block { size, next, .. } = self.blocks[back];
        self.blocks.remove(back);
        let block = &mut self.blocks[front];
        block.size += size;
        block.next = next;
        if next != NONE {
            self.blocks[next].prev = front;
        }
    }

    /// The blocks of a segment in address order.
    pub fn blocks_of(&self, segment: &Segment) -> impl Iterator<Item = (BlockId, &Block)> {
        let mut next = segment.head;
        std::iter::from_fn(move || {
            let id = (next != NONE).then_some(next)?;
            let block = &self.blocks[id];
            next = block.next;
            Some((id, block))
        })
    }
}
