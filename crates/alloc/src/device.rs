//! The struct that holds it all, and how it is locked.
//!
//! Order of locks: ladder → pools → address index → journal. A hit takes one pool and nothing else; only who holds the ladder
//! takes more than one. Settling a pool's leases takes another pool one at a time (`settling.rs`). Everything
//! else takes the ladder and then all pools ([`Held`]): it sees the device standing still. Foreign code runs under none.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use millpond_driver::{Device, Driver, Event as DriverEvent, Handle, Stream};

use crate::address_index::AddressIndex;
use crate::caller::{Caller, Stack};
use crate::capture::Reuse;
use crate::config::Settings;
use crate::custom::{BeingAsked, CustomAllocator};
use crate::error::Error;
use crate::event::{Action, Event};
use crate::log::Log;
use crate::oom::OomObserver;
use crate::order::{NamedStream, TorchMap, TorchSet};
use crate::pages::{Leaving, Pins, Rest};
use crate::pending::{Deferred, Queue};
use crate::pool::{Policy, Pool, PoolKey};
use crate::private::{MemoryPool, PoolId};
use crate::routing::Scope;
use crate::size::{SizeClass, division_interval, round};
use crate::stats::{Counters, Peaks, Stat};
use crate::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use crate::sync::{Mutex, MutexGuard, SpinGuard, SpinLock};
use crate::trace::{Journal, Level};
use crate::world::World;

pub(crate) type PoolLock = SpinLock<Pool>;
type PoolGuard<'a> = SpinGuard<'a, Pool>;

/// One device's allocator.
pub(crate) struct Core {
    pub driver: Arc<dyn Driver>,
    pub device: Device,
    /// The device's memory, bytes.
    pub total: u64,
    pub world: Arc<World>,
    /// Append-only; a pool of a dead memory pool is used again for another.
    pub pools: boxcar::Vec<PoolLock>,
    pub routes: Routes,
    pub index: AddressIndex,
    pub journal: Journal,
    pub rounding: Rounding,
    /// What forbids the short way of a hit; see [`gates`].
    pub gates: AtomicU32,
    pub last_error: Mutex<Option<Error>>,
    pub being_asked: BeingAsked,
    ladder: Mutex<Ladder>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("device", &self.device).field("total", &self.total).finish_non_exhaustive()
    }
}

/// Why a request cannot take the short way.
pub(crate) mod gates {
    /// Blocks wait for events or for the end of a capture.
    pub const PENDING: u32 = 1;
    /// A routing scope is open.
    pub const SCOPES: u32 = 2;
    /// A capture is under way: blocks freed in it may be used again before it ends, and pages under blocks handed out in it
    /// do not move.
    pub const CAPTURE: u32 = 4;
    /// Caching is off.
    pub const UNCACHED: u32 = 8;
    /// Somebody wants events, and more than a history without stacks. The way is still short, but writes them.
    pub const WATCHED: u32 = 16;
}

/// All that spans pools.
pub(crate) struct Ladder {
    pub settings: Arc<Settings>,
    /// Bytes held from the driver (R2.11).
    pub total_allocated: u64,
    /// The most that may be held (R2.38).
    pub limit: Option<u64>,
    /// The default pool and the private ones.
    pub memory_pools: BTreeMap<PoolId, MemoryPool>,
    /// Private pools without owners, in PyTorch's order (R2.32).
    pub freeable: TorchSet<PoolId>,
    /// Private pools that lend on OOM, in PyTorch's order (R2.27).
    pub lenders: TorchSet<PoolId>,
    /// Open routing scopes, oldest first.
    pub scopes: Vec<Scope>,
    /// Captures under way on the device (R5.21).
    pub captures: u32,
    /// Blocks that wait for events, by the stream of the event (R3.8).
    pub queues: TorchMap<NamedStream, Queue>,
    /// Blocks freed in a capture while other streams use them (R5.29).
    pub deferred: Vec<Deferred>,
    pub reuse: Vec<Reuse>,
    /// Events not in use.
    pub spare_events: Vec<DriverEvent>,
    /// Devices that may reach this one's memory (R4.24).
    pub peers: Vec<Device>,
    pub peaks: Peaks,
    pub by_private_pool: BTreeMap<PoolId, [Stat; 3]>,
    pub counts: Counts,
    pub max_split_at_start: u64,
    /// Pools that no memory pool uses, by size class.
    pub vacant: [Vec<u32>; 2],
    pub callbacks: Vec<Arc<dyn FreeMemoryCallback>>,
    pub oom_observers: Vec<Arc<dyn OomObserver>>,
    pub rejection_observers: Vec<Arc<dyn OomObserver>>,
    /// Blocks handed out while caching is off, by address: their bytes.
    pub uncached: BTreeMap<u64, u64>,
    /// Live ranges of custom allocators, for all pools: base to end.
    pub custom_ranges: BTreeMap<u64, u64>,
    /// Segments whose custom allocators are called when the locks are gone.
    pub returns: Vec<Return>,
    /// Old mappings of pages that have moved.
    pub leaving: Leaving,
    /// How much has moved, and what bounds it.
    pub rest: Rest,
    /// Pages that stay where they are.
    pub pins: Pins,
    /// Handles that the driver failed to release; it is asked again at the next release.
    pub orphans: Vec<Handle>,
    /// Reservations (base and bytes) that the driver failed to free; likewise.
    pub orphan_ranges: Vec<(u64, u64)>,
}

/// The six plain counters (R8.2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub retries: u64,
    pub ooms: u64,
    pub syncs: u64,
    pub device_allocs: u64,
    pub device_frees: u64,
    pub rejections: u64,
}

/// Somebody who can free memory of this allocator when a request finds none (R2.8).
pub trait FreeMemoryCallback: std::fmt::Debug + Send + Sync {
    /// Frees what it can; returns whether it freed anything. Called under none of the allocator's locks.
    fn free_memory(&self) -> bool;
}

/// Segments of custom allocators on their way back: their owners are called when the locks are gone.
#[derive(Debug)]
pub(crate) struct Return {
    pub to: Arc<dyn CustomAllocator>,
    pub addr: u64,
    pub bytes: u64,
    pub stream: Stream,
}

/// The device standing still: the ladder and all pools.
pub(crate) struct Held<'a> {
    pub core: &'a Core,
    pub ladder: MutexGuard<'a, Ladder>,
    pub pools: Vec<PoolGuard<'a>>,
    /// The stack of the call under way, taken before any lock. What it frees or gives back on its way shows this stack, and
    /// without one that of whoever allocated it.
    pub call: Option<Stack>,
}

impl Core {
    pub fn new(driver: Arc<dyn Driver>, device: Device, world: Arc<World>, caching: bool) -> Result<Arc<Self>, Error> {
        let total = driver.caps(device)?.total.0;
        let settings = world.settings();
        let ladder = Ladder {
            total_allocated: 0,
            limit: limit_of(settings.per_process_memory_fraction, total),
            memory_pools: BTreeMap::from([(PoolId::DEFAULT, MemoryPool::new(None))]),
            freeable: TorchSet::default(),
            lenders: TorchSet::default(),
            scopes: Vec::new(),
            captures: 0,
            queues: TorchMap::default(),
            deferred: Vec::new(),
            reuse: Vec::new(),
            spare_events: Vec::new(),
            peers: Vec::new(),
            peaks: Peaks::default(),
            by_private_pool: BTreeMap::new(),
            counts: Counts::default(),
            max_split_at_start: settings.max_split_size,
            vacant: Default::default(),
            callbacks: Vec::new(),
            oom_observers: Vec::new(),
            rejection_observers: Vec::new(),
            uncached: BTreeMap::new(),
            custom_ranges: BTreeMap::new(),
            returns: Vec::new(),
            leaving: Leaving::default(),
            rest: Rest::default(),
            pins: Pins::default(),
            orphans: Vec::new(),
            orphan_ranges: Vec::new(),
            settings: Arc::clone(&settings),
        };
        let core = Arc::new(Core {
            driver,
            device,
            total,
            world,
            pools: boxcar::Vec::new(),
            routes: Routes::default(),
            index: AddressIndex::default(),
            journal: Journal::default(),
            rounding: Rounding::default(),
            gates: AtomicU32::new(if caching { 0 } else { gates::UNCACHED }),
            last_error: Mutex::new(None),
            being_asked: BeingAsked::default(),
            ladder: Mutex::new(ladder),
        });
        core.rounding.set(&settings);
        core.world.join(&core);
        Ok(core)
    }

    /// The ladder alone, for what concerns no block.
    pub fn hold_ladder(&self) -> MutexGuard<'_, Ladder> {
        self.ladder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ladder and all pools.
    pub fn hold(&self) -> Held<'_> {
        self.hold_all(self.hold_ladder())
    }

    /// All pools, too.
    pub fn hold_all<'a>(&'a self, ladder: MutexGuard<'a, Ladder>) -> Held<'a> {
        let lock = |(_, pool)| {
            let mut pool: PoolGuard<'_> = PoolLock::lock(pool);
            pool.catch_up();
            pool
        };
        let mut held = Held { core: self, ladder, pools: self.pools.iter().map(lock).collect(), call: None };
        // A thread may stand between its hit and its settling: whoever looks now must see the peak that it made.
        (0..held.pools.len()).for_each(|pool| held.settle(pool as u32));
        held
    }

    /// Does something with the device standing still; what is due under no lock is done after, whatever the outcome.
    pub fn enter<R>(&self, act: impl FnOnce(&mut Held<'_>) -> crate::error::Result<R>) -> crate::error::Result<R> {
        self.enter_with(None, act)
    }

    /// The same for a call with a stack.
    pub fn enter_with<R>(
        &self,
        call: Option<Stack>,
        act: impl FnOnce(&mut Held<'_>) -> crate::error::Result<R>,
    ) -> crate::error::Result<R> {
        let mut held = Held { call, ..self.hold() };
        let result = act(&mut held);
        held.release();
        result.inspect_err(|error| self.returned(error))
    }

    /// An error of the driver goes to the caller: it must not come up a second time at the next request (R2.9, C71). A
    /// fatal one stays by itself.
    pub fn returned(&self, error: &Error) {
        if matches!(error, Error::Driver(_)) {
            let _ = self.driver.take_last_error();
        }
    }

    /// Gives custom allocators back what is theirs, and shows observers what happened.
    pub fn settle_outside(&self, returns: Vec<Return>) {
        for Return { to, addr, bytes, stream } in returns {
            to.raw_delete(addr, bytes, stream);
        }
        self.journal.deliver();
    }

    /// The same after a failure that dropped the locks on its way.
    pub fn catch_up(&self) {
        let returns = std::mem::take(&mut self.hold_ladder().returns);
        self.settle_outside(returns);
    }

    /// The stack for a call, taken before any lock (R2.2 step 0, R3.2).
    pub fn stack(&self, caller: &Caller<'_>, from: Level) -> Option<Stack> {
        if self.journal.level() < from {
            return None;
        }
        caller.stack.and_then(|source| source.capture())
    }

    /// Writes an event if anybody wants it.
    #[inline]
    pub fn emit(&self, happened: Happened, caller: Option<&Caller<'_>>) {
        if self.journal.is_on() {
            self.emit_now(happened, caller);
        }
    }

    #[cold]
    fn emit_now(&self, happened: Happened, caller: Option<&Caller<'_>>) {
        self.journal.write([happened.at(self.driver.now_us())], caller);
    }

    /// Writes two events of one moment.
    #[cold]
    pub fn emit_both(&self, happened: [Happened; 2], caller: Option<&Caller<'_>>) {
        let now = self.driver.now_us();
        self.journal.write(happened.map(|happened| happened.at(now)), caller);
    }
}

impl Drop for Core {
    /// The last owner gives cached memory back. Segments with live blocks stay: somebody holds their addresses.
    fn drop(&mut self) {
        let caller = Caller::on(Stream::default_of(self.device));
        let mut held = self.hold();
        let private: Vec<PoolId> = held.ladder.memory_pools.keys().copied().filter(|id| id.is_private()).collect();
        for id in private {
            held.ladder.freeable.insert(id);
        }
        held.ladder.scopes.clear();
        // Nobody is left who could be told of an error.
        let _ = held.release_cached(PoolId::DEFAULT, false, &caller);
        held.give_up_unmapped();
        let guards = held.ladder.leaving.take_spare();
        for event in std::mem::take(&mut held.ladder.spare_events).into_iter().chain(guards) {
            let _ = self.driver.event_destroy(event);
        }
        held.release();
    }
}

/// An event before it has a time.
pub(crate) struct Happened {
    pub action: Action,
    pub addr: u64,
    pub size: u64,
    pub stream: Stream,
    pub pool: PoolId,
    pub stack: Option<Stack>,
    pub internal: Option<&'static str>,
}

impl Happened {
    pub fn new(action: Action, addr: u64, size: u64, key: PoolKey) -> Self {
        Happened { action, addr, size, stream: key.stream, pool: key.memory_pool, stack: None, internal: None }
    }

    pub fn with(self, stack: Option<Stack>) -> Self {
        Happened { stack, ..self }
    }

    pub fn at(self, time_us: u64) -> Event {
        let Happened { action, addr, size, stream, pool, stack, internal } = self;
        Event { action, addr, size, stream, time_us, pool, stack, metadata: None, compile_context: None, internal }
    }
}

/// The limit for a fraction of the device's memory; none at 1 (R2.38).
pub(crate) fn limit_of(fraction: f64, total: u64) -> Option<u64> {
    (fraction < 1.0).then(|| (fraction * total as f64).round() as u64)
}

impl<'a> Held<'a> {
    /// Runs foreign code with all locks released; what was known before may have changed after.
    pub fn outside<R>(self, foreign: impl FnOnce() -> R) -> (Held<'a>, R) {
        let (core, call) = (self.core, self.call.clone());
        self.release();
        let result = foreign();
        (Held { call, ..core.hold() }, result)
    }

    /// Gives custom allocators back what is theirs before anything is asked of the driver.
    pub fn deliver_returns(self) -> Held<'a> {
        if self.ladder.returns.is_empty() { self } else { self.outside(|| ()).0 }
    }

    /// Unlocks, then does what is due under no lock.
    pub fn release(self) {
        let Held { core, mut ladder, pools, .. } = self;
        let returns = std::mem::take(&mut ladder.returns);
        drop(pools);
        drop(ladder);
        core.settle_outside(returns);
    }

    /// The pool and block of the live block at `addr`.
    pub fn live_at(&self, addr: u64) -> Option<(u32, u32)> {
        let place = self.core.index.find(addr)?;
        Some((place.pool, self.pools[place.pool as usize].live_at(place.segment, addr)?))
    }

    /// Every pool's class and counters.
    pub fn counters(&self) -> Vec<(SizeClass, &Counters)> {
        self.pools.iter().map(|pool| (pool.key.class, &pool.counters)).collect()
    }

    /// The pool of a key, made if it is not there. The memory pool must exist.
    pub fn pool(&mut self, key: PoolKey) -> u32 {
        let Some(memory_pool) = self.ladder.memory_pools.get(&key.memory_pool) else {
            unreachable!("requests are routed to memory pools that exist")
        };
        let family = &memory_pool.families[key.class as usize];
        if let Some(&pool) = family.pools.get(&key.stream.raw) {
            return pool;
        }
        let clock = Arc::clone(&family.clock);
        let policy = self.policy(key.memory_pool);
        let pool = match self.ladder.vacant[key.class as usize].pop() {
            Some(index) => {
                // The counters stay: their sums belong to the device.
                let pool = &mut self.pools[index as usize];
                let key_before = pool.key;
                pool.log.iter_mut().for_each(|log| log.hand_in(&self.core.journal, key_before));
                (pool.key, pool.policy, pool.clock) = (key, policy, clock);
                index
            }
            None => {
                let mut pool = Pool::new(key, policy, clock);
                pool.log = self.core.journal.is_on().then(Log::default);
                let index = self.core.pools.push(PoolLock::new(pool));
                self.pools.push(self.core.pools[index].lock());
                index as u32
            }
        };
        if let Some(memory_pool) = self.ladder.memory_pools.get_mut(&key.memory_pool) {
            memory_pool.families[key.class as usize].pools.insert(key.stream.raw, pool);
        }
        if key.memory_pool == PoolId::DEFAULT {
            self.core.routes.insert(key.stream.raw, key.class, pool);
        }
        pool
    }

    /// The settings that a memory pool's pools act on.
    fn policy(&self, id: PoolId) -> Policy {
        let settings = &self.ladder.settings;
        let memory_pool = self.ladder.memory_pools.get(&id);
        Policy {
            expandable: settings.expandable_segments
                && memory_pool.is_none_or(|pool| pool.custom.is_none() && pool.asleep.is_none()),
            max_split_size: settings.max_split_size,
            max_non_split_rounding: settings.max_non_split_rounding,
            no_split: memory_pool.is_some_and(|pool| pool.no_split),
            clock_ticks: self.collects(),
        }
    }

    /// Whether garbage collection is on (R2.18).
    pub fn collects(&self) -> bool {
        self.ladder.limit.is_some() && self.ladder.settings.garbage_collection_threshold > 0.0
    }

    /// Tells every pool what it acts on, after anything of it changed.
    pub fn set_policies(&mut self) {
        for index in 0..self.pools.len() {
            let policy = self.policy(self.pools[index].key.memory_pool);
            self.pools[index].policy = policy;
        }
    }

    /// Acts on changed settings from now on.
    pub fn adopt(&mut self, settings: Arc<Settings>) {
        self.core.rounding.set(&settings);
        self.ladder.settings = settings;
        self.set_policies();
        self.set_gates();
    }

    /// Opens or closes the short way of a hit.
    pub fn set_gates(&mut self) {
        let ladder = &self.ladder;
        let mut gates = self.core.gates.load(Relaxed) & gates::UNCACHED;
        if self.core.journal.is_on() && !self.core.journal.is_plain() {
            gates |= gates::WATCHED;
        }
        if !ladder.queues.is_empty() || !ladder.deferred.is_empty() {
            gates |= gates::PENDING;
        }
        if !ladder.scopes.is_empty() {
            gates |= gates::SCOPES;
        }
        if ladder.captures > 0 {
            gates |= gates::CAPTURE;
        }
        self.core.gates.store(gates, Release);
    }

    /// The memory pool of an id.
    pub fn memory_pool(&mut self, id: PoolId) -> Option<&mut MemoryPool> {
        self.ladder.memory_pools.get_mut(&id)
    }

    pub fn emit(&self, happened: Happened, caller: Option<&Caller<'_>>) {
        self.core.emit(happened, caller);
    }
}

/// The divisions of the rounding table, readable without a lock.
#[derive(Debug, Default)]
pub(crate) struct Rounding {
    on: AtomicBool,
    /// log2 of the divisions plus one; 0 is off.
    table: [AtomicU8; 16],
}

impl Rounding {
    fn set(&self, settings: &Settings) {
        for (entry, &divisions) in self.table.iter().zip(&settings.roundup_power2_divisions) {
            entry.store(if divisions == 0 { 0 } else { divisions.ilog2() as u8 + 1 }, Relaxed);
        }
        self.on.store(settings.roundup_power2_divisions.iter().any(|&divisions| divisions > 1), Release);
    }

    /// The rounded size of a request (R1.2–R1.4).
    #[inline]
    pub fn round(&self, size: u64) -> u64 {
        if !self.on.load(Acquire) {
            return round(size, 0);
        }
        match self.table[division_interval(size)].load(Relaxed) {
            0 => round(size, 0),
            log => round(size, 1 << (log - 1)),
        }
    }
}

/// The default pools of streams, found without a lock: a table of the first few hundred streams. What is not in it is
/// found under the ladder.
#[derive(Debug)]
pub(crate) struct Routes {
    slots: Box<[Route]>,
}

#[derive(Debug, Default)]
struct Route {
    /// Stream and size class, plus one; 0 is vacant. Written after `pool`, once.
    key: AtomicU64,
    pool: AtomicU32,
}

impl Default for Routes {
    fn default() -> Self {
        Routes { slots: std::iter::repeat_with(Route::default).take(Self::SLOTS).collect() }
    }
}

impl Routes {
    // A model pays for every atomic.
    const SLOTS: usize = if cfg!(loom) { 16 } else { 1024 };
    /// How many slots a key may lie behind its home.
    const PROBES: usize = 16;

    fn key(raw: u64, class: SizeClass) -> u64 {
        (raw << 1 | class as u64).wrapping_add(1)
    }

    fn home(key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }

    /// The default pool of a stream and class, if it is in the table.
    #[inline]
    pub fn get(&self, raw: u64, class: SizeClass) -> Option<u32> {
        let key = Self::key(raw, class);
        let home = Self::home(key);
        for probe in 0..Self::PROBES {
            let slot = &self.slots[(home + probe) % Self::SLOTS];
            match slot.key.load(Acquire) {
                0 => return None,
                found if found == key => return Some(slot.pool.load(Relaxed)),
                _ => {}
            }
        }
        None
    }

    /// Enters a pool; called under the ladder. A full neighbourhood, or a handle that uses the top bit, stays out.
    fn insert(&self, raw: u64, class: SizeClass, pool: u32) {
        let key = Self::key(raw, class);
        if raw >> 63 != 0 || key == 0 {
            return;
        }
        let home = Self::home(key);
        for probe in 0..Self::PROBES {
            let slot = &self.slots[(home + probe) % Self::SLOTS];
            if slot.key.load(Acquire) == 0 {
                slot.pool.store(pool, Relaxed);
                slot.key.store(key, Release);
                return;
            }
        }
    }
}
