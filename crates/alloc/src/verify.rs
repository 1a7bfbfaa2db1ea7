//! Recounting everything from the blocks, and checking every invariant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rustc_hash::FxHashMap;

use crate::allocator::Allocator;
use crate::block::{BlockId, NONE};
use crate::device::Held;
use crate::pool::Pool;
use crate::segment::{Segment, Source};
use crate::size::SizeClass;
use crate::stats::Metric;

/// Something that is not as it must be: a fault of the allocator, never of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Allocator {
    /// Recounts all figures from the blocks and checks every invariant, as one cut through all pools. Costs time
    /// proportional to the number of blocks; meant for tests, fuzzers and doubt.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn verify(&self) -> Result<(), Vec<Violation>> {
        let held = self.core.hold();
        let mut wrong = Vec::new();
        held.check_pools(&mut wrong);
        held.check_waiting(&mut wrong);
        held.check_homes(&mut wrong);
        held.check_sums(&mut wrong);
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

macro_rules! check {
    ($wrong:expr, $condition:expr, $($text:tt)*) => {
        if !$condition {
            $wrong.push(Violation(format!($($text)*)));
        }
    };
}

impl Held<'_> {
    fn check_pools(&self, wrong: &mut Vec<Violation>) {
        let mut owned = BTreeSet::new();
        let is_on = self.core.journal.is_on();
        for pool in &self.pools {
            check!(wrong, pool.log.is_some() == is_on, "events are wanted: {is_on}, but not by {:?}", pool.key);
        }
        for (id, memory_pool) in &self.ladder.memory_pools {
            for (class, family) in SizeClass::ALL.iter().zip(&memory_pool.families) {
                for (raw, &index) in &family.pools {
                    let key = self.pools[index as usize].key;
                    let right = key.memory_pool == *id && key.class == *class && key.stream.raw == *raw;
                    check!(
                        wrong,
                        right && owned.insert(index),
                        "pool {index} is listed as {id} {class:?} {raw}, and is {key:?}"
                    );
                }
            }
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let vacant = self.ladder.vacant[pool.key.class as usize].contains(&(index as u32));
            check!(
                wrong,
                vacant != owned.contains(&(index as u32)),
                "pool {index} is neither used nor vacant, or both"
            );
            check!(wrong, !vacant || pool.blocks.len() == 0, "vacant pool {index} has blocks");
            check_pool(pool, self.is_asleep(pool.key.memory_pool), wrong);
            for segment in pool.segments.iter().flatten() {
                for (id, block) in pool.blocks_of(segment).filter(|(_, block)| block.mapped) {
                    let found = self.core.index.find(block.addr).map(|place| place.pool);
                    check!(
                        wrong,
                        found == Some(index as u32),
                        "block {id} at {:#x} is indexed as {found:?}, not {index}",
                        block.addr
                    );
                }
            }
        }
    }

    /// Every block that waits is in exactly one queue per event, or deferred.
    fn check_waiting(&self, wrong: &mut Vec<Violation>) {
        let mut events: FxHashMap<(u32, BlockId), u32> = FxHashMap::default();
        for (_, queue) in self.ladder.queues.iter() {
            for waiting in queue {
                *events.entry((waiting.pool, waiting.block)).or_default() += 1;
            }
        }
        for waiting in self.ladder.leaving.blocks() {
            *events.entry(waiting).or_default() += 1;
        }
        let deferred: BTreeSet<_> =
            self.ladder.deferred.iter().map(|deferred| (deferred.pool, deferred.block)).collect();
        check!(wrong, deferred.len() == self.ladder.deferred.len(), "a block is deferred twice");
        for (index, pool) in self.pools.iter().enumerate() {
            for (id, block) in pool.blocks.iter() {
                let key = (index as u32, id);
                let recorded = events.remove(&key).unwrap_or(0);
                check!(
                    wrong,
                    recorded == block.events,
                    "block at {:#x} waits for {} events, {recorded} are queued",
                    block.addr,
                    block.events
                );
                let waits = block.used && !block.allocated;
                check!(
                    wrong,
                    waits == deferred.contains(&key),
                    "block at {:#x}: used {}, live {}, not so among the deferred",
                    block.addr,
                    block.used,
                    block.allocated
                );
                let uses = pool.uses.get(&id).is_some_and(|uses| !uses.streams.is_empty());
                check!(wrong, uses == block.used, "block at {:#x}: recorded streams and mark differ", block.addr);
            }
        }
        check!(wrong, events.is_empty(), "events wait for blocks that are not there: {events:?}");
    }

    /// Every page has one home.
    fn check_homes(&self, wrong: &mut Vec<Violation>) {
        let mut homes: BTreeMap<_, u64> = BTreeMap::new();
        for segment in self.pools.iter().flat_map(|pool| pool.segments.iter().flatten()) {
            let Source::Expandable(pages) = &segment.source else { continue };
            for number in pages.ranges().flatten() {
                let here = segment.base + number * pages.size;
                if let Some(handle) = pages.get(number)
                    && let Some(other) = homes.insert(handle, here)
                {
                    wrong.push(Violation(format!("a page is at home at {other:#x} and at {here:#x}")));
                }
            }
        }
    }

    fn check_sums(&self, wrong: &mut Vec<Violation>) {
        let reserved: i64 = self.pools.iter().map(|pool| pool.counters.current(Metric::ReservedBytes)).sum();
        check!(
            wrong,
            reserved == self.ladder.total_allocated as i64,
            "{reserved} bytes are reserved, {} are booked",
            self.ladder.total_allocated
        );
        let mut private: BTreeMap<_, u64> = BTreeMap::new();
        for pool in self.pools.iter().filter(|pool| pool.key.memory_pool.is_private()) {
            *private.entry(pool.key.memory_pool).or_default() += held_bytes(pool);
        }
        for (id, stats) in &self.ladder.by_private_pool {
            let bytes = private.remove(id).unwrap_or(0);
            check!(
                wrong,
                stats[0].current == bytes as i64,
                "memory pool {id} holds {bytes} bytes, {} are booked",
                stats[0].current
            );
        }
        check!(wrong, private.values().all(|&bytes| bytes == 0), "memory pools hold unbooked bytes: {private:?}");
        self.ladder.peaks.check(&self.counters(), &mut |text| wrong.push(Violation(text)));
        let mut ranges: Vec<(u64, u64)> = self
            .pools
            .iter()
            .flat_map(|pool| pool.segments.iter().flatten().map(|segment| (segment.base, segment.size)))
            .collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            check!(wrong, pair[0].0 + pair[0].1 <= pair[1].0, "segments overlap: {pair:x?}");
        }
    }
}

/// Bytes a pool holds from the driver, counted from its segments.
fn held_bytes(pool: &Pool) -> u64 {
    pool.segments.iter().flatten().map(Segment::held_bytes).sum()
}

fn check_pool(pool: &Pool, asleep: bool, wrong: &mut Vec<Violation>) {
    let mut seen = 0;
    for (index, segment) in
        pool.segments.iter().enumerate().filter_map(|(index, segment)| Some((index, segment.as_ref()?)))
    {
        seen += check_segment(pool, (index as u32, segment), asleep, wrong);
    }
    let mut segments: Vec<_> = pool.segments.iter().flatten().collect();
    segments.sort_unstable_by_key(|segment| (segment.counter, segment.base));
    let positions = segments.iter().map(|segment| pool.blocks[segment.head].position);
    check!(wrong, positions.is_sorted(), "the positions of {:?} are not in the order of age", pool.key);
    check!(wrong, seen == pool.blocks.len(), "{} blocks, {seen} in segments", pool.blocks.len());
    let free = pool.blocks.iter().filter(|(_, block)| block.is_free());
    let (count, bytes) = free.fold((0, 0), |(count, bytes), (_, block)| (count + 1, bytes + block.size));
    check!(
        wrong,
        pool.free.len() == count && pool.free.bytes() == bytes,
        "{count} free blocks of {bytes} bytes, listed {} of {}",
        pool.free.len(),
        pool.free.bytes()
    );
    for entry in pool.free.iter(&pool.blocks) {
        let block = &pool.blocks[entry.block];
        let right = block.is_free() && (block.size, block.position) == (entry.size, entry.position);
        check!(wrong, right, "the free list says {entry:?}, the block is {block:?}");
    }
    let marked = pool.blocks.iter().filter(|&(id, _)| pool.blocks.is_listed(id)).count();
    check!(wrong, marked == count, "{count} free blocks, {marked} marked as listed");
    check!(wrong, pool.free.is_consistent(&pool.blocks), "the bitmap of the free list of {:?} is wrong", pool.key);
    for (&addr, &id) in &pool.unmapped {
        check!(wrong, !pool.blocks[id].mapped && pool.blocks[id].addr == addr, "no unmapped block at {addr:#x}");
    }
    check_counters(pool, wrong);
}

/// The blocks of a segment tile it, are linked both ways, and idle neighbours are merged. Returns how many there are.
fn check_segment(pool: &Pool, (index, segment): (u32, &Segment), asleep: bool, wrong: &mut Vec<Violation>) -> usize {
    let (mut at, mut before, mut count) = (segment.base, NONE, 0);
    let first = pool.blocks[segment.head].position;
    for (id, block) in pool.blocks_of(segment) {
        count += 1;
        let in_order = block.prev == before && block.position - first == block.addr - segment.base;
        let linked = block.addr == at && in_order && block.segment == index && block.size > 0;
        check!(wrong, linked, "block {id} {block:?} does not follow {before} in its segment at {:#x}", segment.base);
        if before != NONE {
            let last = &pool.blocks[before];
            let apart = !last.is_idle() || !block.is_idle() || last.mapped != block.mapped;
            check!(wrong, apart, "idle neighbours at {:#x} and {:#x} are not merged", last.addr, block.addr);
        }
        let in_use = block.allocated || block.used;
        check!(wrong, block.mapped || !in_use, "a block in use at {:#x} has no memory", block.addr);
        let listed = pool.unmapped.get(&block.addr) == Some(&id);
        check!(
            wrong,
            listed != (block.mapped || block.is_leaving()),
            "block at {:#x}: mapped {}, listed as unmapped {listed}",
            block.addr,
            block.mapped
        );
        let found = segment.live.get(block.addr - segment.base) == Some(id);
        check!(wrong, found || !block.allocated, "the live block at {:#x} is not found", block.addr);
        if let Source::Expandable(pages) = &segment.source {
            let offset = block.addr - segment.base;
            let backed = pages.touching(offset, block.size).all(|page| pages.get(page).is_some());
            let bare = pages.touching(offset, block.size).all(|page| pages.get(page).is_none());
            check!(
                wrong,
                if block.mapped { backed || asleep } else { bare },
                "block at {:#x}: mapped {}, pages say otherwise",
                block.addr,
                block.mapped
            );
        }
        (at, before) = (block.end(), id);
        if count > pool.blocks.len() {
            wrong.push(Violation(format!("the blocks of the segment at {:#x} run in a circle", segment.base)));
            break;
        }
    }
    check!(wrong, at == segment.base + segment.size, "the blocks of the segment at {:#x} end at {at:#x}", segment.base);
    count
}

fn check_counters(pool: &Pool, wrong: &mut Vec<Violation>) {
    let mut count: BTreeMap<Metric, u64> = BTreeMap::new();
    let mut add = |metric, by| *count.entry(metric).or_default() += by;
    for (_, block) in pool.blocks.iter() {
        if block.allocated {
            add(Metric::Allocation, 1);
            add(Metric::AllocatedBytes, block.size);
        }
        if block.is_active() {
            add(Metric::Active, 1);
            add(Metric::ActiveBytes, block.size);
            add(Metric::RequestedBytes, block.requested);
        } else if block.is_split() && !block.expandable {
            add(Metric::InactiveSplit, 1);
            add(Metric::InactiveSplitBytes, block.size);
        }
    }
    let whole = pool.segments.iter().flatten().filter(|segment| !matches!(segment.source, Source::Expandable(_)));
    add(Metric::Segment, whole.count() as u64);
    add(Metric::ReservedBytes, held_bytes(pool));
    for metric in Metric::ALL.into_iter().filter(|metric| metric.by_class()) {
        let (counted, kept) = (count.get(&metric).copied().unwrap_or(0) as i64, pool.counters.current(metric));
        check!(wrong, counted == kept, "{}: {counted} counted, {kept} kept, in {:?}", metric.key(), pool.key);
    }
}
