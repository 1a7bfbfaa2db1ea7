//! Which free pages may go, and which go first.

use std::ops::Range;

use millpond_driver::{CaptureStatus, Stream};

use super::Place;
use super::rest::Patience;
use crate::block::BlockId;
use crate::device::Held;
use crate::error::Result;
use crate::pool::Pool;
use crate::private::PoolId;
use crate::segment::{Pages, Source};

/// Free pages in a row, in one free block.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub pool: u32,
    pub block: BlockId,
    /// By number in their segment.
    pub pages: Range<u64>,
    pub stream: Stream,
}

impl Run {
    pub fn len(&self) -> u64 {
        self.pages.end - self.pages.start
    }
}

impl Held<'_> {
    /// Whether a memory pool's free pages may go elsewhere.
    ///
    /// Those of a pool into which a capture has allocated may not, for as long as the pool has an owner: a graph that is launched
    /// later uses the addresses, and the allocator cannot see launches. A checkpoint names addresses that must come back. A
    /// custom allocator's memory has no pages, a pool that hands out whole blocks has no free part of one, and asleep a pool
    /// has no memory.
    pub(super) fn gives(&self, id: PoolId) -> bool {
        self.ladder.memory_pools.get(&id).is_some_and(|pool| {
            let replayed = pool.captured && pool.use_count > 0;
            !replayed && !pool.has_checkpoints() && pool.custom.is_none() && !pool.no_split && pool.asleep.is_none()
        })
    }

    /// Whether a stream records into a graph now.
    pub(super) fn is_capturing(&self, stream: Stream) -> Result<bool> {
        Ok(self.ladder.captures > 0 && self.core.driver.capture_status(stream)? != CaptureStatus::None)
    }

    /// Free pages for a place, at most as many as it needs. First from its own stream, where nobody has to wait; then from other
    /// streams, the default pools before the private ones. Of those, first from the blocks that are worth least, the small ones.
    pub(super) fn choose(&self, to: u32, place: &Place, patience: Patience) -> Result<Vec<Run>> {
        if patience == Patience::NONE {
            return Ok(Vec::new());
        }
        let stream = self.pools[to as usize].key.stream;
        let mut found = Vec::new();
        for (index, pool) in (0..).zip(&self.pools) {
            let key = pool.key;
            if pool.free.largest().is_none_or(|size| size < place.page)
                || !self.gives(key.memory_pool)
                || self.is_capturing(key.stream)?
            {
                continue;
            }
            let rank = (key.stream != stream, index != to, key.memory_pool.is_private());
            let own = if index == to { place.own.as_slice() } else { &[] };
            let may_go = |pages: &Pages, base: u64, number: u64| {
                !patience.is_over(pages, number) && !self.ladder.pins.hold(base + number * pages.size, pages.size)
            };
            let mut runs = free_runs(index, pool, place.page, may_go);
            runs.retain(|(_, run)| !own.contains(&run.block));
            found.extend(runs.into_iter().map(|(size, run)| (rank, size, run)));
        }
        found.sort_by_key(|(rank, size, run)| (*rank, *size, run.pages.start));
        let mut missing = place.pages;
        let mut chosen = Vec::new();
        for (_, _, mut run) in found {
            if missing == 0 {
                break;
            }
            // The rest of a block stays in one piece, at its front.
            run.pages.start = run.pages.end - run.len().min(missing);
            missing -= run.len();
            chosen.push(run);
        }
        Ok(chosen)
    }
}

/// The runs of whole pages in a pool's free blocks that may go, each with the size of its block.
fn free_runs(index: u32, pool: &Pool, page: u64, may_go: impl Fn(&Pages, u64, u64) -> bool) -> Vec<(u64, Run)> {
    let mut runs: Vec<(u64, Run)> = Vec::new();
    for entry in pool.free.iter(&pool.blocks).rev().take_while(|entry| entry.size >= page) {
        let segment = pool.segment(entry.block);
        let Source::Expandable(pages) = &segment.source else { continue };
        if pages.size != page {
            continue;
        }
        let mut start = None;
        for number in pages.inside(pool.blocks[entry.block].addr - segment.base, entry.size) {
            if !may_go(pages, segment.base, number) {
                start = None;
                continue;
            }
            match (start, runs.last_mut()) {
                (Some(()), Some((_, run))) => run.pages.end = number + 1,
                _ => {
                    let pages = number..number + 1;
                    runs.push((entry.size, Run { pool: index, block: entry.block, pages, stream: pool.key.stream }));
                    start = Some(());
                }
            }
        }
    }
    runs
}
