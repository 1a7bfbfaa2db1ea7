//! Driver pools (`cuMemAllocAsync`): memory that follows the order of streams.
//!
//! A pool holds chunks of device memory. Memory freed on a stream is free for later work of that stream at once; for
//! another stream when the attributes allow it and either that stream comes after the free, or the freeing stream has
//! passed it, or (as the last resort) the driver makes the stream wait. Chunks never join, so a pool can hold much free
//! memory and have none that fits. A chunk goes back to the device when it is wholly free and the frees are done: at a
//! trim, or at a synchronisation above the release threshold.

use std::collections::{BTreeMap, BTreeSet};

use millpond_driver::{Async, Bytes, Code, Device, DriverPool, Location, PoolAttribute, Result, Stream};

use crate::backing::Store;
use crate::calls::CallKind;
use crate::clocks::{Point, includes};
use crate::config::EventMode;
use crate::mappings::Granted;
use crate::sim::{Sim, State, refuse};
use crate::slab::Slab;

/// Small requests share chunks of this size.
const CHUNK: u64 = 32 << 20;
/// Requests are multiples of this.
const UNIT: u64 = 512;

#[derive(Debug, Default)]
pub(crate) struct Pools {
    pools: Slab<Pool>,
    /// By device: its default pool, once somebody asked for it.
    defaults: Vec<Option<u64>>,
    /// By address: the pool of each live allocation.
    owners: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Pool {
    device: Device,
    threshold: u64,
    follow: bool,
    opportunistic: bool,
    internal: bool,
    chunks: BTreeMap<u64, Chunk>,
    /// Live allocations: address → bytes.
    live: BTreeMap<u64, u64>,
    reserved: Peak,
    used: Peak,
    peers: BTreeSet<Device>,
    /// Destroyed; its memory goes when the last allocation does.
    dying: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Peak {
    now: u64,
    high: u64,
}

impl Peak {
    fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }
}

#[derive(Debug)]
struct Chunk {
    bytes: u64,
    /// Free ranges by address.
    free: BTreeMap<u64, FreeRange>,
}

#[derive(Clone, Copy, Debug)]
struct FreeRange {
    bytes: u64,
    /// The free that it waits for; none if the host knows it to be done.
    after: Option<Freed>,
}

/// Where on which stream memory was freed.
#[derive(Clone, Copy, Debug)]
struct Freed {
    point: Point,
    /// The stream's pieces of work up to the free, and when it gets there in timed mode.
    work: u64,
    done_at: u64,
}

impl Async for Sim {
    fn default_mem_pool(&self, device: Device) -> Result<DriverPool> {
        const KIND: CallKind = CallKind::DefaultMemPool;
        self.call(KIND, 0, 0, |state| {
            state.check_pools(device, KIND)?;
            let index = device.0 as usize;
            if state.pools.defaults.len() <= index {
                state.pools.defaults.resize(index + 1, None);
            }
            if let Some(id) = state.pools.defaults[index] {
                return Ok(DriverPool(id));
            }
            let id = state.make_pool(device);
            state.pools.defaults[index] = Some(id);
            Ok(DriverPool(id))
        })
    }

    fn mem_pool_create(&self, device: Device) -> Result<DriverPool> {
        self.call(CallKind::PoolCreate, 0, 0, |state| {
            state.check_pools(device, CallKind::PoolCreate)?;
            Ok(DriverPool(state.make_pool(device)))
        })
    }

    fn mem_pool_destroy(&self, pool: DriverPool) -> Result<()> {
        const KIND: CallKind = CallKind::PoolDestroy;
        self.call(KIND, 0, 0, |state| {
            if state.pools.defaults.contains(&Some(pool.0)) {
                return refuse(KIND, Code::ERROR_INVALID_VALUE, "the default pool stays");
            }
            state.pool(pool, KIND)?.dying = true;
            state.bury_pool(pool.0);
            Ok(())
        })
    }

    fn mem_pool_set(&self, pool: DriverPool, attribute: PoolAttribute, value: u64) -> Result<()> {
        const KIND: CallKind = CallKind::PoolSet;
        self.call(KIND, 0, 0, |state| {
            let pool = state.pool(pool, KIND)?;
            match attribute {
                PoolAttribute::ReleaseThreshold => pool.threshold = value,
                PoolAttribute::ReuseFollowEventDependencies => pool.follow = value != 0,
                PoolAttribute::ReuseAllowOpportunistic => pool.opportunistic = value != 0,
                PoolAttribute::ReuseAllowInternalDependencies => pool.internal = value != 0,
                PoolAttribute::ReservedMemHigh if value == 0 => pool.reserved.high = pool.reserved.now,
                PoolAttribute::UsedMemHigh if value == 0 => pool.used.high = pool.used.now,
                PoolAttribute::ReservedMemHigh | PoolAttribute::UsedMemHigh => {
                    return refuse(
                        KIND,
                        Code::ERROR_INVALID_VALUE,
                        "a high-water mark can only be reset, by writing 0",
                    );
                }
                PoolAttribute::ReservedMemCurrent | PoolAttribute::UsedMemCurrent => {
                    return refuse(KIND, Code::ERROR_INVALID_VALUE, "this attribute can only be read");
                }
            }
            Ok(())
        })
    }

    fn mem_pool_get(&self, pool: DriverPool, attribute: PoolAttribute) -> Result<u64> {
        self.call(CallKind::PoolGet, 0, 0, |state| {
            let pool = state.pool(pool, CallKind::PoolGet)?;
            Ok(match attribute {
                PoolAttribute::ReleaseThreshold => pool.threshold,
                PoolAttribute::ReuseFollowEventDependencies => u64::from(pool.follow),
                PoolAttribute::ReuseAllowOpportunistic => u64::from(pool.opportunistic),
                PoolAttribute::ReuseAllowInternalDependencies => u64::from(pool.internal),
                PoolAttribute::ReservedMemCurrent => pool.reserved.now,
                PoolAttribute::ReservedMemHigh => pool.reserved.high,
                PoolAttribute::UsedMemCurrent => pool.used.now,
                PoolAttribute::UsedMemHigh => pool.used.high,
            })
        })
    }

    fn mem_pool_trim_to(&self, pool: DriverPool, keep: u64) -> Result<()> {
        self.call(CallKind::PoolTrim, 0, keep, |state| {
            state.pool(pool, CallKind::PoolTrim)?;
            state.shrink_pool(pool.0, keep);
            Ok(())
        })
    }

    fn mem_alloc_async(&self, pool: DriverPool, bytes: u64, stream: Stream) -> Result<u64> {
        self.call_for_address(CallKind::PoolAlloc, bytes, |state| state.pool_alloc(pool, bytes, stream))
    }

    fn mem_free_async(&self, addr: u64, stream: Stream) -> Result<()> {
        const KIND: CallKind = CallKind::PoolFree;
        self.call(KIND, addr, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            if !state.pools.owners.contains_key(&addr) {
                return refuse(KIND, Code::ERROR_INVALID_VALUE, format!("no allocation of a pool starts at {addr:#x}"));
            }
            let captured = state.capture_work(index, KIND, Default::default)?;
            if !captured {
                state.occupy(index, 0);
            }
            let point = state.clocks.get_or_insert_default().submit(index);
            let source = state.streams.at(index);
            let freed = Freed { point, work: if captured { 0 } else { source.work }, done_at: source.busy_until };
            state.pool_free(addr, Some(freed));
            Ok(())
        })
    }

    fn mem_pool_set_access(&self, pool: DriverPool, peer: Device, allow: bool) -> Result<()> {
        const KIND: CallKind = CallKind::PoolSetAccess;
        self.call(KIND, 0, 0, |state| {
            state.check_device(peer, KIND)?;
            let owner = state.pool(pool, KIND)?.device;
            if owner == peer {
                let detail = format!("{peer} owns the pool: its own access stays");
                return if allow { Ok(()) } else { refuse(KIND, Code::ERROR_INVALID_DEVICE, detail) };
            }
            if !state.peers.can_access(peer, owner) {
                return refuse(KIND, Code::ERROR_INVALID_DEVICE, format!("{peer} cannot reach memory of {owner}"));
            }
            let peers = &mut state.pool(pool, KIND)?.peers;
            if allow {
                peers.insert(peer);
            } else {
                peers.remove(&peer);
            }
            Ok(())
        })
    }
}

impl Chunk {
    fn is_free(&self) -> bool {
        self.free.values().map(|range| range.bytes).sum::<u64>() == self.bytes
    }

    /// Puts a range back; it joins neighbours that nothing waits for, or that wait for the same stream.
    fn put(&mut self, addr: u64, range: FreeRange) {
        let joined = |a: Option<Freed>, b: Option<Freed>| match (a, b) {
            (None, None) => Some(None),
            (Some(a), Some(b)) if a.point.stream == b.point.stream => {
                Some(Some(if a.point.at > b.point.at { a } else { b }))
            }
            _ => None,
        };
        let (mut addr, mut range) = (addr, range);
        if let Some((&before, &left)) = self.free.range(..addr).next_back()
            && before + left.bytes == addr
            && let Some(after) = joined(left.after, range.after)
        {
            self.free.remove(&before);
            range = FreeRange { bytes: left.bytes + range.bytes, after };
            addr = before;
        }
        if let Some(&right) = self.free.get(&(addr + range.bytes))
            && let Some(after) = joined(range.after, right.after)
        {
            self.free.remove(&(addr + range.bytes));
            range = FreeRange { bytes: range.bytes + right.bytes, after };
        }
        self.free.insert(addr, range);
    }

    /// Takes the front of a free range.
    fn take(&mut self, addr: u64, bytes: u64) {
        if let Some(range) = self.free.remove(&addr)
            && range.bytes > bytes
        {
            self.free.insert(addr + bytes, FreeRange { bytes: range.bytes - bytes, after: range.after });
        }
    }
}

impl State {
    fn check_pools(&self, device: Device, kind: CallKind) -> Result<()> {
        self.check_device(device, kind)?;
        if self.caps[device.0 as usize].pools {
            return Ok(());
        }
        refuse(kind, Code::ERROR_NOT_SUPPORTED, "the device has no pools")
    }

    fn make_pool(&mut self, device: Device) -> u64 {
        // From now on somebody asks what is ordered before what.
        self.clocks.get_or_insert_default();
        self.pools.pools.insert(Pool {
            device,
            threshold: 0,
            follow: true,
            opportunistic: true,
            internal: true,
            chunks: BTreeMap::new(),
            live: BTreeMap::new(),
            reserved: Peak::default(),
            used: Peak::default(),
            peers: BTreeSet::new(),
            dying: false,
        })
    }

    fn pool(&mut self, pool: DriverPool, kind: CallKind) -> Result<&mut Pool> {
        match self.pools.pools.get_mut(pool.0) {
            Some(pool) if !pool.dying => Ok(pool),
            _ => refuse(kind, Code::ERROR_INVALID_VALUE, format!("pool {:#x} does not exist", pool.0)),
        }
    }

    fn pool_alloc(&mut self, pool: DriverPool, asked: u64, stream: Stream) -> Result<u64> {
        const KIND: CallKind = CallKind::PoolAlloc;
        let index = self.streams.find(stream, KIND)?;
        let device = self.pool(pool, KIND)?.device;
        if asked == 0 {
            return refuse(KIND, Code::ERROR_INVALID_VALUE, "0 bytes");
        }
        let Some(bytes) = asked.checked_next_multiple_of(UNIT) else {
            return refuse(KIND, Code::ERROR_OUT_OF_MEMORY, "");
        };
        self.capture_work(index, KIND, Default::default)?;
        self.clocks.get_or_insert_default().submit(index);
        let found = self.find_free(pool.0, bytes, |state, range| state.may_reuse(pool.0, index, range));
        let addr = match found.or_else(|| self.grow_pool(pool.0, device, bytes)) {
            Some(addr) => addr,
            None if self.pool(pool, KIND)?.internal => {
                let Some(addr) = self.find_free(pool.0, bytes, |_, _| true) else { return self.pool_is_full(pool) };
                self.wait_for_free(pool.0, addr, index);
                addr
            }
            None => return self.pool_is_full(pool),
        };
        let pool_state = self.pool(pool, KIND)?;
        if let Some((_, chunk)) = pool_state.chunks.range_mut(..=addr).next_back() {
            chunk.take(addr, bytes);
        }
        pool_state.live.insert(addr, bytes);
        pool_state.used.add(bytes);
        self.pools.owners.insert(addr, pool.0);
        Ok(addr)
    }

    #[cold]
    fn pool_is_full<T>(&mut self, pool: DriverPool) -> Result<T> {
        let pool = self.pool(pool, CallKind::PoolAlloc)?;
        let (reserved, used) = (Bytes(pool.reserved.now), Bytes(pool.used.now));
        refuse(
            CallKind::PoolAlloc,
            Code::ERROR_OUT_OF_MEMORY,
            format!("the pool holds {reserved}, of which {used} are in use"),
        )
    }

    /// The lowest free range of the pool that is large enough and that `usable` accepts.
    fn find_free(&self, pool: u64, bytes: u64, usable: impl Fn(&State, &FreeRange) -> bool) -> Option<u64> {
        let ranges = self.pools.pools.get(pool)?.chunks.values().flat_map(|chunk| &chunk.free);
        let mut fitting = ranges.filter(|(_, range)| range.bytes >= bytes);
        fitting.find(|(_, range)| usable(self, range)).map(|(&addr, _)| addr)
    }

    /// Whether later work of `stream` may have the range without a new dependency.
    fn may_reuse(&self, pool: u64, stream: usize, range: &FreeRange) -> bool {
        let Some(freed) = range.after else { return true };
        if freed.point.stream == stream {
            return true;
        }
        let (Some(pool), Some(clocks)) = (self.pools.pools.get(pool), &self.clocks) else { return false };
        includes(clocks.of_host(), freed.point)
            || pool.follow && includes(clocks.of_stream(stream), freed.point)
            || pool.opportunistic && self.free_is_done(&freed)
    }

    /// Whether the freeing stream has got to the free.
    fn free_is_done(&self, freed: &Freed) -> bool {
        match self.mode {
            EventMode::Timed => freed.done_at <= self.meter.now(),
            _ => freed.work <= self.streams.at(freed.point.stream).passed,
        }
    }

    /// The driver makes `stream` wait for the free of the range at `addr`.
    fn wait_for_free(&mut self, pool: u64, addr: u64, stream: usize) {
        let chunks = self.pools.pools.get(pool).map(|pool| &pool.chunks);
        let range = chunks.and_then(|chunks| chunks.range(..=addr).next_back()?.1.free.get(&addr).copied());
        if let Some(FreeRange { after: Some(freed), .. }) = range {
            self.clocks.get_or_insert_default().stream_follows(stream, freed.point);
            let waiting = self.streams.at_mut(stream);
            waiting.busy_until = waiting.busy_until.max(freed.done_at);
        }
    }

    /// A new chunk for a request; its address.
    fn grow_pool(&mut self, id: u64, device: Device, need: u64) -> Option<u64> {
        let exact = self.space.round(need)?;
        let room = &mut self.physical.devices[device.0 as usize];
        let bytes = [exact.max(CHUNK), exact].into_iter().find(|&bytes| room.take(bytes))?;
        let Some(addr) = self.space.take(bytes, 0, 0) else {
            self.physical.devices[device.0 as usize].give(bytes);
            return None;
        };
        self.meter.charge(CallKind::PoolAlloc, 1, bytes, 0);
        let store = self.backing.then(Store::new);
        self.maps.granted.insert(addr, Granted::Chunk { pool: id, device, bytes, store });
        let pool = self.pools.pools.get_mut(id)?;
        pool.chunks.insert(addr, Chunk { bytes, free: BTreeMap::from([(addr, FreeRange { bytes, after: None })]) });
        pool.reserved.add(bytes);
        Some(addr)
    }

    fn pool_free(&mut self, addr: u64, after: Option<Freed>) {
        let Some(id) = self.pools.owners.remove(&addr) else { return };
        let Some(pool) = self.pools.pools.get_mut(id) else { return };
        if let Some(bytes) = pool.live.remove(&addr) {
            pool.used.now -= bytes;
            if let Some((_, chunk)) = pool.chunks.range_mut(..=addr).next_back() {
                chunk.put(addr, FreeRange { bytes, after });
            }
        }
        self.bury_pool(id);
    }

    fn bury_pool(&mut self, id: u64) {
        if self.pools.pools.get(id).is_some_and(|pool| pool.dying && pool.live.is_empty()) {
            let chunks: Vec<u64> =
                self.pools.pools.get(id).map(|pool| pool.chunks.keys().copied().collect()).unwrap_or_default();
            for chunk in chunks {
                self.drop_chunk(id, chunk);
            }
            self.pools.pools.remove(id);
        }
    }

    fn drop_chunk(&mut self, id: u64, addr: u64) {
        let Some(pool) = self.pools.pools.get_mut(id) else { return };
        let Some(chunk) = pool.chunks.remove(&addr) else { return };
        pool.reserved.now -= chunk.bytes;
        let device = pool.device;
        self.maps.granted.remove(&addr);
        self.space.give(addr, chunk.bytes);
        self.physical.devices[device.0 as usize].give(chunk.bytes);
    }

    /// Gives wholly free chunks back, the highest first, until at most `keep` bytes are reserved.
    fn shrink_pool(&mut self, id: u64, keep: u64) {
        let Some(pool) = self.pools.pools.get(id) else { return };
        let done = |range: &FreeRange| range.after.as_ref().is_none_or(|freed| self.free_is_done(freed));
        let empty = pool.chunks.iter().rev().filter(|(_, chunk)| chunk.is_free() && chunk.free.values().all(done));
        let mut reserved = pool.reserved.now;
        let mut dropped = Vec::new();
        for (&addr, chunk) in empty {
            if reserved <= keep {
                break;
            }
            reserved -= chunk.bytes;
            dropped.push(addr);
        }
        for addr in dropped {
            self.drop_chunk(id, addr);
        }
    }

    /// The host has synchronised with something: frees that it knows to be done wait for nothing any more, and pools
    /// give back what they hold above their threshold.
    pub fn pools_at_synchronisation(&mut self) {
        let Some(clocks) = &self.clocks else { return };
        let mut over = Vec::new();
        for (id, pool) in self.pools.pools.iter_mut() {
            for chunk in pool.chunks.values_mut() {
                for (addr, range) in std::mem::take(&mut chunk.free) {
                    let after = range.after.filter(|freed| !includes(clocks.of_host(), freed.point));
                    chunk.put(addr, FreeRange { bytes: range.bytes, after });
                }
            }
            if pool.reserved.now > pool.threshold {
                over.push((id, pool.threshold));
            }
        }
        for (id, threshold) in over {
            self.shrink_pool(id, threshold);
        }
    }

    /// `cuMemFree` of pool memory: it waits for the device, then frees at once.
    pub fn free_pool_memory(&mut self, device: Device, addr: u64) -> Result<()> {
        if !self.pools.owners.contains_key(&addr) {
            return refuse(CallKind::Free, Code::ERROR_INVALID_VALUE, format!("no allocation starts at {addr:#x}"));
        }
        self.implicit_sync(device);
        self.pool_free(addr, None);
        Ok(())
    }

    pub fn pool_allocation_at(&self, addr: u64) -> Result<(u64, u64)> {
        let found = self.pools.owners.range(..=addr).next_back().and_then(|(&base, &id)| {
            let bytes = *self.pools.pools.get(id)?.live.get(&base)?;
            (addr - base < bytes).then_some((base, bytes))
        });
        match found {
            Some(range) => Ok(range),
            None => {
                refuse(CallKind::AddressRange, Code::ERROR_NOT_FOUND, format!("{addr:#x} is not in any allocation"))
            }
        }
    }

    pub fn pool_access(&self, pool: u64, device: Device) -> bool {
        self.pools.pools.get(pool).is_some_and(|pool| pool.peers.contains(&device))
    }
}

impl Sim {
    /// The device memory and the addresses that a pool holds: (address, bytes) of each chunk, lowest first.
    pub fn pool_chunks(&self, pool: DriverPool) -> Vec<(u64, u64)> {
        let state = self.lock();
        let chunks = state.pools.pools.get(pool.0).map(|pool| &pool.chunks);
        chunks.into_iter().flatten().map(|(&addr, chunk)| (addr, chunk.bytes)).collect()
    }

    /// Where a pool's memory lies.
    pub fn pool_location(&self, pool: DriverPool) -> Option<Location> {
        self.lock().pools.pools.get(pool.0).map(|pool| Location::Device(pool.device))
    }
}
