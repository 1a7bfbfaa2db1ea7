//! The ladder of a request that found no free block: callbacks, collection, a new segment, other pools, release, and at
//! the end the out-of-memory error (R2.2 of section 2.2, R2.6–R2.17, R2.27–R2.29, R2.40–R2.49).

use crate::address_index::Place;
use crate::block::BlockId;
use crate::caller::{Caller, Stack};
use crate::config::Preset;
use crate::device::{Core, Happened, Held, gates};
use crate::error::{Error, Result};
use crate::event::Action;
use crate::free_list::FreeEntry;
use crate::oom::{Hint, Oom};
use crate::pool::{Fit, PoolKey};
use crate::private::PoolId;
use crate::segment::Source;
use crate::size::{SizeClass, segment_size};
use crate::stats::Metric;

/// A request on its way up.
pub(crate) struct Request<'r> {
    pub key: PoolKey,
    pub pool: u32,
    pub fit: Fit,
    /// What is asked of the driver, bytes (R1.11).
    pub alloc_size: u64,
    pub in_capture: bool,
    pub stack: Option<Stack>,
    pub caller: &'r Caller<'r>,
}

/// What one rung gave.
enum Rung {
    /// A block in no list.
    Block(BlockId),
    /// No room.
    NoRoom,
    /// No room, and the memory pool's own allocator said so.
    CustomFailed,
    /// Rejected by policy (R2.40): no retries.
    Rejected,
}

/// A block and the pool that owns it.
struct Found {
    pool: u32,
    block: BlockId,
    fit: Fit,
}

impl Core {
    /// Serves a request the long way. `searched`: the caller has looked into the pool and found nothing, and ticked the
    /// collection clock.
    pub fn alloc_slow(
        &self,
        requested: u64,
        stream: millpond_driver::Stream,
        caller: &Caller<'_>,
        stack: Option<Stack>,
        searched: bool,
    ) -> Result<u64> {
        self.alloc_held(requested, stream, caller, stack, searched).inspect_err(|error| {
            self.returned(error);
            self.catch_up();
        })
    }

    fn alloc_held(
        &self,
        requested: u64,
        stream: millpond_driver::Stream,
        caller: &Caller<'_>,
        stack: Option<Stack>,
        searched: bool,
    ) -> Result<u64> {
        let gates = self.gates.load(std::sync::atomic::Ordering::Acquire);
        let asked = if gates & gates::SCOPES == 0 { Default::default() } else { self.ask_filters(stream) };
        let mut held = Held { call: stack.clone(), ..self.hold() };
        let in_capture = held.in_capture(caller)?;
        if !in_capture {
            if gates & gates::PENDING != 0 || !held.ladder.deferred.is_empty() {
                held.process_events(Some(caller))?;
            }
        } else if held.ladder.settings.graph_capture_record_stream_reuse {
            held.free_safe_in_capture(stream, caller, &asked)?;
        }
        let rounded = self.rounding.round(requested);
        let memory_pool = held.route(stream, caller, &asked)?;
        let key = PoolKey { memory_pool, class: SizeClass::of(rounded), stream };
        let pool = held.pool(key);
        let fit = held.pools[pool as usize].fit(requested, rounded);
        let alloc_size = segment_size(rounded, held.ladder.settings.large_segment_size);
        let request = Request { key, pool, fit, alloc_size, in_capture, stack, caller };
        let (mut held, found) = held.climb(&request, searched)?;
        let addr = held.finish(found, &request);
        held.release();
        Ok(addr)
    }
}

impl<'a> Held<'a> {
    /// Steps 5 to 11 of R2.2's list.
    fn climb(self, request: &Request<'_>, searched: bool) -> Result<(Held<'a>, Found)> {
        let (pool, fit, caller) = (request.pool, request.fit, request.caller);
        let mut held = self;
        let hit = |held: &mut Held<'a>, entry: FreeEntry| {
            held.pools[pool as usize].take_free(entry);
            Found { pool, block: entry.block, fit }
        };
        let first =
            if searched { held.pools[pool as usize].find(fit) } else { held.pools[pool as usize].tick_and_find(fit) };
        if let Some(entry) = first {
            let found = hit(&mut held, entry);
            return Ok((held, found));
        }
        if !held.ladder.callbacks.is_empty() {
            let callbacks = held.ladder.callbacks.clone();
            // Every callback runs, whatever the others said (R2.8).
            let (again, freed) =
                held.outside(|| callbacks.iter().fold(false, |freed, callback| callback.free_memory() | freed));
            held = again;
            if freed && let Some(entry) = held.pools[pool as usize].tick_and_find(fit) {
                let found = hit(&mut held, entry);
                return Ok((held, found));
            }
        }
        if held.collects() {
            held.collect_garbage(caller)?;
            held = held.deliver_returns();
        }
        let mut custom_failed = false;
        let (mut held, rung) = held.new_memory(request, false)?;
        match rung {
            Rung::Block(block) => return Ok((held, Found { pool, block, fit })),
            Rung::Rejected => return Err(held.reject(request)),
            Rung::CustomFailed => custom_failed = true,
            Rung::NoRoom => {}
        }
        if !request.key.memory_pool.is_private()
            && let Some(found) = held.borrow_from_lenders(request)?
        {
            return Ok((held, found));
        }
        if let Some(block) = held.reuse_under_pressure(request)? {
            held.count_driver_allocation(request.key.memory_pool);
            return Ok((held, Found { pool, block, fit }));
        }
        // A real driver invalidates a capture in which memory is freed; only the `torch` preset does it (C21).
        let may_release = !request.in_capture || held.ladder.settings.preset == Preset::Torch;
        if may_release && held.release_available(pool, fit, caller)? {
            let (again, rung) = held.deliver_returns().new_memory(request, false)?;
            held = again;
            match rung {
                Rung::Block(block) => return Ok((held, Found { pool, block, fit })),
                Rung::Rejected => return Err(held.reject(request)),
                Rung::CustomFailed => custom_failed = true,
                Rung::NoRoom => {}
            }
        }
        if !request.in_capture {
            held.release_cached(PoolId::DEFAULT, false, caller)?;
            let (again, rung) = held.deliver_returns().new_memory(request, true)?;
            held = again;
            match rung {
                Rung::Block(block) => return Ok((held, Found { pool, block, fit })),
                Rung::Rejected => return Err(held.reject(request)),
                Rung::CustomFailed => custom_failed = true,
                Rung::NoRoom => {}
            }
            // The wait may have freed pages that the release does not give back, in private pools say.
            if let Some(block) = held.reuse_under_pressure(request)? {
                held.count_driver_allocation(request.key.memory_pool);
                return Ok((held, Found { pool, block, fit }));
            }
            // PyTorch gives up here although the wait may have freed a fitting block (R2.7, L1).
            if held.ladder.settings.retry_after_sync
                && let Some(entry) = held.pools[pool as usize].find(fit)
            {
                let found = hit(&mut held, entry);
                return Ok((held, found));
            }
        }
        Err(held.out_of_memory(request, custom_failed))
    }

    /// Memory from the driver: pages or a segment (`alloc_block`, R2.9–R2.17). The block is in no list.
    fn new_memory(mut self, request: &Request<'_>, is_retry: bool) -> Result<(Held<'a>, Rung)> {
        if let Some(code) = self.core.driver.take_last_error() {
            return Err(Error::Driver(millpond_driver::DriverError::new(code, "cudaGetLastError")));
        }
        let Request { key, pool, alloc_size, caller, .. } = *request;
        if is_retry {
            self.ladder.counts.retries += 1;
            self.emit(Happened::new(Action::Retry, 0, alloc_size, key), Some(caller));
        }
        if !self.ladder.leaving.is_empty() && !request.in_capture {
            self.unmap_passed()?;
        }
        if let Some(block) = self.reuse_first(request)? {
            self.count_driver_allocation(key.memory_pool);
            return Ok((self, Rung::Block(block)));
        }
        let wanted = self.ladder.total_allocated.saturating_add(alloc_size);
        if self.ladder.limit.is_some_and(|limit| wanted > limit) {
            return Ok((self, Rung::NoRoom));
        }
        if self.ladder.settings.throw_on_cudamalloc_oom {
            let allowed = self.ladder.settings.per_process_memory_fraction * self.core.total as f64;
            if wanted > allowed as u64 {
                if let Some(block) = self.reuse_under_pressure(request)? {
                    self.count_driver_allocation(key.memory_pool);
                    return Ok((self, Rung::Block(block)));
                }
                self.ladder.counts.rejections += 1;
                return Ok((self, Rung::Rejected));
            }
        }
        if request.fit.expandable {
            let block = self.expand(pool, request.fit.rounded, request.stack.as_ref(), caller)?;
            if let Some(block) = block {
                self.count_driver_allocation(key.memory_pool);
                return Ok((self, Rung::Block(block)));
            }
            return Ok((self, Rung::NoRoom));
        }
        let custom = self.ladder.memory_pools.get(&key.memory_pool).and_then(|pool| pool.custom.clone());
        let (mut held, source, base) = match custom {
            Some(custom) => {
                let (held, base) = self.ask_custom(&custom, request)?;
                let Some(base) = base else { return Ok((held, Rung::CustomFailed)) };
                (held, Source::Custom(custom), base)
            }
            None => {
                let (held, base) = self.cuda_malloc(request)?;
                let Some(base) = base else { return Ok((held, Rung::NoRoom)) };
                (held, Source::Driver, base)
            }
        };
        let block = held.take_up_segment(request, source, base);
        Ok((held, Rung::Block(block)))
    }

    /// One cudaMalloc (R2.14–R2.16); `None` when the device has no room.
    fn cuda_malloc(self, request: &Request<'_>) -> Result<(Held<'a>, Option<u64>)> {
        let core = self.core;
        let relaxed = request.in_capture;
        let call = || {
            let before = if relaxed {
                Some(core.driver.exchange_capture_mode(millpond_driver::CaptureMode::Relaxed)?)
            } else {
                None
            };
            let result = core.driver.mem_alloc(core.device, request.alloc_size);
            if let Some(mode) = before
                && let Err(error) = core.driver.exchange_capture_mode(mode)
            {
                // The memory is there all the same.
                tracing::warn!("cannot set the thread's capture mode back: {error}");
            }
            result
        };
        let (held, result) =
            if self.ladder.settings.release_lock_on_cudamalloc { self.outside(call) } else { (self, call()) };
        match result {
            Ok(base) => Ok((held, Some(base))),
            Err(error) if error.is_out_of_memory() => {
                let _ = core.driver.take_last_error();
                tracing::info!("no room for a segment of {} bytes on {}", request.alloc_size, core.device);
                Ok((held, None))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Books a new segment (R2.17); its block is in no list.
    fn take_up_segment(&mut self, request: &Request<'_>, source: Source, base: u64) -> BlockId {
        let Request { key, pool, alloc_size, .. } = *request;
        let counter = self.core.world.register();
        self.count_driver_allocation(key.memory_pool);
        let held = &mut self.pools[pool as usize];
        let block = held.add_segment(base, alloc_size, counter, source, request.stack.clone());
        held.counters.raise(Metric::Segment, 1);
        if alloc_size >= held.policy.max_split_size {
            held.counters.raise(Metric::OversizeSegments, 1);
        }
        let segment = held.blocks[block].segment;
        self.core.index.insert(base, alloc_size, Place { pool, segment });
        self.hold_more(pool, alloc_size);
        self.ladder.counts.device_allocs += 1;
        let happened = Happened::new(Action::SegmentAlloc, base, alloc_size, key).with(request.stack.clone());
        self.emit(happened, Some(request.caller));
        block
    }

    fn count_driver_allocation(&mut self, id: PoolId) {
        if id.is_private()
            && let Some(owner) = self.memory_pool(id)
        {
            owner.driver_allocations += 1;
        }
    }

    /// A cached block of a pool that lends on OOM (R2.27–R2.29). It stays that pool's. PyTorch opens a scope for the lender,
    /// and fails if there is one (R2.30); the `millpond` preset needs no scope.
    fn borrow_from_lenders(&mut self, request: &Request<'_>) -> Result<Option<Found>> {
        let fit = Fit { expandable: false, ..request.fit };
        let lenders: Vec<PoolId> = self.ladder.lenders.keys().collect();
        for memory_pool in lenders {
            if !self.ladder.memory_pools.contains_key(&memory_pool) {
                continue;
            }
            let open = self.ladder.scopes.iter().any(|scope| scope.pool == memory_pool);
            if open && self.ladder.settings.preset == Preset::Torch {
                return Err(Error::ScopeOpen { pool: memory_pool });
            }
            let pool = self.pool(PoolKey { memory_pool, ..request.key });
            if let Some(entry) = self.pools[pool as usize].tick_and_find(fit) {
                self.pools[pool as usize].take_free(entry);
                return Ok(Some(Found { pool, block: entry.block, fit }));
            }
        }
        Ok(None)
    }

    /// Hands the block out and books it (R2.50).
    fn finish(&mut self, found: Found, request: &Request<'_>) -> u64 {
        let Found { pool, block, fit } = found;
        if request.in_capture {
            self.mark_captured(pool);
        }
        self.hand_out(pool, block, fit, request.stack.clone(), request.caller)
    }

    /// Hands a block that is in no list out.
    pub fn hand_out(&mut self, pool: u32, block: BlockId, fit: Fit, stack: Option<Stack>, caller: &Caller<'_>) -> u64 {
        let held = &mut self.pools[pool as usize];
        let live = held.hand_out(block, fit);
        let addr = held.blocks[live].addr;
        let happened = Happened::new(Action::Alloc, addr, fit.requested, held.key).with(stack.clone());
        if let Some(stack) = stack {
            held.stacks.insert(live, stack);
        }
        self.core.emit(happened, Some(caller));
        self.settle(pool);
        addr
    }

    /// The end of a request that policy rejects (R2.41).
    fn reject(self, request: &Request<'_>) -> Error {
        let oom = self.figures(request, false);
        self.emit(Happened::new(Action::Rejected, 0, request.fit.rounded, request.key), Some(request.caller));
        let observers = self.ladder.rejection_observers.clone();
        tracing::warn!(
            "a request of {} bytes was rejected: it would exceed per_process_memory_fraction",
            request.fit.requested
        );
        self.release();
        if let Ok(oom) = oom {
            observers.iter().for_each(|observer| observer.out_of_memory(&oom));
        }
        Error::Rejected { requested: request.fit.requested }
    }

    /// The end of a request that found nothing anywhere (R2.43).
    fn out_of_memory(mut self, request: &Request<'_>, custom_failed: bool) -> Error {
        let oom = match self.figures(request, custom_failed) {
            Ok(oom) => oom,
            Err(error) => return error,
        };
        let happened = Happened::new(Action::Oom, oom.device_free, request.fit.rounded, request.key);
        self.emit(happened.with(request.stack.clone()), Some(request.caller));
        self.ladder.counts.ooms += 1;
        let observers = self.ladder.oom_observers.clone();
        self.release();
        observers.iter().for_each(|observer| observer.out_of_memory(&oom));
        Error::OutOfMemory(Box::new(oom))
    }

    /// Every figure of the message (R2.46, R2.47).
    fn figures(&self, request: &Request<'_>, custom_failed: bool) -> Result<Oom> {
        let core = self.core;
        let (device_free, device_total) = core.driver.mem_info(core.device)?;
        let sum = |metric| self.pools.iter().map(|pool| pool.counters.current(metric) as u64).sum();
        let private = self.pools.iter().filter(|pool| pool.key.memory_pool.is_private());
        Ok(Oom {
            device: core.device,
            stream: request.key.stream,
            pool: request.key.memory_pool,
            requested: request.fit.requested,
            rounded: request.fit.rounded,
            alloc_size: request.alloc_size,
            device_free,
            device_total,
            processes: core.driver.process_use(core.device),
            limit: self.ladder.limit,
            allocated: sum(Metric::AllocatedBytes),
            reserved: sum(Metric::ReservedBytes),
            cached_in_private_pools: private.map(|pool| pool.free.bytes()).sum(),
            hint: self.hint(request),
            custom_allocator_failed: custom_failed,
        })
    }

    /// The advice of the message (R2.48).
    fn hint(&self, request: &Request<'_>) -> Hint {
        if !self.ladder.settings.expandable_segments {
            return Hint::TryExpandable;
        }
        let (reserve, class) = self.reserve_bytes(request.key.stream.raw);
        if request.alloc_size <= self.core.total && reserve < request.alloc_size {
            return Hint::ReserveTooSmall { reserve, class };
        }
        Hint::AddressSpace
    }
}
