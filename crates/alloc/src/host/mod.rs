//! The cache of pinned host memory (section 7 of the law).
//!
//! Page-locking memory takes long and stops the device, so blocks are kept and handed out again. A block is one driver
//! allocation, or a part of the reserve segment; it is never split (R7.1). Free blocks lie in bins by size class; a block that
//! streams used comes back when they have passed.
//!
//! ```
//! use millpond::config::Settings;
//! use millpond::{HostCache, World};
//! use millpond_driver::{Device, Stream};
//! use millpond_sim::{Sim, SimConfig};
//!
//! let cache = HostCache::new(Sim::new(SimConfig::default()), World::new(Settings::default()));
//! let stream = Stream::default_of(Device(0));
//! let buffer = cache.buffer(3 << 20, stream)?;
//! {
//!     let staged = buffer.use_on(stream);
//!     // Queue the copy from `staged.addr()` here.
//!     assert_eq!(staged.addr(), buffer.addr());
//! }
//! drop(buffer);
//! assert_eq!(cache.stats().allocated_bytes.current, 4 << 20, "a power of two, cached");
//! # Ok::<(), millpond::Error>(())
//! ```

mod background;
mod bins;
mod block;
mod buffer;
mod events;
mod graphs;
mod pool;
mod reserve;
mod scopes;
mod source;
mod state;
mod stats;
mod trace;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_driver::{Driver, HostFlags, Stream};

pub use buffer::{PinnedBuffer, PinnedUse};
pub(crate) use graphs::{GraphPools, HostScopes};
pub use stats::{HostStats, TimeStat};

use bins::Classes;
use block::{Block, Source};
use reserve::Reserve;
use state::State;

use crate::caller::Caller;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::event::Action;
use crate::private::PoolId;
use crate::routing::Filter;
use crate::trace::{Journal, Level};
use crate::world::World;

/// The pinned memory of a process, for all of its devices. Clones are handles to the same cache; the last one gives cached
/// memory back.
#[derive(Clone, Debug)]
pub struct HostCache {
    core: Arc<HostCore>,
}

#[derive(Debug)]
pub(crate) struct HostCore {
    driver: Arc<dyn Driver>,
    world: Arc<World>,
    classes: Classes,
    /// Taken after `reserve` where both are needed.
    state: Mutex<State>,
    reserve: Mutex<Reserve>,
    journal: Journal,
    has_background: AtomicBool,
    warned_not_capturing: AtomicBool,
    warned_not_recorded: AtomicBool,
    last_error: Mutex<Option<Error>>,
}

impl HostCache {
    /// A cache that acts on the settings of `world`. Its size classes (`pinned_size_classes`) are those of now.
    pub fn new(driver: Arc<dyn Driver>, world: Arc<World>) -> Self {
        let classes = Classes::of(&world.settings());
        let core = Arc::new(HostCore {
            driver,
            world,
            classes,
            state: Mutex::new(State::new(classes)),
            reserve: Mutex::default(),
            journal: Journal::default(),
            has_background: AtomicBool::new(false),
            warned_not_capturing: AtomicBool::new(false),
            warned_not_recorded: AtomicBool::new(false),
            last_error: Mutex::new(None),
        });
        core.world.join_host(&core);
        HostCache { core }
    }

    pub(crate) fn of(core: Arc<HostCore>) -> Self {
        HostCache { core }
    }

    /// At least `size` bytes of pinned memory; 0 for a size of 0 (R7.3). The caller's stream decides about the pool (R7.4).
    ///
    /// # Errors
    /// The driver's. No error stays pending on the device (C71).
    pub fn alloc(&self, size: u64, caller: &Caller<'_>) -> Result<u64> {
        if size == 0 {
            return Ok(0);
        }
        let core = &*self.core;
        let settings = core.world.settings();
        let stack = core.stack(caller, Level::State);
        let in_capture = core.is_capturing(caller.stream)?;
        let pool = core.route(caller, in_capture)?;
        if pool.is_private() || !settings.pinned_use_background_threads {
            core.collect(pool)?;
        }
        let size = core.rounded(size, &settings);
        let bin = core.classes.bin(size);
        if let Some(block) = core.lock().take_cached(pool, bin, size) {
            (block.in_capture, block.held_by) = (in_capture, stack);
            core.emit(Action::Alloc, block, None, Some(caller));
            return Ok(block.addr);
        }
        if settings.pinned_use_background_threads {
            background::start(&self.core);
        }
        let (addr, source) = core.make(size, &settings)?;
        let block = Block {
            addr,
            size,
            bin,
            pool,
            source,
            allocated: true,
            events: 0,
            streams: Default::default(),
            in_capture,
            made_by: stack.clone(),
            held_by: stack,
        };
        let mut state = core.lock();
        core.emit(Action::SegmentAlloc, &block, None, Some(caller));
        core.emit(Action::Alloc, &block, None, Some(caller));
        state.add(block);
        Ok(addr)
    }

    /// Records that work on `stream` uses the live block at `addr` (R7.14); `false` if there is none.
    pub fn record_stream(&self, addr: u64, stream: Stream) -> bool {
        let mut state = self.core.lock();
        let block = state.blocks.get_mut(&addr).filter(|block| block.allocated);
        block.map(|block| block.streams.insert(stream)).is_some()
    }

    /// Gives a live block back; 0 is fine and does nothing. The block is free at once, or when the recorded streams have done
    /// what they had queued (R7.15).
    ///
    /// # Errors
    /// [`Error::UnknownAddress`]; the driver's, from a block too large to be cached. Under `pinned_free_catch_all` none
    /// (R7.19).
    pub fn free(&self, addr: u64, caller: &Caller<'_>) -> Result<()> {
        if addr == 0 {
            return Ok(());
        }
        let outcome = self.core.free(addr, caller);
        match &outcome {
            Err(error) if self.core.world.settings().pinned_free_catch_all => {
                tracing::warn!("freeing pinned memory at {addr:#x} failed, which is ignored: {error}");
                Ok(())
            }
            Err(error) => {
                tracing::warn!("freeing pinned memory at {addr:#x} failed: {error}");
                outcome
            }
            Ok(()) => outcome,
        }
    }

    /// Caches what has completed, without a request (R7.17).
    ///
    /// # Errors
    /// The driver's.
    pub fn process_events(&self) -> Result<()> {
        self.core.collect(PoolId::DEFAULT)
    }

    /// Gives the cached blocks of the default pool back, and those of graph pools without owners (R7.20). Parts of the reserve
    /// segment release nothing (R7.13).
    ///
    /// # Errors
    /// The driver's; blocks that it does not take stay cached.
    pub fn empty_cache(&self) -> Result<()> {
        let core = &*self.core;
        let mut outcome = Ok(());
        let pools = std::iter::once(PoolId::DEFAULT).chain(core.lock().freeable());
        for pool in pools.collect::<Vec<_>>() {
            outcome = outcome.and(core.collect(pool));
            let cached = core.lock().drain(pool);
            outcome = outcome.and(core.destroy(cached));
        }
        core.lock().forget_empty_pools();
        outcome
    }

    /// Routes matching requests to a graph's pool until [`HostCache::end_allocate_to_pool`]; one more reference (R7.21).
    ///
    /// # Errors
    /// [`Error::ScopeOpen`], [`Error::PoolReleased`].
    pub fn begin_allocate_to_pool(&self, id: PoolId, filter: Filter) -> Result<()> {
        self.core.lock().begin_allocate_to_pool(id, filter)
    }

    /// Closes the scope; the reference stays until [`HostCache::release_pool`] (R7.21).
    ///
    /// # Errors
    /// [`Error::ScopeNotOpen`].
    pub fn end_allocate_to_pool(&self, id: PoolId) -> Result<()> {
        self.core.lock().end_allocate_to_pool(id)
    }

    /// Drops a reference; without any the pool is freeable (R7.21).
    ///
    /// # Errors
    /// [`Error::UnknownPool`], [`Error::PoolReleased`].
    pub fn release_pool(&self, id: PoolId) -> Result<()> {
        self.core.lock().release_pool(id)
    }

    /// References to a pool (R7.21).
    ///
    /// # Errors
    /// [`Error::UnknownPool`].
    pub fn pool_use_count(&self, id: PoolId) -> Result<u64> {
        self.core.lock().pools.get(&id).map(|pool| pool.use_count).ok_or(Error::UnknownPool { pool: id })
    }

    /// Page-locks memory that the caller owns. It is listed among the host segments, and never handed out (R9.16).
    ///
    /// # Errors
    /// The driver's.
    pub fn register(&self, addr: u64, bytes: u64) -> Result<()> {
        if let Err(error) = self.core.driver.host_register(addr, bytes, HostFlags::default()) {
            let _ = self.core.driver.take_last_error();
            return Err(error.into());
        }
        self.core.lock().external.insert(addr, bytes);
        Ok(())
    }

    /// Ends what [`HostCache::register`] began.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`]; the driver's.
    pub fn unregister(&self, addr: u64) -> Result<()> {
        if !self.core.lock().external.contains_key(&addr) {
            return Err(Error::UnknownAddress { addr });
        }
        self.core.driver.host_unregister(addr)?;
        self.core.lock().external.remove(&addr);
        Ok(())
    }

    /// (bytes, whether it is live) of the block that starts at `addr`.
    pub fn size_of(&self, addr: u64) -> Option<(u64, bool)> {
        self.core.lock().blocks.get(&addr).map(|block| (block.size, block.allocated))
    }

    /// The statistics. Events are not looked at for it.
    pub fn stats(&self) -> HostStats {
        let state = self.core.lock();
        let mut stats = state.counts.clone();
        for pool in state.pools.values() {
            pool.bins.add_to(&mut stats.active_requests, &mut stats.active_bytes);
        }
        stats
    }

    /// Peaks start again from what is held now (R7.24).
    pub fn reset_peak_stats(&self) {
        let mut state = self.core.lock();
        state.counts.reset_peaks();
        state.pools.values_mut().for_each(|pool| pool.bins.reset_peaks());
    }

    /// Accumulated figures start again from 0 (R7.24).
    pub fn reset_accumulated_stats(&self) {
        let mut state = self.core.lock();
        state.counts.reset_accumulated();
        state.pools.values_mut().for_each(|pool| pool.bins.reset_accumulated());
    }

    /// Takes the last error that a dropped [`PinnedBuffer`] or the background thread could not return.
    pub fn last_error(&self) -> Option<Error> {
        self.core.last_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn note(&self, outcome: Result<()>) {
        self.core.note(outcome);
    }
}

impl HostCore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of the block for a request: a size class within both limits, else what was asked for (R7.6).
    fn rounded(&self, size: u64, settings: &Settings) -> u64 {
        let rounds = size <= settings.pinned_max_round_threshold && size <= settings.pinned_max_cached_size;
        if rounds { self.classes.round(size) } else { size }
    }

    /// Processes the events of a pool, and destroys what may not be cached.
    fn collect(&self, pool: PoolId) -> Result<()> {
        let doomed = self.process_events(&mut self.lock(), pool)?;
        self.destroy(doomed)
    }

    fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

impl Drop for HostCore {
    /// The last owner gives everything back that nobody holds. Errors have nobody left who could be told of them.
    fn drop(&mut self) {
        let mut state = self.lock();
        let waiting: Vec<_> = state.pools.values_mut().flat_map(|pool| std::mem::take(&mut pool.events)).collect();
        for waiting in waiting.into_iter().rev() {
            if self.driver.event_synchronize(waiting.event).is_ok() {
                let kept = self.completed(&mut state, waiting);
                kept.into_iter().for_each(|block| state.put_cached(block));
            }
        }
        let pools: Vec<PoolId> = state.pools.keys().copied().collect();
        let cached = pools.into_iter().flat_map(|pool| state.drain(pool)).collect();
        let events = std::mem::take(&mut state.spare_events).into_values().flatten();
        events.for_each(|event| drop(self.driver.event_destroy(event)));
        drop(state);
        let _ = self.destroy(cached);
        let in_reserve = self.lock().blocks.values().any(|block| block.source == Source::Reserve);
        let reserve = std::mem::take(&mut *self.reserve.lock().unwrap_or_else(PoisonError::into_inner));
        if let Reserve::Region(region) = reserve
            && !in_reserve
        {
            let _ = self.unlock_pages(region.base, region.source);
        }
    }
}
