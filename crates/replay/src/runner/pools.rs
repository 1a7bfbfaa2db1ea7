//! Memory pools of the program (`torch.cuda.MemPool`).

use millpond::{Allocator, Caller, Filter, PoolId};
use millpond_driver::Device;
use rustc_hash::FxHashMap;

use super::{Nonsense, Outcome, Runner, Step, done};

/// The pools that exist, by the workload's number.
#[derive(Debug, Default)]
pub(super) struct Pools(FxHashMap<u32, (Device, PoolId)>);

impl Runner {
    /// The allocator of a pool's device, which is a handle, and the pool's id.
    fn pool(&self, pool: u32) -> Result<(Allocator, PoolId), Nonsense> {
        let &(device, id) = self.pools.0.get(&pool).ok_or(Nonsense::UnknownPool { pool })?;
        Ok((self.machine.allocators()[device.0 as usize].clone(), id))
    }

    /// `MemPool(use_on_oom, no_split)` (R5.11).
    pub(super) fn create_pool(&mut self, pool: u32, use_on_oom: bool, no_split: bool) -> Step {
        if self.pools.0.contains_key(&pool) {
            return Err(Nonsense::PoolInUse { pool });
        }
        let id = self.machine.world().user_pool_id();
        self.pools.0.insert(pool, (self.device, id));
        let allocator = self.allocator();
        let mut result = allocator.create_or_incref_pool(id, None);
        if use_on_oom {
            result = result.and_then(|()| allocator.set_use_on_oom(id, true));
        }
        if no_split {
            result = result.and_then(|()| allocator.set_no_split(id));
        }
        Ok(done(result))
    }

    /// The pool's destructor (R5.12).
    pub(super) fn destroy_pool(&mut self, pool: u32) -> Step {
        let (allocator, id) = self.pool(pool)?;
        let result = allocator
            .set_use_on_oom(id, false)
            .and_then(|()| allocator.release_pool(id))
            .and_then(|()| allocator.empty_pool_cache(id, &self.caller()));
        self.pools.0.remove(&pool);
        Ok(done(result))
    }

    /// `use_mem_pool`, entered (R5.13). One thread makes all requests, so any request is its own.
    pub(super) fn enter_pool(&mut self, pool: u32) -> Step {
        let (allocator, id) = self.pool(pool)?;
        Ok(done(allocator.begin_allocate_to_pool(id, Filter::Any)))
    }

    /// `use_mem_pool`, left: the scope ends, and with it its reference.
    pub(super) fn leave_pool(&mut self, pool: u32) -> Step {
        let (allocator, id) = self.pool(pool)?;
        Ok(done(leave(&allocator, id)))
    }

    /// An allocation in a scope of its own, which closes also when the allocation fails.
    pub(super) fn alloc_in_pool(&mut self, id: u64, size: u64, stream: u32, pool: u32) -> Step {
        if let crate::ids::State::Live(_) = self.ids.get(id) {
            return Err(Nonsense::IdInUse { id });
        }
        let (allocator, pool) = self.pool(pool)?;
        let stream = self.stream(stream);
        let result = allocator.begin_allocate_to_pool(pool, Filter::Any).and_then(|()| {
            let result = allocator.alloc(size, stream, &Caller::on(stream));
            leave(&allocator, pool).and(result)
        });
        Ok::<Outcome, _>(self.allocated(id, stream, result))
    }
}

fn leave(allocator: &Allocator, id: PoolId) -> millpond::Result<()> {
    allocator.end_allocate_to_pool(id)?;
    allocator.release_pool(id)
}
