//! The pools of pinned memory: the default one and one per graph (R7.2, R7.20, R7.21).

use std::collections::VecDeque;

use super::bins::{Bins, Classes};
use super::events::Waiting;
use super::state::State;
use crate::error::{Error, Result};
use crate::private::PoolId;
use crate::routing::{Filter, Scope};

/// One pool: its bins and the events that its blocks wait for.
#[derive(Debug)]
pub(crate) struct HostPool {
    pub bins: Bins,
    /// Blocks that wait for events; new ones come in at the front (R7.15).
    pub events: VecDeque<Waiting>,
    /// References; at 0 the pool is freeable (R7.21).
    pub use_count: u64,
}

impl HostPool {
    pub fn new(classes: Classes) -> Self {
        HostPool { bins: Bins::new(classes), events: VecDeque::new(), use_count: 1 }
    }
}

impl State {
    /// Opens a scope: one more reference to the pool, which is made if it is not there (R7.21).
    pub fn begin_allocate_to_pool(&mut self, pool: PoolId, filter: Filter) -> Result<()> {
        if self.pools.get(&pool).is_some_and(|held| held.use_count == 0) {
            return Err(Error::PoolReleased { pool });
        }
        self.open_scope(pool, filter)
    }

    /// The same for a capture, whose memory pool lives on the device: what is left of the pool of earlier graphs is used
    /// again.
    pub fn open_scope(&mut self, pool: PoolId, filter: Filter) -> Result<()> {
        if self.scopes.iter().any(|scope| scope.pool == pool) {
            return Err(Error::ScopeOpen { pool });
        }
        match self.pools.get_mut(&pool) {
            None => {
                self.pools.insert(pool, HostPool::new(self.classes));
            }
            Some(held) => held.use_count += 1,
        }
        self.scopes.push(Scope { pool, filter });
        Ok(())
    }

    /// Closes a scope; the reference stays (R7.21).
    pub fn end_allocate_to_pool(&mut self, pool: PoolId) -> Result<()> {
        let place = self.scopes.iter().position(|scope| scope.pool == pool).ok_or(Error::ScopeNotOpen { pool })?;
        self.scopes.remove(place);
        Ok(())
    }

    /// Drops a reference; without any the pool is freeable (R7.21).
    pub fn release_pool(&mut self, id: PoolId) -> Result<()> {
        let pool = self.pools.get_mut(&id).filter(|_| id.is_private()).ok_or(Error::UnknownPool { pool: id })?;
        pool.use_count = pool.use_count.checked_sub(1).ok_or(Error::PoolReleased { pool: id })?;
        Ok(())
    }

    /// The private pools without owners, in the order of their ids.
    pub fn freeable(&self) -> Vec<PoolId> {
        let freeable = self.pools.iter().filter(|(id, pool)| id.is_private() && pool.use_count == 0);
        freeable.map(|(&id, _)| id).collect()
    }

    /// Forgets the freeable pools without blocks; the default pool takes over what they counted (R7.20).
    pub fn forget_empty_pools(&mut self) {
        for id in self.freeable() {
            if self.blocks.values().any(|block| block.pool == id) {
                continue;
            }
            let gone = self.pools.remove(&id);
            if let (Some(gone), Some(default)) = (gone, self.pools.get_mut(&PoolId::DEFAULT)) {
                default.bins.inherit(&gone.bins);
            }
        }
    }
}
