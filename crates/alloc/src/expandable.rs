//! Expandable segments: reserved addresses in which pages are mapped where a request needs them (section 4 of the law).

use std::ops::Range;

use millpond_driver::{Access, Code, Device, Handle, HandleProps, Location};

use crate::address_index::Place;
use crate::block::{BlockId, NONE};
use crate::caller::{Caller, Stack};
use crate::device::{Happened, Held};
use crate::error::{Error, Result};
use crate::event::Action;
use crate::segment::{Pages, Source};
use crate::size::{SMALL_SEGMENT, SizeClass};
use crate::stats::Metric;

impl Held<'_> {
    /// Memory for a request from the pool's own addresses (R4.11–R4.14): a free block of at least `size` bytes that is in
    /// no list; `None` when the device has no room for it. What was mapped before a failure stays, as free memory.
    pub fn expand(
        &mut self,
        pool: u32,
        size: u64,
        stack: Option<&Stack>,
        caller: &Caller<'_>,
    ) -> Result<Option<BlockId>> {
        let Some(mut block) = self.place_to_expand(pool, size)? else { return Ok(None) };
        if !self.pools[pool as usize].blocks[block].mapped {
            let bytes = self.pools[pool as usize].blocks[block].size.min(size);
            let Some(mapped) = self.map_block(pool, block, bytes, stack, caller)? else { return Ok(None) };
            block = mapped;
        }
        loop {
            let held = &self.pools[pool as usize];
            let Some(missing) = size.checked_sub(held.blocks[block].size).filter(|&missing| missing > 0) else { break };
            // The search has made sure that unmapped addresses follow.
            let next = held.blocks[block].next;
            let bytes = held.blocks[next].size.min(missing);
            let Some(mapped) = self.map_block(pool, next, bytes, stack, caller)? else { return Ok(None) };
            block = mapped;
        }
        self.pools[pool as usize].remove_free(block);
        Ok(Some(block))
    }

    /// The lowest place of the pool from which free or unmapped neighbours sum to `size` bytes (R4.11), else the one block
    /// of a new reservation (R4.12, R4.13).
    pub fn place_to_expand(&mut self, pool: u32, size: u64) -> Result<Option<BlockId>> {
        let lowest = self.places_to_expand(pool, size).next();
        match lowest {
            Some(place) => Ok(Some(place)),
            None => self.reserve_segment(pool, size),
        }
    }

    /// All such places, lowest first.
    pub fn places_to_expand(&self, pool: u32, size: u64) -> impl Iterator<Item = BlockId> {
        let held = &self.pools[pool as usize];
        let room = move |start: BlockId| {
            let (mut bytes, mut next) = (0, start);
            while bytes < size && next != NONE && held.blocks[next].is_idle() {
                bytes += held.blocks[next].size;
                next = held.blocks[next].next;
            }
            bytes >= size
        };
        let starts = held.unmapped.values().map(|&gap| match held.blocks[gap].prev {
            prev if prev != NONE && held.blocks[prev].is_idle() => prev,
            _ => gap,
        });
        starts.filter(move |&start| room(start))
    }

    /// The page of new expandable segments of a class (R4.1, `page_size_mb`), bytes.
    fn page_size(&self, class: SizeClass) -> u64 {
        match (class, self.ladder.settings.page_size) {
            (SizeClass::Small, _) => SMALL_SEGMENT,
            (SizeClass::Large, 0) => self.ladder.settings.large_segment_size,
            (SizeClass::Large, own) => own,
        }
    }

    /// The addresses that a new segment of a stream reserves, bytes, before they are rounded to pages (R4.2, R4.3).
    pub fn reserve_bytes(&self, stream: u64) -> (u64, Option<String>) {
        let class = self.core.world.reserve_class(stream);
        let (bytes, known) = self.ladder.settings.reserve_for(class.as_deref(), self.core.total);
        (bytes, class.filter(|_| known))
    }

    /// Reserves addresses for a new segment (R4.2–R4.6, R4.13). `None`: even a fresh one is too small (R4.12).
    fn reserve_segment(&mut self, pool: u32, size: u64) -> Result<Option<BlockId>> {
        let key = self.pools[pool as usize].key;
        let page = self.page_size(key.class);
        let (reserve, _) = self.reserve_bytes(key.stream.raw);
        let bytes = reserve.div_ceil(page).saturating_mul(page);
        let base = self.core.driver.mem_address_reserve(bytes, 0, 0).inspect_err(|error| {
            let (count, total) = self.core.world.expandable_segments();
            tracing::error!(
                "cannot reserve {bytes} bytes of address space for an expandable segment on {}: {error}; {count} segments hold \
                 {total} bytes. This is address space running out, not memory: lower expandable_segments_reserve.",
                key.stream.device
            );
        })?;
        if bytes < size {
            if let Err(error) = self.core.driver.mem_address_free(base, bytes) {
                self.ladder.orphan_ranges.push((base, bytes));
                return Err(error.into());
            }
            return Ok(None);
        }
        self.core.world.expandable_made(bytes);
        let counter = self.core.world.register();
        let held = &mut self.pools[pool as usize];
        let block = held.add_segment(base, bytes, counter, Source::Expandable(Pages::new(page)), None);
        held.unmapped.insert(base, block);
        Ok(Some(block))
    }

    /// Maps the first `bytes` of an unmapped block, merges it with its free neighbours and lists the result as free (R4.15).
    /// Returns that; `None`: the device has no room.
    pub fn map_block(
        &mut self,
        pool: u32,
        block: BlockId,
        bytes: u64,
        stack: Option<&Stack>,
        caller: &Caller<'_>,
    ) -> Result<Option<BlockId>> {
        let page = self.page_of(pool, block);
        let Some(handles) = self.create_pages(bytes.div_ceil(page), page)? else { return Ok(None) };
        let addr = self.pools[pool as usize].blocks[block].addr;
        if let Err(error) = self.map_pages(addr, page, &handles) {
            self.release_pages(&handles);
            return Err(error);
        }
        Ok(Some(self.book_pages(pool, block, &handles, stack, caller)))
    }

    /// Takes up pages that are mapped at the start of an unmapped block: they are free memory of its pool from now on
    /// (R4.15). Returns the free block that holds them.
    pub fn book_pages(
        &mut self,
        pool: u32,
        block: BlockId,
        handles: &[Handle],
        stack: Option<&Stack>,
        caller: &Caller<'_>,
    ) -> BlockId {
        let held = &mut self.pools[pool as usize];
        let (addr, key, index) = (held.blocks[block].addr, held.key, held.blocks[block].segment);
        let segment = held.segment_at_mut(index);
        let base = segment.base;
        let Source::Expandable(pages) = &mut segment.source else {
            unreachable!("only expandable segments have unmapped blocks")
        };
        let first = (addr - base) / pages.size;
        debug_assert_eq!(base + first * pages.size, addr, "unmapped blocks begin at pages (R4.9)");
        (first..).zip(handles).for_each(|(number, &handle)| pages.put(number, handle));
        let mapped = handles.len() as u64 * pages.size;
        if segment.stack.is_none() {
            segment.stack = stack.cloned();
        }
        held.unmapped.remove(&addr);
        held.blocks[block].mapped = true;
        if mapped < held.blocks[block].size {
            let rest = held.split_back(block, mapped);
            let rest_addr = held.blocks[rest].addr;
            held.blocks[rest].mapped = false;
            held.unmapped.insert(rest_addr, rest);
        }
        let merged = held.merge(block).block;
        self.core.index.insert(addr, mapped, Place { pool, segment: index });
        self.hold_more(pool, mapped);
        self.ladder.counts.device_allocs += 1;
        self.emit(Happened::new(Action::SegmentMap, addr, mapped, key).with(stack.cloned()), Some(caller));
        merged
    }

    /// Bytes of a page of an expandable block's segment.
    pub fn page_of(&self, pool: u32, block: BlockId) -> u64 {
        match &self.pools[pool as usize].segment(block).source {
            Source::Expandable(pages) => pages.size,
            _ => unreachable!("only expandable segments have pages"),
        }
    }

    /// New pages; `None` when the device has no room for all of them (R4.9). A failure leaves nothing behind.
    pub fn create_pages(&mut self, count: u64, page: u64) -> Result<Option<Vec<Handle>>> {
        let device = self.core.device;
        let props = HandleProps { rdma: self.core.driver.caps(device)?.rdma_with_vmm, ..HandleProps::on(device) };
        let mut handles = Vec::with_capacity(count as usize);
        for _ in 0..count {
            match self.core.driver.mem_create(page, props) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    self.release_pages(&handles);
                    if !error.is_out_of_memory() {
                        return Err(Error::Driver(error));
                    }
                    let _ = self.core.driver.take_last_error();
                    tracing::warn!("no room for a page of {page} bytes on {device}");
                    return Ok(None);
                }
            }
        }
        Ok(Some(handles))
    }

    /// Releases pages that are mapped nowhere; what cannot be released now is later.
    pub fn release_pages(&mut self, handles: &[Handle]) {
        let driver = &self.core.driver;
        self.ladder.orphans.extend(handles.iter().filter(|&&handle| driver.mem_release(handle).is_err()));
    }

    /// Maps pages one behind the other from `addr` on, and gives access to the device and its peers (R4.8). After a failure
    /// nothing is mapped there; the first error is the one that counts.
    pub fn map_pages(&self, addr: u64, page: u64, handles: &[Handle]) -> Result<()> {
        let driver = &self.core.driver;
        let undo = |mapped: u64| {
            for i in 0..mapped {
                let _ = driver.mem_unmap(addr + i * page, page);
            }
        };
        for (i, &handle) in (0..).zip(handles) {
            if let Err(error) = driver.mem_map(addr + i * page, page, 0, handle) {
                undo(i);
                return Err(Error::Driver(error));
            }
        }
        let count = handles.len() as u64;
        for &device in std::iter::once(&self.core.device).chain(&self.ladder.peers) {
            if let Err(error) = driver.mem_set_access(addr, count * page, Location::Device(device), Access::ReadWrite) {
                undo(count);
                return Err(Error::Driver(error));
            }
        }
        Ok(())
    }

    /// Unmaps the whole pages of a free expandable block (R4.19–R4.22); parts of pages at its ends stay free. A segment
    /// that has nothing left is given up. In a pool that is asleep the pages have gone before.
    pub fn unmap_block(&mut self, pool: u32, block: BlockId, caller: &Caller<'_>) -> Result<()> {
        let held = &self.pools[pool as usize];
        let segment = held.segment(block);
        let Source::Expandable(pages) = &segment.source else { unreachable!("only expandable blocks are unmapped") };
        let (base, page) = (segment.base, pages.size);
        let stack = self.call.clone().or_else(|| segment.stack.clone());
        let (addr, size) = (held.blocks[block].addr, held.blocks[block].size);
        let range = pages.inside(addr - base, size);
        if range.is_empty() {
            return Ok(());
        }
        let held_before = segment.held_bytes();
        let (range, outcome) = self.unmap_pages(pool, block, range);
        if range.is_empty() {
            return outcome;
        }
        let (start, bytes) = (base + range.start * page, (range.end - range.start) * page);
        let held = &mut self.pools[pool as usize];
        let gone = held_before - held.segment(block).held_bytes();
        let _ = held.carve(block, start, bytes);
        let whole = held.join_unmapped(block);
        self.book_unmapping(pool, (start, bytes), gone, stack, caller);
        outcome?;
        if let Some(block) = whole {
            self.give_up_segment(pool, block)?;
        }
        Ok(())
    }

    /// Books that a range of free memory, `gone` bytes of it still held, is its pool's no longer (R4.21).
    pub fn book_unmapping(
        &mut self,
        pool: u32,
        (start, bytes): (u64, u64),
        gone: u64,
        stack: Option<Stack>,
        caller: &Caller<'_>,
    ) {
        let key = self.pools[pool as usize].key;
        self.core.index.remove(start, bytes);
        // Sleep leaves no trace of its own: every address that was mapped is unmapped once.
        if gone > 0 {
            self.hold_less(pool, gone);
            self.ladder.counts.device_frees += 1;
        }
        if let Some(owner) = self.memory_pool(key.memory_pool).filter(|_| key.memory_pool.is_private()) {
            owner.driver_allocations -= 1;
        }
        self.emit(Happened::new(Action::SegmentUnmap, start, bytes, key).with(stack), Some(caller));
    }

    /// Unmaps and releases pages, after the segment's own stream has passed (R4.20). Returns those that are gone: all of
    /// the range, or those before the first failure.
    fn unmap_pages(&mut self, pool: u32, block: BlockId, mut range: Range<u64>) -> (Range<u64>, Result<()>) {
        let driver = &self.core.driver;
        let held = &mut self.pools[pool as usize];
        let stream = held.key.stream;
        let index = held.blocks[block].segment;
        let segment = held.segment_at_mut(index);
        let base = segment.base;
        let Source::Expandable(pages) = &mut segment.source else {
            unreachable!("only expandable blocks are unmapped")
        };
        if let Err(error) = driver.stream_synchronize(stream) {
            range.end = range.start;
            return (range, Err(error.into()));
        }
        for number in range.clone() {
            // Asleep, a block has no pages.
            let Some(handle) = pages.get(number) else { continue };
            if let Err(error) = driver.mem_unmap(base + number * pages.size, pages.size) {
                range.end = number;
                return (range, Err(error.into()));
            }
            pages.take(number);
            if let Err(error) = driver.mem_release(handle) {
                self.ladder.orphans.push(handle);
                range.end = number + 1;
                return (range, Err(error.into()));
            }
        }
        (range, Ok(()))
    }

    /// Gives the addresses of a wholly unmapped segment back (R4.22).
    pub fn give_up_segment(&mut self, pool: u32, block: BlockId) -> Result<()> {
        let held = &mut self.pools[pool as usize];
        let (base, size) = (held.segment(block).base, held.segment(block).size);
        self.core.driver.mem_address_free(base, size)?;
        held.unmapped.remove(&base);
        held.drop_segment(block);
        self.core.world.expandable_gone(size);
        Ok(())
    }

    /// Asks the driver once more to release what it failed to.
    pub fn release_orphans(&mut self) {
        let driver = &self.core.driver;
        self.ladder.orphans.retain(|&handle| driver.mem_release(handle).is_err());
        self.ladder.orphan_ranges.retain(|&(base, bytes)| driver.mem_address_free(base, bytes).is_err());
    }

    /// Gives up the reservations in which nothing is mapped: the allocator goes.
    pub fn give_up_unmapped(&mut self) {
        for pool in 0..self.pools.len() as u32 {
            let unmapped: Vec<BlockId> = self.pools[pool as usize].unmapped.values().copied().collect();
            for block in unmapped {
                if !self.pools[pool as usize].blocks[block].is_split() {
                    let _ = self.give_up_segment(pool, block);
                }
            }
        }
    }

    /// Lets a peer use what is mapped now and what will be (R4.24).
    pub fn add_peer(&mut self, peer: Device) -> Result<()> {
        if let Err(error) = self.core.driver.enable_peer_access(peer, self.core.device) {
            if error.code != Code::ERROR_PEER_ACCESS_ALREADY_ENABLED {
                return Err(error.into());
            }
            // Handled: it must not come up again at the next call (R2.9).
            let _ = self.core.driver.take_last_error();
        }
        if self.ladder.peers.contains(&peer) {
            return Ok(());
        }
        for pool in &self.pools {
            for segment in pool.segments.iter().flatten() {
                let Source::Expandable(pages) = &segment.source else { continue };
                for range in pages.ranges() {
                    let (addr, bytes) =
                        (segment.base + range.start * pages.size, (range.end - range.start) * pages.size);
                    self.core.driver.mem_set_access(addr, bytes, Location::Device(peer), Access::ReadWrite)?;
                }
            }
        }
        self.ladder.peers.push(peer);
        Ok(())
    }

    /// Books `bytes` more held from the driver.
    pub fn hold_more(&mut self, pool: u32, bytes: u64) {
        self.ladder.total_allocated += bytes;
        let held = &mut self.pools[pool as usize];
        held.counters.raise(Metric::ReservedBytes, bytes);
        let key = held.key;
        if key.memory_pool.is_private() {
            let stats = self.ladder.by_private_pool.entry(key.memory_pool).or_default();
            stats[0].raise(bytes);
            stats[1 + key.class as usize].raise(bytes);
        }
        self.settle(pool);
    }

    /// Books `bytes` fewer held from the driver.
    pub fn hold_less(&mut self, pool: u32, bytes: u64) {
        self.ladder.total_allocated -= bytes;
        let held = &mut self.pools[pool as usize];
        held.counters.lower(Metric::ReservedBytes, bytes);
        let key = held.key;
        if let Some(stats) = self.ladder.by_private_pool.get_mut(&key.memory_pool) {
            stats[0].lower(bytes);
            stats[1 + key.class as usize].lower(bytes);
        }
    }
}
