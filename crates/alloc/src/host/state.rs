//! What the cache knows, under one lock. No driver call that can take long is made under it.

use std::collections::BTreeMap;

use millpond_driver::{Device, Event};

use super::bins::Classes;
use super::block::Block;
use super::pool::HostPool;
use super::stats::HostStats;
use crate::private::PoolId;
use crate::routing::Scope;

/// The state of the cache.
#[derive(Debug)]
pub(crate) struct State {
    pub classes: Classes,
    /// The default pool is always there.
    pub pools: BTreeMap<PoolId, HostPool>,
    /// Open scopes, oldest first.
    pub scopes: Vec<Scope>,
    /// Every block, by address.
    pub blocks: BTreeMap<u64, Block>,
    /// Memory that somebody else owns and had page-locked here: address to bytes.
    pub external: BTreeMap<u64, u64>,
    /// Events not in use.
    pub spare_events: BTreeMap<Device, Vec<Event>>,
    /// All that is not counted by bin.
    pub counts: HostStats,
}

impl State {
    pub fn new(classes: Classes) -> Self {
        State {
            classes,
            pools: BTreeMap::from([(PoolId::DEFAULT, HostPool::new(classes))]),
            scopes: Vec::new(),
            blocks: BTreeMap::new(),
            external: BTreeMap::new(),
            spare_events: BTreeMap::new(),
            counts: HostStats { allocations_by_bin: vec![0; classes.bins()], ..HostStats::default() },
        }
    }

    /// Takes up a new block; it is in use.
    pub fn add(&mut self, block: Block) {
        self.counts.allocations.raise(1);
        self.counts.allocated_bytes.raise(block.size);
        self.counts.allocations_by_bin[block.bin] += 1;
        if let Some(pool) = self.pools.get_mut(&block.pool) {
            pool.bins.activate(block.bin, block.size);
        }
        self.blocks.insert(block.addr, block);
    }

    /// A cached block of a pool for a request, in use from now on.
    pub fn take_cached(&mut self, pool: PoolId, bin: usize, size: u64) -> Option<&mut Block> {
        let held = self.pools.get_mut(&pool)?;
        let addr = held.bins.take(bin, size)?;
        let block = self.blocks.get_mut(&addr)?;
        block.allocated = true;
        held.bins.activate(block.bin, block.size);
        Some(block)
    }

    /// Takes all cached blocks of a pool out.
    pub fn drain(&mut self, pool: PoolId) -> Vec<Block> {
        let cached = self.pools.get_mut(&pool).map(|pool| pool.bins.drain()).unwrap_or_default();
        cached.iter().filter_map(|addr| self.blocks.remove(addr)).collect()
    }

    /// Puts a block that nobody uses into its bin.
    pub fn put_cached(&mut self, block: Block) {
        if let Some(pool) = self.pools.get_mut(&block.pool) {
            pool.bins.put(block.bin, block.addr, block.size);
        }
        self.blocks.insert(block.addr, block);
    }
}
