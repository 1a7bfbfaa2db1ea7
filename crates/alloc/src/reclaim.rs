//! Giving memory back: collection, release under pressure, emptying (R2.18–R2.26, R2.31–R2.37).

use crate::block::BlockId;
use crate::caller::Caller;
use crate::device::{Happened, Held, Return};
use crate::error::Result;
use crate::event::Action;
use crate::pool::Fit;
use crate::private::PoolId;
use crate::segment::Source;
use crate::size::SizeClass;
use crate::stats::Metric;

impl Held<'_> {
    /// The pools of a memory pool and class, in the order of stream handles.
    pub fn family(&self, id: PoolId, class: SizeClass) -> Vec<u32> {
        self.ladder
            .memory_pools
            .get(&id)
            .map(|pool| pool.families[class as usize].pools.values().copied().collect())
            .unwrap_or_default()
    }

    /// Releases old whole blocks of the default large pools until what is held falls below the threshold (R2.18–R2.23).
    pub fn collect_garbage(&mut self, caller: &Caller<'_>) -> Result<()> {
        let Some(limit) = self.ladder.limit else { return Ok(()) };
        let goal = (self.ladder.settings.garbage_collection_threshold * limit as f64) as u64;
        let Some(target) = self.ladder.total_allocated.checked_sub(goal).filter(|&excess| excess > 0) else {
            return Ok(());
        };
        let pools = self.family(PoolId::DEFAULT, SizeClass::Large);
        let (mut total_age, mut count) = (0.0, 0u64);
        let mut candidates = Vec::new();
        for pool in pools {
            let held = &self.pools[pool as usize];
            let now = held.clock.load(std::sync::atomic::Ordering::Relaxed);
            for entry in held.free.iter(&held.blocks) {
                let block = &held.blocks[entry.block];
                if !block.is_split() {
                    let age = (now - block.born) as f64;
                    total_age += age;
                    count += 1;
                    if !block.expandable {
                        candidates.push((pool, entry.block, age));
                    }
                }
            }
        }
        let mut reclaimed = 0;
        let mut freed_some = true;
        while reclaimed < target && freed_some && count > 0 {
            let threshold = total_age / count as f64;
            freed_some = false;
            let mut left = Vec::with_capacity(candidates.len());
            for (pool, block, age) in candidates {
                if age < threshold {
                    left.push((pool, block, age));
                    continue;
                }
                freed_some = true;
                reclaimed += self.pools[pool as usize].blocks[block].size;
                total_age -= age;
                count -= 1;
                self.release_block(pool, block, caller)?;
            }
            candidates = left;
        }
        self.collect_pages(target.saturating_sub(reclaimed), caller)
    }

    /// Gives one whole, free cudaMalloc or custom segment back (R2.36).
    pub fn release_block(&mut self, pool: u32, block: BlockId, caller: &Caller<'_>) -> Result<()> {
        let held = &self.pools[pool as usize];
        let (key, segment) = (held.key, held.segment(block));
        let (base, size) = (segment.base, segment.size);
        let stack = self.call.clone().or_else(|| segment.stack.clone());
        match &segment.source {
            Source::Driver => self.core.driver.mem_free(self.core.device, base)?,
            Source::Custom(to) => {
                let to = to.clone();
                self.ladder.custom_ranges.remove(&base);
                self.ladder.returns.push(Return { to, addr: base, bytes: size, stream: key.stream });
            }
            Source::Expandable(_) => unreachable!("expandable blocks are unmapped, not released"),
        }
        self.emit(Happened::new(Action::SegmentFree, base, size, key).with(stack), Some(caller));
        let held = &mut self.pools[pool as usize];
        held.remove_free(block);
        held.drop_segment(block);
        held.counters.lower(Metric::Segment, 1);
        if size >= held.policy.max_split_size {
            held.counters.lower(Metric::OversizeSegments, 1);
        }
        self.core.index.remove(base, size);
        self.ladder.counts.device_frees += 1;
        self.hold_less(pool, size);
        if let Some(owner) = self.memory_pool(key.memory_pool).filter(|_| key.memory_pool.is_private()) {
            owner.driver_allocations -= 1;
        }
        Ok(())
    }

    /// With a `max_split_size`: releases just enough oversize blocks of the request's pool (R2.24–R2.26).
    pub fn release_available(&mut self, pool: u32, fit: Fit, caller: &Caller<'_>) -> Result<bool> {
        let held = &self.pools[pool as usize];
        let oversize = held.policy.max_split_size;
        if oversize == u64::MAX {
            return Ok(false);
        }
        let want = fit.rounded.max(oversize);
        let whole = |block: BlockId| !held.blocks[block].expandable && !held.blocks[block].is_split();
        let first = held.free.best_fit(want).filter(|entry| !held.blocks[entry.block].expandable);
        if let Some(entry) = first {
            if whole(entry.block) {
                self.release_block(pool, entry.block, caller)?;
            }
            return Ok(true);
        }
        // No single block is large enough: several oversize ones, the largest first.
        let mut released = 0;
        let mut chosen = Vec::new();
        for entry in held.free.below(want, &held.blocks).take_while(|entry| entry.size >= oversize) {
            if released >= want {
                break;
            }
            if whole(entry.block) {
                released += entry.size;
                chosen.push(entry.block);
            }
        }
        for block in chosen {
            self.release_block(pool, block, caller)?;
        }
        Ok(released >= want)
    }

    /// Gives back everything that no live block holds fast (`empty_cache`, R2.31–R2.34): of the default pools and the
    /// freeable ones, or of one freeable pool.
    pub fn release_cached(&mut self, only: PoolId, in_capture: bool, caller: &Caller<'_>) -> Result<()> {
        self.release_orphans();
        if only == PoolId::DEFAULT && !in_capture {
            self.emit(synchronised(self), Some(caller));
            self.synchronise_and_free(None, Some(caller))?;
            // A page's memory goes back when its old mappings have gone, too.
            self.unmap_all()?;
            self.release_whole(PoolId::DEFAULT, SizeClass::Large, caller)?;
            self.release_whole(PoolId::DEFAULT, SizeClass::Small, caller)?;
        }
        let mut from = 0;
        while let Some(place) = self.ladder.freeable.next_place(from) {
            from = place + 1;
            let Some((id, ())) = self.ladder.freeable.at(place) else { continue };
            if only != PoolId::DEFAULT {
                if id != only {
                    continue;
                }
                self.synchronise_and_free(Some(id), Some(caller))?;
                self.unmap_passed()?;
            }
            self.release_whole(id, SizeClass::Small, caller)?;
            self.release_whole(id, SizeClass::Large, caller)?;
            if self.forget_if_empty(id) {
                self.ladder.freeable.remove_at(place);
                from = place;
            }
        }
        Ok(())
    }

    /// Releases the whole segments of a class, and unmaps the whole pages of its expandable ones.
    pub fn release_whole(&mut self, id: PoolId, class: SizeClass, caller: &Caller<'_>) -> Result<()> {
        let pools = self.family(id, class);
        let mut to_unmap = Vec::new();
        for &pool in &pools {
            let held = &self.pools[pool as usize];
            let entries: Vec<_> = held.free.iter(&held.blocks).collect();
            for entry in entries {
                let block = &self.pools[pool as usize].blocks[entry.block];
                if block.expandable {
                    to_unmap.push((pool, entry.block));
                } else if !block.is_split() {
                    self.release_block(pool, entry.block, caller)?;
                }
            }
        }
        for (pool, block) in to_unmap {
            self.unmap_block(pool, block, caller)?;
        }
        pools.into_iter().try_for_each(|pool| self.give_up_left(pool))
    }
}

fn synchronised(held: &Held<'_>) -> Happened {
    Happened {
        action: Action::Synchronised,
        addr: 0,
        size: 0,
        stream: millpond_driver::Stream::default_of(held.core.device),
        pool: PoolId::DEFAULT,
        stack: None,
        internal: None,
    }
}
