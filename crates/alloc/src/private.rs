//! Private pools: ids, owners, counts (sections 5.1–5.4 of the law).

use std::sync::Arc;

use crate::custom::CustomAllocator;
use crate::device::Held;
use crate::error::{Error, Result};
use crate::sleep::Sleep;

/// The id of a memory pool: two numbers, as PyTorch's `MempoolId_t` (R5.1). `{0,0}` is the default pool, `{k,0}` a graph's,
/// `{0,k}` a user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pools that every stream has.
    pub const DEFAULT: PoolId = PoolId(0, 0);

    /// Whether this is a private pool.
    pub fn is_private(self) -> bool {
        self != PoolId::DEFAULT
    }
}

impl std::fmt::Display for PoolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.0, self.1)
    }
}

/// What the device keeps about one memory pool.
#[derive(Debug)]
pub(crate) struct MemoryPool {
    /// References; at 0 the pool is freeable (R5.8).
    pub use_count: i64,
    /// Driver allocations, counted as PyTorch does (R2.17, R4.21).
    pub driver_allocations: i64,
    pub custom: Option<Arc<dyn CustomAllocator>>,
    pub no_split: bool,
    /// A capture has allocated into it.
    pub captured: bool,
    /// Shared with the checkpoints taken of it.
    pub checkpoints: Arc<()>,
    /// Its expandable segments have addresses and no memory.
    pub asleep: Option<Sleep>,
    /// By size class: the pools of each stream, by raw handle, and the collection clock.
    pub families: [Family; 2],
}

/// The pools of one memory pool and size class, in the order of stream handles: PyTorch keeps them in one ordered set.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub pools: std::collections::BTreeMap<u64, u32>,
    pub clock: Arc<std::sync::atomic::AtomicU64>,
}

impl MemoryPool {
    pub fn new(custom: Option<Arc<dyn CustomAllocator>>) -> Self {
        MemoryPool {
            use_count: 1,
            driver_allocations: 0,
            custom,
            no_split: false,
            captured: false,
            checkpoints: Arc::default(),
            asleep: None,
            families: Default::default(),
        }
    }

    /// Whether somebody holds a checkpoint of it.
    pub fn has_checkpoints(&self) -> bool {
        Arc::strong_count(&self.checkpoints) > 1
    }

    /// The indices of all pools, small class first, streams in order.
    pub fn pool_indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.families.iter().flat_map(|family| family.pools.values().copied())
    }
}

impl Held<'_> {
    /// Makes a private pool with one reference, or adds a reference to it (R5.4).
    pub fn create_or_incref_pool(&mut self, id: PoolId, custom: Option<Arc<dyn CustomAllocator>>) -> Result<()> {
        match self.memory_pool(id) {
            None => {
                self.ladder.memory_pools.insert(id, MemoryPool::new(custom));
            }
            Some(_) if custom.is_some() => return Err(Error::PoolExists { pool: id }),
            Some(pool) if pool.use_count <= 0 => return Err(Error::PoolReleased { pool: id }),
            Some(pool) => pool.use_count += 1,
        }
        Ok(())
    }

    /// Drops a reference; without any the pool is freeable: its memory returns at the next release (R5.8).
    pub fn release_pool(&mut self, id: PoolId) -> Result<()> {
        let pool = self.memory_pool(id).filter(|_| id.is_private()).ok_or(Error::UnknownPool { pool: id })?;
        if pool.use_count <= 0 {
            return Err(Error::PoolReleased { pool: id });
        }
        pool.use_count -= 1;
        if pool.use_count == 0 {
            pool.no_split = false;
            self.ladder.freeable.insert(id);
            self.set_policies();
        }
        Ok(())
    }

    /// References to a pool (R5.10).
    pub fn pool_use_count(&mut self, id: PoolId) -> Result<u64> {
        let pool = self.memory_pool(id).ok_or(Error::UnknownPool { pool: id })?;
        Ok(pool.use_count as u64)
    }

    /// Forgets a freeable pool that holds no memory (R2.32); its pools' places are used again.
    pub fn forget_if_empty(&mut self, id: PoolId) -> bool {
        let Some(memory_pool) = self.ladder.memory_pools.get(&id) else { return true };
        let indices: Vec<u32> = memory_pool.pool_indices().collect();
        if indices.iter().any(|&index| self.pools[index as usize].segments.iter().any(Option::is_some)) {
            return false;
        }
        self.ladder.memory_pools.remove(&id);
        for index in indices {
            let class = self.pools[index as usize].key.class;
            self.ladder.vacant[class as usize].push(index);
        }
        true
    }

    /// Marks a pool as one that lends on OOM, or takes the mark away (R2.27, R5.12).
    pub fn set_use_on_oom(&mut self, id: PoolId, lends: bool) -> Result<()> {
        if !lends {
            self.ladder.lenders.remove(id);
        } else if self.memory_pool(id).is_none() {
            return Err(Error::UnknownPool { pool: id });
        } else {
            self.ladder.lenders.insert(id);
        }
        Ok(())
    }

    /// Marks a pool as one that hands out whole blocks only (R1.12, R5.17).
    pub fn set_no_split(&mut self, id: PoolId) -> Result<()> {
        self.memory_pool(id).ok_or(Error::UnknownPool { pool: id })?.no_split = true;
        self.set_policies();
        Ok(())
    }

    /// Whether the live blocks of a pool are exactly those at `addrs` (R5.28).
    pub fn pool_has_exactly(&mut self, id: PoolId, addrs: &std::collections::BTreeSet<u64>) -> Result<bool> {
        let pool = self.memory_pool(id).ok_or(Error::UnknownPool { pool: id })?;
        let indices: Vec<u32> = pool.pool_indices().collect();
        let live = indices.iter().flat_map(|&index| self.pools[index as usize].live());
        Ok(live.map(|(_, block)| block.addr).collect::<std::collections::BTreeSet<_>>() == *addrs)
    }
}
