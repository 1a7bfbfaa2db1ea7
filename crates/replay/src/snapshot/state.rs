//! The state of a device at the start of its trace: the final segments, with the trace run backwards.

use std::collections::BTreeMap;

use millpond::config::Settings;
use millpond::size::{self, SizeClass};
use millpond::{BlockState, BlockUse, PoolId, SegmentState};
use millpond_driver::{Device, Stream};
use millpond_snapshot::{Action, BlockState as Saved, SegmentType, Snapshot, TraceEntry};

/// One MiB.
const MIB: u64 = 1 << 20;

/// A block that is live or pending.
#[derive(Clone, Copy, Debug)]
struct Active {
    size: u64,
    requested: u64,
    pending: bool,
}

/// A contiguous range of memory: a plain segment, or a mapped range of an expandable one.
#[derive(Clone, Copy, Debug)]
struct Range {
    size: u64,
    stream: u64,
    class: SizeClass,
    pool: PoolId,
    expandable: bool,
}

/// What a device held at one moment of a trace.
#[derive(Clone, Debug, Default)]
pub struct State {
    ranges: BTreeMap<u64, Range>,
    active: BTreeMap<u64, Active>,
    settings: Settings,
    /// Entries that did not fit the state they should have led to.
    pub contradictions: u64,
}

/// Whether a range of addresses can be a device's memory: a damaged file may name any number, and sums of such are none.
pub fn is_memory(addr: u64, size: u64) -> bool {
    const MOST: u64 = 1 << 44;
    size <= MOST && addr.checked_add(size).is_some()
}

pub(crate) fn pool_id(pool: Option<millpond_snapshot::PoolId>) -> PoolId {
    let (first, second) = pool.unwrap_or_default().pair();
    PoolId(first, second)
}

impl State {
    /// The final state that a snapshot gives for a device.
    pub fn last(snapshot: &Snapshot, device: usize, settings: &Settings) -> Self {
        let mut state = State { settings: settings.clone(), ..State::default() };
        for segment in snapshot.segments.iter().filter(|segment| segment.device == device as i32) {
            let class = match segment.segment_type {
                SegmentType::Small => SizeClass::Small,
                SegmentType::Large => SizeClass::Large,
            };
            let size = segment.blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.size));
            if !is_memory(segment.address, size)
                || segment.blocks.iter().any(|block| !is_memory(block.address, block.size))
            {
                state.contradictions += 1;
                continue;
            }
            let range = Range {
                size,
                stream: segment.stream,
                class,
                pool: pool_id(segment.pool),
                expandable: segment.is_expandable,
            };
            state.ranges.insert(segment.address, range);
            for block in segment.blocks.iter().filter(|block| block.state != Saved::Inactive) {
                let pending = block.state == Saved::ActivePendingFree;
                state
                    .active
                    .insert(block.address, Active { size: block.size, requested: block.requested_size, pending });
            }
        }
        state
    }

    /// Takes the whole trace back, newest entry first.
    pub fn rewind(self, trace: &[TraceEntry]) -> Self {
        self.rewind_seeing(trace, |_, _| ())
    }

    /// As [`State::rewind`]; `seen` is told the index of every allocation and the bytes of its block, which a trace does not
    /// say.
    pub fn rewind_seeing(mut self, trace: &[TraceEntry], mut seen: impl FnMut(usize, u64)) -> Self {
        for (index, entry) in trace.iter().enumerate().rev() {
            if entry.action == Action::Alloc {
                let block = self.active.get(&entry.addr).map(|block| block.size);
                seen(index, block.unwrap_or_else(|| self.round(entry.size)));
            }
            self.undo(entry);
        }
        self
    }

    /// Takes one entry back.
    fn undo(&mut self, entry: &TraceEntry) {
        let (addr, size) = (entry.addr, entry.size);
        if !is_memory(addr, size) && entry.action != Action::Oom {
            self.contradictions += 1;
            return;
        }
        match entry.action {
            Action::Alloc => self.contradictions += u64::from(self.active.remove(&addr).is_none()),
            Action::FreeRequested => match self.active.get_mut(&addr) {
                Some(block) => block.pending = false,
                // Some tools write no free_completed.
                None => self.revive(entry, false),
            },
            Action::FreeCompleted => self.revive(entry, true),
            Action::SegmentAlloc | Action::SegmentMap => self.unmake(addr, size),
            Action::SegmentFree | Action::SegmentUnmap => self.remake(entry, entry.action == Action::SegmentUnmap),
            Action::Oom | Action::Snapshot | Action::Annotate | Action::Other => {}
        }
    }

    /// A freed block is live or pending again. The trace names only what was asked for: the block is that, rounded, and what
    /// follows it up to the next one if a block that small could not have been free by itself (R1.13, R1.14).
    fn revive(&mut self, entry: &TraceEntry, pending: bool) {
        let rounded = self.round(entry.size);
        let Some((&base, range)) = self.ranges.range(..=entry.addr).next_back() else {
            self.contradictions += 1;
            return;
        };
        let end = base + range.size;
        let next = self.active.range(entry.addr + 1..).next().map_or(end, |(&next, _)| next.min(end));
        let room = next.saturating_sub(entry.addr);
        let splits_finely = range.expandable || range.class == SizeClass::Small;
        let smallest_rest = if splits_finely { size::MIN_BLOCK } else { size::SMALL_SIZE + 1 };
        let size = if room.saturating_sub(rounded) < smallest_rest { room } else { rounded };
        if room < rounded {
            self.contradictions += 1;
        }
        self.active.insert(entry.addr, Active { size: size.max(size::MIN_BLOCK), requested: entry.size, pending });
    }

    fn round(&self, requested: u64) -> u64 {
        let divisions = self.settings.roundup_power2_divisions[size::division_interval(requested)];
        size::round(requested, divisions)
    }

    /// Memory that the entry made is gone; what is left of its range keeps its place.
    fn unmake(&mut self, addr: u64, bytes: u64) {
        let found = self.ranges.range(..=addr).next_back().map(|(&base, &range)| (base, range));
        let Some((base, range)) = found.filter(|(base, range)| addr + bytes <= base + range.size) else {
            self.contradictions += 1;
            return;
        };
        self.ranges.remove(&base);
        if addr > base {
            self.ranges.insert(base, Range { size: addr - base, ..range });
        }
        let rest = base + range.size - (addr + bytes);
        if rest > 0 {
            self.ranges.insert(addr + bytes, Range { size: rest, ..range });
        }
    }

    /// Memory that the entry gave back is there again, free.
    fn remake(&mut self, entry: &TraceEntry, expandable: bool) {
        let (addr, mut size, pool) = (entry.addr, entry.size, pool_id(entry.pool));
        let same = |range: &Range| range.expandable && expandable && range.stream == entry.stream && range.pool == pool;
        let before =
            self.ranges.range(..addr).next_back().filter(|(base, range)| *base + range.size == addr && same(range));
        let (before, after) = (before.map(|(&base, &range)| (base, range)), self.ranges.get(&(addr + size)).copied());
        let after = after.filter(same);
        let class = match before.map(|(_, range)| range.class).or(after.map(|range| range.class)) {
            Some(class) => class,
            None => self.class_of(size, expandable),
        };
        if let Some(after) = after {
            self.ranges.remove(&(addr + size));
            size += after.size;
        }
        let range = Range { size, stream: entry.stream, class, pool, expandable };
        match before {
            Some((base, before)) => self.ranges.insert(base, Range { size: before.size + size, ..before }),
            None => self.ranges.insert(addr, range),
        };
    }

    /// The class of a segment, told by its size (R1.10, R4.1).
    fn class_of(&self, size: u64, expandable: bool) -> SizeClass {
        let large = if expandable { size.is_multiple_of(self.settings.large_segment_size) } else { size != 2 * MIB };
        if large { SizeClass::Large } else { SizeClass::Small }
    }

    /// Bytes held from the driver.
    pub fn reserved(&self) -> u64 {
        self.ranges.values().map(|range| range.size).sum()
    }

    /// The least distance from the beginning of an expandable segment's memory to that of another pool, in whole pages: no
    /// reservation can have been longer. `None` where no such two follow each other.
    pub(super) fn reach(&self) -> Option<u64> {
        let mut least = None;
        let mut open: Option<(u64, &Range)> = None;
        for (&base, range) in &self.ranges {
            let is_same = |other: &Range| {
                let key = |range: &Range| (range.expandable, range.stream, range.class, range.pool);
                key(other) == key(range)
            };
            match open {
                Some((_, first)) if is_same(first) => continue,
                Some((from, first)) if first.expandable => {
                    let page = super::page(&self.settings, first.class);
                    let distance = (base - from) / page * page;
                    least = [least, Some(distance).filter(|&distance| distance > 0)].into_iter().flatten().min();
                }
                _ => {}
            }
            open = Some((base, range));
        }
        least
    }

    /// Blocks in use by address: the order in which they are placed under other settings. What made a segment lies before
    /// the trace, so its address stands for its age.
    pub fn in_use(&self) -> impl Iterator<Item = InUse> + '_ {
        self.ranges.iter().flat_map(|(&base, range)| {
            let blocks = self.active.range(base..base + range.size);
            blocks.map(|(&addr, block)| InUse {
                addr,
                requested: block.requested,
                stream: range.stream,
                pool: range.pool,
                pending: block.pending,
            })
        })
    }

    /// The segments, for [`millpond::Allocator::seed`]: plain ones whole, mapped ranges of the same pool gathered into
    /// reservations of `reserve(class)` bytes that begin at `bases` where those are known.
    pub fn segments(
        &self,
        device: Device,
        bases: &Bases,
        reserve: impl Fn(SizeClass) -> (u64, u64),
    ) -> Vec<SegmentState> {
        let mut segments: Vec<SegmentState> = Vec::new();
        for (&addr, range) in &self.ranges {
            let stream = Stream::new(device, range.stream);
            let blocks = self.blocks_of(addr, range.size);
            if !range.expandable {
                segments.push(segment(addr, range, stream, 0, blocks));
                continue;
            }
            let (bytes, page) = reserve(range.class);
            let open = segments.iter_mut().find(|segment| {
                segment.expandable
                    && (segment.stream, segment.class, segment.pool) == (stream, range.class, range.pool)
                    && addr + range.size <= segment.base + segment.size
            });
            match open {
                Some(open) => open.blocks.extend(blocks),
                None => {
                    let base = bases.base_of(addr, range.stream, range.pool).filter(|&base| (addr - base) % page == 0);
                    let mut made = segment(base.unwrap_or(addr), range, stream, page, blocks);
                    made.size = bytes.max(addr + range.size - made.base);
                    segments.push(made);
                }
            }
        }
        for segment in segments.iter_mut().filter(|segment| segment.expandable) {
            fill_gaps(segment);
        }
        segments
    }

    /// The blocks that tile [addr, addr+size): those in use, and what lies between as free ones.
    fn blocks_of(&self, addr: u64, size: u64) -> Vec<BlockState> {
        let (mut at, mut blocks) = (addr, Vec::new());
        let block = |addr, size, requested, state| BlockState { addr, size, requested, state, stack: None };
        for (&start, active) in self.active.range(addr..addr + size) {
            if start < at {
                continue;
            }
            if start > at {
                blocks.push(block(at, start - at, 0, BlockUse::Free));
            }
            let size = active.size.min(addr + size - start);
            let state = if active.pending { BlockUse::Pending } else { BlockUse::Live };
            blocks.push(block(start, size, active.requested, state));
            at = start + size;
        }
        if at < addr + size {
            blocks.push(block(at, addr + size - at, 0, BlockUse::Free));
        }
        blocks
    }
}

/// A block in use at the start of a trace.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    /// Its recorded address.
    pub addr: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Raw handle of its stream.
    pub stream: u64,
    /// Its memory pool.
    pub pool: PoolId,
    /// Given back, with other streams still using it.
    pub pending: bool,
}

/// Puts unmapped blocks where an expandable segment has no memory, so that its blocks tile it.
fn fill_gaps(segment: &mut SegmentState) {
    let (mut at, mut blocks) = (segment.base, Vec::with_capacity(segment.blocks.len() + 2));
    let gap = |addr, size| BlockState { addr, size, requested: 0, state: BlockUse::Unmapped, stack: None };
    for block in segment.blocks.drain(..) {
        if block.addr > at {
            blocks.push(gap(at, block.addr - at));
        }
        at = block.addr + block.size;
        blocks.push(block);
    }
    let end = segment.base + segment.size;
    if at < end {
        blocks.push(gap(at, end - at));
    }
    segment.blocks = blocks;
}

fn segment(base: u64, range: &Range, stream: Stream, page: u64, blocks: Vec<BlockState>) -> SegmentState {
    SegmentState {
        base,
        size: range.size,
        stream,
        class: range.class,
        pool: range.pool,
        expandable: range.expandable,
        page,
        counter: 0,
        stack: None,
        blocks,
    }
}

/// Where the expandable reservations of a recording begin, as far as its mapped addresses tell.
#[derive(Clone, Debug, Default)]
pub struct Bases {
    /// (stream, pool) and the lowest address of each cluster of mapped ranges.
    clusters: Vec<(u64, PoolId, u64)>,
}

impl Bases {
    /// Gathers the mapped ranges of a snapshot and its trace into clusters that one reservation could hold.
    pub fn of(snapshot: &Snapshot, device: usize, reserve: u64) -> Self {
        let segments =
            snapshot.segments.iter().filter(|segment| segment.device == device as i32 && segment.is_expandable);
        let mut seen: Vec<(u64, PoolId, u64)> =
            segments.map(|segment| (segment.stream, pool_id(segment.pool), segment.address)).collect();
        let maps =
            snapshot.trace(device).iter().filter(|e| matches!(e.action, Action::SegmentMap | Action::SegmentUnmap));
        seen.extend(maps.map(|entry| (entry.stream, pool_id(entry.pool), entry.addr)));
        seen.sort_unstable();
        let mut clusters: Vec<(u64, PoolId, u64)> = Vec::new();
        for (stream, pool, addr) in seen {
            let joined = clusters.last().is_some_and(|&(s, p, base)| (s, p) == (stream, pool) && addr - base < reserve);
            if !joined {
                clusters.push((stream, pool, addr));
            }
        }
        Bases { clusters }
    }

    /// The lowest address of the cluster that holds `addr`.
    pub fn base_of(&self, addr: u64, stream: u64, pool: PoolId) -> Option<u64> {
        let mine = self.clusters.iter().filter(|(s, p, base)| (*s, *p) == (stream, pool) && *base <= addr);
        mine.map(|&(_, _, base)| base).max()
    }
}
