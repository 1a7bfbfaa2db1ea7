//! Private pools, scopes and captures (section 5 of the law), exact addresses (2.11), the limit (2.8).

use super::state::{DEFAULT, Failure, Filter, Id, Model, Pool, Segment, Use, Who, limit_of};
use super::table::pool_key;

impl Model {
    /// R5.4.
    pub fn create_or_incref_pool(&mut self, id: Id, custom: Option<usize>) -> Result<(), Failure> {
        match self.pool_mut(id) {
            None => self.pools.push(Pool { id, use_count: 1, driver_count: 0, custom, no_split: false }),
            Some(pool) if pool.use_count == 0 => return Err(Failure::PoolReleased),
            Some(pool) => pool.use_count += 1,
        }
        Ok(())
    }

    /// R5.5.
    pub fn begin_allocate_to_pool(&mut self, id: Id, filter: Filter) -> Result<(), Failure> {
        if self.scopes.iter().any(|(open, _)| *open == id) {
            return Err(Failure::ScopeOpen);
        }
        self.create_or_incref_pool(id, None)?;
        self.scopes.push((id, filter));
        Ok(())
    }

    /// R5.7: the reference stays.
    pub fn end_allocate_to_pool(&mut self, id: Id) -> Result<(), Failure> {
        let at = self.scopes.iter().position(|(open, _)| *open == id).ok_or(Failure::ScopeNotOpen)?;
        self.scopes.remove(at);
        Ok(())
    }

    /// R5.8.
    pub fn release_pool(&mut self, id: Id) -> Result<(), Failure> {
        let pool = self.pool_mut(id).ok_or(Failure::UnknownPool)?;
        if pool.use_count == 0 {
            return Err(Failure::PoolReleased);
        }
        pool.use_count -= 1;
        if pool.use_count == 0 {
            pool.no_split = false;
            self.freeable.insert(pool_key(id));
        }
        Ok(())
    }

    pub fn set_use_on_oom(&mut self, id: Id, lends: bool) {
        if lends {
            self.lenders.insert(pool_key(id));
        } else {
            self.lenders.erase(pool_key(id));
        }
    }

    pub fn set_fraction(&mut self, fraction: f64) -> Result<(), Failure> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Failure::InvalidFraction);
        }
        self.limit = limit_of(fraction, self.device.capacity);
        Ok(())
    }

    /// R5.23: the scope, the driver, the mark.
    pub fn capture_begin(&mut self, stream: u64, id: Id) -> Result<(), Failure> {
        self.begin_allocate_to_pool(id, Filter::Capture(None))?;
        let capture = self.device.capture_begin(stream);
        self.captures += 1;
        self.scopes.last_mut().expect("the scope").1 = Filter::Capture(Some(capture));
        Ok(())
    }

    /// R5.24.
    pub fn capture_end(&mut self, stream: u64, id: Id) -> Result<(), Failure> {
        self.device.capture_end(stream);
        self.captures -= 1;
        self.end_allocate_to_pool(id)
    }

    /// R2.52–R2.54.
    pub fn malloc_at(&mut self, addr: u64, size: u64, stream: u64, who: Who) -> Result<u64, Failure> {
        if !addr.is_multiple_of(512) {
            return Err(Failure::Misaligned);
        }
        if !self.in_capture(who) {
            self.process_events();
        }
        let request = self.request(size, stream, who);
        let custom = self.pool(request.pool).is_some_and(|pool| pool.custom.is_some());
        let covers = |id: &u64| {
            let block = self.block(*id);
            block.addr <= addr && addr + request.rounded <= block.addr + block.size
        };
        let found = self.free_blocks(request.pool, request.small, stream).into_iter().find(covers);
        let Some(block) = found else { return Err(Failure::NotFree) };
        let before = addr - self.block(block).addr;
        if before > 0 {
            self.reach("R2.54 prefix");
        }
        let prefix = (before > 0).then(|| self.carve(block, before, before, true));
        let Segment { pool, small, .. } = *self.segment_of(block);
        let remaining = self.block(block).size - request.rounded;
        let split = if self.pool(pool).is_some_and(|pool| pool.no_split) {
            false
        } else if small || (self.conf.expandable && !custom) {
            remaining >= 512
        } else {
            request.rounded < self.conf.max_split && remaining > super::MIB
        };
        self.carve(block, request.rounded, size, split);
        if let Some(prefix) = prefix {
            let start = self.block(prefix).addr;
            self.free(start, who)?;
        }
        Ok(addr)
    }

    /// R2.56.
    pub fn largest_block(&self, floor: u64) -> u64 {
        let floor = if floor == 0 { self.device.free_bytes() } else { floor };
        self.blocks.iter().filter(|block| block.used == Use::Free).map(|block| block.size).fold(floor, u64::max)
    }

    pub fn live_addresses(&self) -> Vec<u64> {
        let mut live: Vec<u64> = self.blocks.iter().filter(|b| b.used == Use::Live).map(|b| b.addr).collect();
        live.sort_unstable();
        live
    }

    pub fn is_default(id: Id) -> bool {
        id == DEFAULT
    }
}
