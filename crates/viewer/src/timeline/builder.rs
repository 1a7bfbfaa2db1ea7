//! From events to lives.

use std::collections::BTreeMap;

use millpond::size::SizeClass;
use millpond::{Action, BlockUse, PoolId, SegmentState};
use millpond_snapshot::StackId;
use rustc_hash::FxHashMap;

use super::{Block, Event, Held, Life, NEVER, NONE, Pool, Segment, Subject, Timeline};

/// An event as its source tells it.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub at: u32,
    pub action: Action,
    /// First byte; of an out-of-memory error the free bytes of the device.
    pub addr: u64,
    /// Bytes asked for, held, or whatever the action counts.
    pub size: u64,
    /// Of an allocation: bytes of its block.
    pub block_size: u64,
    pub stream: u64,
    pub pool: PoolId,
    /// The class that the request behind the event is served from.
    pub class: SizeClass,
    pub stack: StackId,
    pub time_us: Option<u64>,
}

/// Writes a timeline, event by event.
#[derive(Debug, Default)]
pub struct Builder {
    timeline: Timeline,
    pools: FxHashMap<Pool, u32>,
    /// Address → block in use.
    active: FxHashMap<u64, u32>,
    /// First byte → held memory.
    held: BTreeMap<u64, u32>,
    /// First byte → segment that holds something.
    segments: BTreeMap<u64, u32>,
    /// Bytes that each segment holds.
    holds: Vec<u64>,
    /// Whether a free is complete as soon as it is requested, for nothing else will tell.
    completes_at_once: bool,
}

impl Builder {
    /// For a source that tells no completions: a block is free as soon as that is requested.
    pub fn completing_at_once(completes_at_once: bool) -> Self {
        Builder { completes_at_once, ..Builder::default() }
    }

    /// What is there before the first event.
    pub fn start(&mut self, segments: &[SegmentState], stack_of: impl Fn(u64) -> StackId) {
        for state in segments {
            let pool = self.pool(state.stream.raw, state.class, state.pool);
            let segment = self.add_segment(state.base, state.size, pool, state.expandable, 0);
            let mut mapped: Option<(u64, u64)> = None;
            for block in &state.blocks {
                if block.state == BlockUse::Unmapped {
                    mapped.take().into_iter().for_each(|(addr, end)| self.add_held(segment, addr, end - addr, 0));
                    continue;
                }
                mapped = Some((mapped.map_or(block.addr, |(addr, _)| addr), block.addr + block.size));
            }
            mapped.into_iter().for_each(|(addr, end)| self.add_held(segment, addr, end - addr, 0));
            for block in &state.blocks {
                let freed = match block.state {
                    BlockUse::Live => NEVER,
                    BlockUse::Pending => 0,
                    BlockUse::Free | BlockUse::Unmapped => continue,
                };
                self.active.insert(block.addr, self.timeline.blocks.len() as u32);
                self.timeline.blocks.push(Block {
                    segment,
                    addr: block.addr,
                    size: block.size,
                    requested: block.requested,
                    stack: stack_of(block.addr),
                    life: Life { born: 0, died: NEVER },
                    freed,
                });
            }
        }
    }

    /// One event. `reservation` names the first byte and the size of the expandable segment around an address.
    pub fn tell(&mut self, told: Told, reservation: impl FnOnce(u64) -> (u64, u64)) {
        let pool = self.pool(told.stream, told.class, told.pool);
        if told.action == Action::Alloc {
            self.take_back(&told, pool);
        }
        let after = self.timeline.events.len() as u32 + 1;
        let block = match told.action {
            Action::Alloc => Some(self.alloc(&told, after)),
            Action::FreeRequested => self.free(told.addr, after),
            Action::FreeCompleted => self.complete(told.addr, after),
            _ => None,
        };
        let subject = block.map_or(Subject::Range { addr: told.addr, size: told.size }, Subject::Block);
        match told.action {
            Action::SegmentAlloc => self.hold(told.addr, told.size, pool, None, after),
            Action::SegmentMap => {
                let known = self.segment_around(told.addr, pool);
                let (base, size) = match known {
                    Some(segment) => {
                        let segment = &self.timeline.segments[segment as usize];
                        (segment.base, segment.size)
                    }
                    None => reservation(told.addr),
                };
                self.hold(told.addr, told.size, pool, Some((base, size)), after);
            }
            Action::SegmentFree | Action::SegmentUnmap => self.let_go(told.addr, told.size, after),
            _ => {}
        }
        self.timeline.has_times |= told.time_us.is_some_and(|time| time > 0);
        self.timeline.events.push(Event {
            at: told.at,
            action: told.action,
            subject,
            pool,
            stack: told.stack,
            time_us: told.time_us.unwrap_or(0),
        });
    }

    /// The timeline.
    pub fn finish(self) -> Timeline {
        self.timeline
    }

    fn pool(&mut self, stream: u64, class: SizeClass, id: PoolId) -> u32 {
        let pool = Pool { stream, class: class.name(), id };
        *self.pools.entry(pool).or_insert_with(|| {
            self.timeline.pools.push(pool);
            self.timeline.pools.len() as u32 - 1
        })
    }

    /// An address cannot have two owners: where the recording lost a free, the block ends by an event that we add, so that
    /// every block begins and ends with an event of its own.
    fn take_back(&mut self, told: &Told, pool: u32) {
        let Some(former) = self.active.remove(&told.addr) else { return };
        self.timeline.contradictions += 1;
        self.timeline.events.push(Event {
            at: told.at,
            action: Action::FreeCompleted,
            subject: Subject::Block(former),
            pool,
            stack: StackId::EMPTY,
            time_us: told.time_us.unwrap_or(0),
        });
        self.end(former, self.timeline.events.len() as u32);
    }

    fn alloc(&mut self, told: &Told, after: u32) -> u32 {
        let index = self.timeline.blocks.len() as u32;
        self.timeline.blocks.push(Block {
            segment: self.segment_at(told.addr),
            addr: told.addr,
            size: told.block_size,
            requested: told.size,
            stack: told.stack,
            life: Life { born: after, died: NEVER },
            freed: NEVER,
        });
        self.active.insert(told.addr, index);
        index
    }

    fn free(&mut self, addr: u64, after: u32) -> Option<u32> {
        let Some(&index) = self.active.get(&addr) else { return self.unknown() };
        self.timeline.blocks[index as usize].freed = after;
        if self.completes_at_once {
            self.active.remove(&addr);
            self.end(index, after);
        }
        Some(index)
    }

    fn complete(&mut self, addr: u64, after: u32) -> Option<u32> {
        let Some(index) = self.active.remove(&addr) else { return self.unknown() };
        self.end(index, after);
        Some(index)
    }

    fn unknown(&mut self) -> Option<u32> {
        self.timeline.contradictions += 1;
        None
    }

    fn end(&mut self, block: u32, after: u32) {
        let block = &mut self.timeline.blocks[block as usize];
        block.life.died = after;
        block.freed = block.freed.min(after);
    }

    /// The segment whose held memory has an address.
    fn segment_at(&self, addr: u64) -> u32 {
        let held = self.held.range(..=addr).next_back().map(|(_, &held)| self.timeline.held[held as usize]);
        held.filter(|held| addr - held.addr < held.size).map_or(NONE, |held| held.segment)
    }

    /// The expandable segment of a pool that has set an address aside.
    fn segment_around(&self, addr: u64, pool: u32) -> Option<u32> {
        let (_, &index) = self.segments.range(..=addr).next_back()?;
        let segment = &self.timeline.segments[index as usize];
        let is_it = segment.expandable && segment.pool == pool && addr - segment.base < segment.size;
        is_it.then_some(index)
    }

    fn hold(&mut self, addr: u64, size: u64, pool: u32, reservation: Option<(u64, u64)>, after: u32) {
        if size == 0 || addr.checked_add(size).is_none() {
            self.timeline.contradictions += 1;
            return;
        }
        if self.overlapping(addr, addr + size).is_some() {
            // Memory cannot be handed over twice: the recording lost what came between.
            self.timeline.contradictions += 1;
            self.let_go(addr, size, after);
        }
        let segment = match reservation {
            Some((base, bytes)) => self
                .segment_around(addr, pool)
                .unwrap_or_else(|| self.add_segment(base.min(addr), bytes.max(size), pool, true, after)),
            None => self.add_segment(addr, size, pool, false, after),
        };
        self.add_held(segment, addr, size, after);
    }

    fn let_go(&mut self, addr: u64, size: u64, after: u32) {
        let end = addr.saturating_add(size);
        let mut found = false;
        while let Some(index) = self.overlapping(addr, end) {
            found = true;
            let Held { segment, addr: from, size: bytes, .. } = self.timeline.held[index as usize];
            self.held.remove(&from);
            self.timeline.held[index as usize].life.died = after;
            self.holds[segment as usize] -= bytes;
            if from < addr {
                self.add_held(segment, from, addr - from, after);
            }
            if from + bytes > end {
                self.add_held(segment, end, from + bytes - end, after);
            }
            if self.holds[segment as usize] == 0 {
                let segment = &mut self.timeline.segments[segment as usize];
                segment.life.died = after;
                self.segments.remove(&segment.base);
            }
        }
        self.timeline.contradictions += u64::from(!found);
    }

    /// Held memory with an address in [from, to): the last such.
    fn overlapping(&self, from: u64, to: u64) -> Option<u32> {
        let (_, &index) = self.held.range(..to).next_back()?;
        let held = &self.timeline.held[index as usize];
        (held.addr + held.size > from).then_some(index)
    }

    fn add_segment(&mut self, base: u64, size: u64, pool: u32, expandable: bool, born: u32) -> u32 {
        let index = self.timeline.segments.len() as u32;
        let life = Life { born, died: NEVER };
        self.timeline.segments.push(Segment { base, size, pool, expandable, life });
        self.holds.push(0);
        self.segments.insert(base, index);
        index
    }

    fn add_held(&mut self, segment: u32, addr: u64, size: u64, born: u32) {
        self.held.insert(addr, self.timeline.held.len() as u32);
        self.holds[segment as usize] += size;
        self.timeline.held.push(Held { segment, addr, size, life: Life { born, died: NEVER } });
    }
}
