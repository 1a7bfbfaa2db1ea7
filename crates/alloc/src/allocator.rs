//! The allocator's face, and the short way of a hit.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, PoisonError};

use millpond_driver::{CaptureMode, Device, Driver, Stream};

use crate::caller::Caller;
use crate::config::Settings;
use crate::custom::CustomAllocator;
use crate::device::{Core, FreeMemoryCallback, Happened, gates, limit_of};
use crate::error::{Error, Result};
use crate::event::{Action, Event, Observer};
use crate::hit::Hit;
use crate::host::HostScopes;
use crate::oom::OomObserver;
use crate::private::PoolId;
use crate::routing::Filter;
use crate::segment::Source;
use crate::size::{SizeClass, TOO_LARGE};
use crate::stats::{Metric, Stats};
use crate::trace::{HistoryOptions, Level};
use crate::world::World;

/// The caching allocator of one device. Clones are handles to the same allocator; the last one gives cached memory back.
#[derive(Clone, Debug)]
pub struct Allocator {
    pub(crate) core: Arc<Core>,
}

/// One expandable segment, for `getExpandableSegmentSizes` (R4.39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandableSegment {
    /// Its stream.
    pub stream: Stream,
    /// Its size class.
    pub class: SizeClass,
    /// Bytes mapped.
    pub mapped: u64,
}

impl Allocator {
    /// An allocator for `device` in a world of its own or shared with other devices.
    ///
    /// # Errors
    /// The driver's, when it does not know the device.
    pub fn new(driver: Arc<dyn Driver>, device: Device, world: Arc<World>) -> Result<Self> {
        Ok(Allocator { core: Core::new(driver, device, world, true)? })
    }

    /// The same with default settings.
    ///
    /// # Errors
    /// As [`Allocator::new`].
    pub fn with_settings(driver: Arc<dyn Driver>, device: Device, settings: Settings) -> Result<Self> {
        Allocator::new(driver, device, World::new(settings))
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.core.device
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.core.driver
    }

    /// What the allocator shares with those of other devices.
    pub fn world(&self) -> &Arc<World> {
        &self.core.world
    }

    /// At least `size` bytes for work on `stream`; 0 for a size of 0 (R2.3, R2.4).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] after the whole ladder; [`Error::TooLarge`], [`Error::Rejected`]; the driver's.
    #[inline]
    pub fn alloc(&self, size: u64, stream: Stream, caller: &Caller<'_>) -> Result<u64> {
        let core = &*self.core;
        let gates = core.gates.load(Acquire);
        // A size of 0 wraps around and is too large for the short way, too.
        if gates == 0 && size.wrapping_sub(1) < TOO_LARGE - 1 && stream.device == core.device {
            return match core.hit(size, stream, caller) {
                Hit::Found(addr) => Ok(addr),
                Hit::Miss { searched } => core.alloc_slow(size, stream, caller, None, searched),
            };
        }
        self.alloc_gated(size, stream, caller, gates)
    }

    /// A request that cannot take the short way.
    #[cold]
    fn alloc_gated(&self, size: u64, stream: Stream, caller: &Caller<'_>, gates: u32) -> Result<u64> {
        let core = &*self.core;
        if stream.device != core.device {
            return Err(Error::WrongDevice { stream, device: core.device });
        }
        if size >= TOO_LARGE {
            return Err(Error::TooLarge { requested: size });
        }
        if gates & gates::UNCACHED != 0 {
            return self.alloc_uncached(size, caller);
        }
        if size == 0 {
            return Ok(0);
        }
        let stack = core.stack(caller, Level::State);
        if gates != gates::WATCHED {
            return core.alloc_slow(size, stream, caller, stack, false);
        }
        match core.watched_hit(size, stream, stack, caller) {
            Ok(addr) => Ok(addr),
            Err((stack, searched)) => core.alloc_slow(size, stream, caller, stack, searched),
        }
    }

    /// Plain cudaMalloc (R2.2): no pools, no statistics, no trace.
    fn alloc_uncached(&self, size: u64, caller: &Caller<'_>) -> Result<u64> {
        self.core.enter(|held| {
            if held.in_capture(caller)? {
                return Err(Error::CachingDisabled { what: "an allocation in a graph capture" });
            }
            let addr = self.core.driver.mem_alloc(self.core.device, size)?;
            held.ladder.uncached.insert(addr, size);
            Ok(addr)
        })
    }

    /// Gives a live block back; 0 is fine and does nothing (R3.1). The block is free at once, or when the recorded streams
    /// have done what they had queued.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`]; the driver's, from recording events. The block is never lost.
    #[inline]
    pub fn free(&self, addr: u64, caller: &Caller<'_>) -> Result<()> {
        let core = &*self.core;
        if core.gates.load(Acquire) & gates::WATCHED != 0 {
            return core.watched_free(addr, caller).unwrap_or_else(|| self.free_unknown(addr));
        }
        core.free(addr, caller).unwrap_or_else(|| self.free_unknown(addr))
    }

    #[cold]
    fn free_unknown(&self, addr: u64) -> Result<()> {
        if addr == 0 {
            return Ok(());
        }
        self.core.enter(|held| {
            if !held.ladder.uncached.contains_key(&addr) {
                return Err(Error::UnknownAddress { addr });
            }
            // Forgotten only once the driver has taken it back: after a failure the caller may try again.
            self.core.driver.mem_free(self.core.device, addr)?;
            held.ladder.uncached.remove(&addr);
            Ok(())
        })
    }

    /// Records that work on `stream` uses the live block at `addr` (R3.7). 0 and blocks of other allocators are ignored, as
    /// in PyTorch (R3.6): `false` then.
    ///
    /// # Errors
    /// [`Error::CaptureInvalidated`].
    pub fn record_stream(&self, addr: u64, stream: Stream, caller: &Caller<'_>) -> Result<bool> {
        let mut held = self.core.hold();
        let Some((index, block)) = held.live_at(addr) else { return Ok(false) };
        let in_capture = held.in_capture(caller)?;
        held.record_stream(index, block, stream, in_capture);
        Ok(true)
    }

    /// Gives all cached memory back that no live block holds fast (R2.31–R2.34).
    ///
    /// # Errors
    /// The driver's; what was released before stays released.
    pub fn empty_cache(&self, caller: &Caller<'_>) -> Result<()> {
        self.empty_pool_cache(PoolId::DEFAULT, caller)
    }

    /// The same for one freeable memory pool (R2.33).
    ///
    /// # Errors
    /// As [`Allocator::empty_cache`].
    pub fn empty_pool_cache(&self, pool: PoolId, caller: &Caller<'_>) -> Result<()> {
        self.core.enter_with(self.core.stack(caller, Level::All), |held| {
            let in_capture = held.in_capture(caller)?;
            held.release_cached(pool, in_capture, caller)
        })
    }

    /// Frees what has completed, without a request (R3.13).
    ///
    /// # Errors
    /// The driver's.
    pub fn process_events(&self, caller: &Caller<'_>) -> Result<()> {
        self.core.enter(|held| if held.in_capture(caller)? { Ok(()) } else { held.process_events(Some(caller)) })
    }

    /// Limits the allocator to a fraction of the device's memory; 1 removes the limit (R2.38).
    ///
    /// # Errors
    /// [`Error::InvalidFraction`].
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Error::InvalidFraction { fraction });
        }
        let mut held = self.core.hold();
        held.ladder.limit = limit_of(fraction, self.core.total);
        held.set_policies();
        Ok(())
    }

    /// The limit as a fraction; 1 without one (R2.38).
    pub fn memory_fraction(&self) -> f64 {
        self.core.hold_ladder().limit.map_or(1.0, |limit| limit as f64 / self.core.total as f64)
    }

    /// Turns caching off or on (`caching_allocator_enable`, R2.2). Live blocks stay valid.
    pub fn enable_caching(&self, on: bool) {
        let held = self.core.hold();
        let gates = self.core.gates.load(Relaxed);
        let gates = if on { gates & !gates::UNCACHED } else { gates | gates::UNCACHED };
        self.core.gates.store(gates, std::sync::atomic::Ordering::Release);
        drop(held);
    }

    /// Whether caching is on.
    pub fn is_caching(&self) -> bool {
        self.core.gates.load(Relaxed) & gates::UNCACHED == 0
    }

    /// The statistics, as one cut through all pools.
    pub fn stats(&self) -> Stats {
        let held = self.core.hold();
        let counters = held.counters();
        let ladder = &held.ladder;
        Stats {
            metrics: Metric::ALL.map(|metric| ladder.peaks.stats(metric, &counters)),
            reserved_by_private_pools: ladder.by_private_pool.clone(),
            num_alloc_retries: ladder.counts.retries,
            num_ooms: ladder.counts.ooms,
            num_sync_all_streams: ladder.counts.syncs,
            num_device_alloc: ladder.counts.device_allocs,
            num_device_free: ladder.counts.device_frees,
            num_oom_rejections: ladder.counts.rejections,
            max_split_size: ladder.max_split_at_start as i64,
        }
    }

    /// Peaks start again from what is held now (R8.1).
    pub fn reset_peak_stats(&self) {
        let mut held = self.core.hold();
        let held = &mut held;
        let mut counters: Vec<_> = held.pools.iter_mut().map(|pool| (pool.key.class, &mut pool.counters)).collect();
        held.ladder.peaks.reset_peaks(&mut counters);
        for stat in held.ladder.by_private_pool.values_mut().flatten() {
            stat.reset_peak();
        }
    }

    /// Accumulated figures start again from 0 (R8.6).
    pub fn reset_accumulated_stats(&self) {
        let mut held = self.core.hold();
        let counters: Vec<_> = held.pools.iter().map(|pool| (pool.key.class, &pool.counters)).collect();
        held.ladder.peaks.reset_accumulated(&counters);
        for stat in held.ladder.by_private_pool.values_mut().flatten() {
            (stat.allocated, stat.freed) = (0, 0);
        }
        held.ladder.counts = Default::default();
    }

    /// (bytes of the largest free block of any pool, at least `floor`; 0 stands for the device's free memory) (R2.56).
    ///
    /// # Errors
    /// The driver's.
    pub fn largest_block(&self, floor: u64) -> Result<u64> {
        let floor = if floor == 0 { self.told(self.core.driver.mem_info(self.core.device))?.0 } else { floor };
        let held = self.core.hold();
        Ok(held.pools.iter().filter_map(|pool| pool.free.largest()).fold(floor, u64::max))
    }

    /// (base, bytes) of the segment that holds the live block at `addr` (R2.57).
    ///
    /// # Errors
    /// [`Error::Expandable`], [`Error::UnknownAddress`].
    pub fn base_allocation(&self, addr: u64) -> Result<(u64, u64)> {
        let place = self.core.index.find(addr).ok_or(Error::UnknownAddress { addr })?;
        let pool = self.core.pools[place.pool as usize].lock();
        let block = pool.live_at(place.segment, addr).ok_or(Error::UnknownAddress { addr })?;
        let segment = pool.segment(block);
        match segment.source {
            Source::Expandable(_) => Err(Error::Expandable { addr }),
            _ => Ok((segment.base, segment.size)),
        }
    }

    /// (requested, rounded) bytes of the live block at `addr`.
    pub fn size_of(&self, addr: u64) -> Option<(u64, u64)> {
        let place = self.core.index.find(addr)?;
        let pool = self.core.pools[place.pool as usize].lock();
        let block = &pool.blocks[pool.live_at(place.segment, addr)?];
        Some((block.requested, block.size))
    }

    /// The expandable segments, without those of the default stream, as PyTorch lists them (R4.39, L15); with
    /// `default_stream` those too.
    pub fn expandable_segments(&self, default_stream: bool) -> Vec<ExpandableSegment> {
        let held = self.core.hold();
        let mut all: Vec<_> = held
            .pools
            .iter()
            .filter(|pool| default_stream || pool.key.stream.raw != 0)
            .flat_map(|pool| pool.segments.iter().flatten().map(|segment| (pool.key, segment)))
            .filter_map(|(key, segment)| match &segment.source {
                Source::Expandable(pages) => Some((
                    segment.counter,
                    ExpandableSegment { stream: key.stream, class: key.class, mapped: pages.mapped_bytes() },
                )),
                _ => None,
            })
            .collect();
        all.sort_unstable_by_key(|(counter, _)| *counter);
        all.into_iter().map(|(_, segment)| segment).collect()
    }

    // ── Memory pools (section 5) ──

    /// Makes a memory pool with one reference, or adds a reference to one without a new allocator (R5.4).
    ///
    /// # Errors
    /// [`Error::PoolReleased`], [`Error::PoolExists`].
    pub fn create_or_incref_pool(&self, id: PoolId, custom: Option<Arc<dyn CustomAllocator>>) -> Result<()> {
        self.core.hold().create_or_incref_pool(id, custom)
    }

    /// Routes matching requests to a memory pool until [`Allocator::end_allocate_to_pool`]; one more reference (R5.5).
    ///
    /// # Errors
    /// [`Error::ScopeOpen`], [`Error::PoolReleased`].
    pub fn begin_allocate_to_pool(&self, id: PoolId, filter: Filter) -> Result<()> {
        self.core.hold().begin_allocate_to_pool(id, filter)
    }

    /// Closes the scope; the reference stays until [`Allocator::release_pool`] (R5.7).
    ///
    /// # Errors
    /// [`Error::ScopeNotOpen`], and those of ending a capture with blocks to use again (R5.34).
    pub fn end_allocate_to_pool(&self, id: PoolId) -> Result<()> {
        self.core.enter(|held| held.end_allocate_to_pool(id))
    }

    /// Drops a reference; without any the pool is freeable (R5.8).
    ///
    /// # Errors
    /// [`Error::UnknownPool`], [`Error::PoolReleased`].
    pub fn release_pool(&self, id: PoolId) -> Result<()> {
        self.core.hold().release_pool(id)
    }

    /// References to a memory pool (R5.10).
    ///
    /// # Errors
    /// [`Error::UnknownPool`].
    pub fn pool_use_count(&self, id: PoolId) -> Result<u64> {
        self.core.hold().pool_use_count(id)
    }

    /// Lets a memory pool lend cached blocks on OOM, or stops that (R2.27).
    ///
    /// # Errors
    /// [`Error::UnknownPool`].
    pub fn set_use_on_oom(&self, id: PoolId, lends: bool) -> Result<()> {
        self.core.hold().set_use_on_oom(id, lends)
    }

    /// Makes a memory pool hand out whole blocks only (R5.17).
    ///
    /// # Errors
    /// [`Error::UnknownPool`].
    pub fn set_no_split(&self, id: PoolId) -> Result<()> {
        self.core.hold().set_no_split(id)
    }

    /// Whether the live blocks of a memory pool are exactly those at `addrs` (R5.28).
    ///
    /// # Errors
    /// [`Error::UnknownPool`].
    pub fn pool_has_exactly(&self, id: PoolId, addrs: &BTreeSet<u64>) -> Result<bool> {
        self.core.hold().pool_has_exactly(id, addrs)
    }

    /// Tells the allocator that a capture has begun on its device (R5.21).
    pub fn mark_capture_begin(&self) {
        self.core.hold().capture_began();
    }

    /// Tells the allocator that a capture has ended on its device (R5.21).
    pub fn mark_capture_end(&self) {
        self.core.hold().capture_ended();
    }

    // ── Peers, history, observers ──

    /// Lets `peer` use this device's memory: plain allocations through the driver, and every mapped range of expandable
    /// segments now and later (R4.24).
    ///
    /// # Errors
    /// The driver's.
    pub fn enable_peer_access(&self, peer: Device) -> Result<()> {
        self.core.hold().add_peer(peer)
    }

    /// Starts or changes the history; `None` stops and clears it (R9.18–R9.21).
    pub fn record_history(&self, options: Option<HistoryOptions>) {
        self.core.hold().rewire(|journal| journal.record(options));
    }

    /// Whether a history is kept.
    pub fn is_history_enabled(&self) -> bool {
        self.core.journal.is_recording()
    }

    /// Takes the history out, oldest entry first.
    pub fn take_history(&self) -> Vec<Event> {
        self.core.hold().take_history()
    }

    /// Adds a subscriber to all events.
    pub fn attach_observer(&self, observer: Arc<dyn Observer>) {
        self.core.hold().rewire(|journal| journal.attach(observer));
    }

    /// Adds somebody who is told of out-of-memory errors before they are raised (R9.25).
    pub fn attach_oom_observer(&self, observer: Arc<dyn OomObserver>) {
        self.core.hold_ladder().oom_observers.push(observer);
    }

    /// Adds somebody who is told of rejections (R2.41).
    pub fn attach_rejection_observer(&self, observer: Arc<dyn OomObserver>) {
        self.core.hold_ladder().rejection_observers.push(observer);
    }

    /// Adds somebody who can free memory when a request finds none (R2.8).
    pub fn attach_free_memory_callback(&self, callback: Arc<dyn FreeMemoryCallback>) {
        self.core.hold_ladder().callbacks.push(callback);
    }

    /// Writes an annotation of the live block at `addr` into the history (R9.23).
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    pub fn annotate(&self, addr: u64, text: &str, caller: &Caller<'_>) -> Result<()> {
        let place = self.core.index.find(addr).ok_or(Error::UnknownAddress { addr })?;
        let pool = self.core.pools[place.pool as usize].lock();
        let block = pool.live_at(place.segment, addr).ok_or(Error::UnknownAddress { addr })?;
        let text: Arc<str> = text.into();
        let caller = Caller { metadata: Some(&text), ..*caller };
        let happened = Happened::new(Action::Annotate, addr, pool.blocks[block].requested, pool.key);
        self.core.emit(happened, Some(&caller));
        Ok(())
    }

    /// The stack that allocated the live block at `addr`, if it was recorded (R9.23).
    pub fn allocation_stack(&self, addr: u64) -> Option<crate::caller::Stack> {
        let place = self.core.index.find(addr)?;
        let pool = self.core.pools[place.pool as usize].lock();
        pool.stacks.get(&pool.live_at(place.segment, addr)?).cloned()
    }

    /// Takes the last error that a dropped [`crate::Buffer`] could not return.
    pub fn last_error(&self) -> Option<Error> {
        self.core.last_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The result of a driver call that goes to the caller. Its error is told by that: it must not come up a second time at
    /// the next request (R2.9).
    pub(crate) fn told<T>(&self, result: millpond_driver::Result<T>) -> Result<T> {
        result.map_err(Error::from).inspect_err(|error| self.core.returned(error))
    }

    /// Leaves the error of a drop where [`Allocator::last_error`] finds it.
    pub(crate) fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            *self.core.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Begins a capture on `stream` into `pool`, in PyTorch's order: the scope, those of pinned memory, the driver, the mark
    /// (R5.23).
    pub(crate) fn begin_capture(&self, stream: Stream, pool: PoolId, mode: CaptureMode) -> Result<HostScopes> {
        let id = Arc::new(std::sync::OnceLock::new());
        let filter = Filter::Capture(Arc::clone(&id));
        self.begin_allocate_to_pool(pool, filter.clone())?;
        let begun = HostScopes::open(self.world(), pool, &filter).and_then(|scopes| {
            let driver = &self.core.driver;
            let begun = driver.capture_begin(stream, mode).and_then(|()| driver.capture_info(stream));
            Ok((self.told(begun)?, scopes))
        });
        match begun {
            Ok((info, scopes)) => {
                let _ = id.set(info.id);
                self.mark_capture_begin();
                Ok(scopes)
            }
            Err(error) => {
                self.end_allocate_to_pool(pool)?;
                self.release_pool(pool)?;
                Err(error)
            }
        }
    }
}
