//! Giving memory back: garbage collection (2.4), oversize blocks (2.5), everything (2.7).

use super::malloc::Request;
use super::state::{DEFAULT, Id, Kind, Model, Segment, Who};
use super::stats::What;
use super::table::pool_key;

impl Model {
    pub fn collect_garbage(&mut self) {
        let limit = (self.conf.gc_threshold * self.limit.expect("a limit") as f64) as u64;
        let held = self.held();
        if held <= limit {
            return;
        }
        let target = held - limit;
        let clock = *self.clock(DEFAULT, false);
        let age = |model: &Model, id: u64| clock - model.block(id).born;
        let unsplit = self.free_set(DEFAULT, false).into_iter().filter(|&id| !self.is_split(id)).collect::<Vec<_>>();
        let mut total_age: u64 = unsplit.iter().map(|&id| age(self, id)).sum();
        let mut count = unsplit.len() as u64;
        let (mut reclaimed, mut freed_something) = (0, true);
        while reclaimed < target && freed_something && count > 0 {
            freed_something = false;
            let threshold = total_age as f64 / count as f64;
            for id in self.free_set(DEFAULT, false) {
                if !self.is_split(id) && !self.is_expandable(id) && age(self, id) as f64 >= threshold {
                    freed_something = true;
                    self.reach("R2.22 collected");
                    reclaimed += self.block(id).size;
                    total_age -= age(self, id);
                    count -= 1;
                    self.release_block(id);
                }
            }
        }
    }

    pub fn release_available(&mut self, request: &Request) -> bool {
        let max_split = self.conf.max_split;
        if max_split == u64::MAX {
            return false;
        }
        let want = request.rounded.max(max_split);
        let free = self.free_blocks(request.pool, request.small, request.stream);
        let at = free.iter().position(|&id| self.block(id).size >= want);
        if let Some(at) = at
            && !self.is_expandable(free[at])
        {
            self.release_unsplit(free[at]);
            self.reach("R2.25 one oversize block");
            return true;
        }
        let mut released = 0;
        for &id in free[..at.unwrap_or(free.len())].iter().rev() {
            if released >= want || self.block(id).size < max_split {
                break;
            }
            if !self.is_expandable(id) {
                self.reach("R2.26 several oversize blocks");
                released += self.block(id).size;
                self.release_unsplit(id);
            }
        }
        released >= want
    }

    /// An oversize block is whole, unless the setting changed meanwhile; the law does not say what happens to a part then.
    fn release_unsplit(&mut self, id: u64) {
        if self.is_split(id) {
            self.undefined = Some("part of a segment is released");
        } else {
            self.release_block(id);
        }
    }

    /// R2.36.
    fn release_block(&mut self, id: u64) {
        let Segment { base, size, pool, small, kind, counter, .. } = *self.segment_of(id);
        match kind {
            Kind::Driver => self.device.free(base),
            Kind::Custom => {
                let source = self.pool(pool).and_then(|pool| pool.custom).expect("a custom allocator");
                self.sources[source].give(base, size);
            }
            Kind::Expandable { .. } => unreachable!("expandable segments are unmapped"),
        }
        self.blocks.retain(|block| block.id != id);
        self.segments.retain(|segment| segment.counter != counter);
        self.stats.device_frees += 1;
        self.tell("segment_free", base, size);
        self.pool_mut(pool).expect("a pool").driver_count -= 1;
        self.stats.add(What::Segment, small, -1);
        self.reserved(pool, small, -(size as i64));
        if size >= self.conf.max_split {
            self.stats.add(What::OversizeSegments, small, -1);
        }
    }

    /// R2.31–R2.34.
    pub fn release_cached(&mut self, only: Id, who: Who) {
        if only == DEFAULT && !self.in_capture(who) {
            self.synchronize_and_free(None);
            self.release_blocks(DEFAULT, false);
            self.release_blocks(DEFAULT, true);
        }
        let mut slot = 0;
        while let Some(entry) = self.freeable.slot(slot) {
            slot += 1;
            let Some(key) = entry else { continue };
            if only != DEFAULT && key != pool_key(only) {
                continue;
            }
            let id = key.1;
            if only != DEFAULT {
                if self.in_capture(who) {
                    self.undefined = Some("a pool is emptied in a capture");
                }
                self.synchronize_and_free(Some(id));
            }
            self.release_blocks(id, true);
            self.release_blocks(id, false);
            // R4.21 counts allocations that mapped up and unmapped ranges down, so the original's count can stay above 0 when
            // nothing is held, and it keeps an empty pool then. Nothing but a second emptying of the dead id would show it.
            if !self.segments.iter().any(|segment| segment.pool == id) {
                self.pools.retain(|pool| pool.id != id);
                self.clocks.retain(|&(pool, ..)| pool != id);
                self.freeable.erase(key);
                self.reach("R2.32 pool erased");
                slot -= 1;
            }
        }
    }

    /// R2.31, R2.35, R4.19: whole cudaMalloc segments first, then the pages of free expandable blocks.
    fn release_blocks(&mut self, pool: Id, small: bool) {
        let free = self.free_set(pool, small);
        let (expandable, plain): (Vec<_>, Vec<_>) = free.into_iter().partition(|&id| self.is_expandable(id));
        for id in plain {
            if !self.is_split(id) {
                self.release_block(id);
            }
        }
        for id in expandable {
            self.unmap_block(id);
        }
    }
}
