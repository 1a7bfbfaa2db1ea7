//! Sleep and wake of memory pools: expandable segments give their pages back and keep their addresses.
//!
//! Asleep, live blocks stay live and may be freed; what is free goes back for good. Requests are served from cudaMalloc
//! segments meanwhile, as if expandable segments were off (R1.24), so nobody gets an address without memory. Awake again,
//! every live block has its old address: graphs and tensors that name it stay right. cudaMalloc segments with live blocks
//! keep their memory: it cannot leave and come back to the same address.

use std::ops::Range;
use std::sync::Arc;

use millpond_driver::{Access, Handle, HandleProps, Location};

use crate::allocator::Allocator;
use crate::caller::Caller;
use crate::device::Held;
use crate::error::{Error, Result};
use crate::host::{HostCache, PinnedBuffer};
use crate::private::PoolId;
use crate::segment::{Pages, Source};
use crate::size::SizeClass;

/// What went to sleep or woke up, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slept {
    /// Device memory that was given back, or taken again.
    pub bytes: u64,
    /// Contents that were saved, or restored.
    pub contents: u64,
}

/// What a sleeping memory pool keeps.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// Contents by address; none if they were dropped.
    contents: Vec<(u64, PinnedBuffer)>,
}

/// A run of pages of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    pool: u32,
    segment: u32,
    pages: Range<u64>,
    addr: u64,
    bytes: u64,
}

impl Allocator {
    /// Gives the memory of a memory pool's expandable segments back; addresses and live blocks stay. With `keep` the contents
    /// of live blocks wait in pinned memory of that cache, else they are lost. The device is waited for; copies run on the
    /// caller's stream. The history shows nothing of it: addresses stay mapped there until they go for good.
    ///
    /// # Errors
    /// [`Error::UnknownPool`], [`Error::PoolAsleep`], [`Error::PoolInCapture`]; the driver's, also from pinning memory. If a
    /// run of pages cannot be unmapped, the pool sleeps with what had gone by then, contents included.
    pub fn sleep(&self, pool: PoolId, keep: Option<&HostCache>, caller: &Caller<'_>) -> Result<Slept> {
        loop {
            let wanted = self.core.enter(|held| held.ready_to_sleep(pool, caller))?;
            // Pinned memory is had under none of the locks; whatever happens meanwhile is seen when it is there.
            let mut contents = Vec::new();
            if let Some(host) = keep {
                for run in &wanted {
                    contents.push((run.addr, host.buffer(run.bytes, caller.stream)?));
                }
            }
            let slept = self.core.enter(|held| {
                if held.ready_to_sleep(pool, caller)? != wanted {
                    return Ok(None);
                }
                held.fall_asleep(pool, &wanted, contents, caller).map(Some)
            })?;
            if let Some(slept) = slept {
                return Ok(slept);
            }
        }
    }

    /// Gives a sleeping memory pool's live blocks memory at their old addresses, and their contents back if they were kept.
    /// Where memory is short, what the allocator caches is given back first.
    ///
    /// # Errors
    /// [`Error::UnknownPool`], [`Error::PoolAwake`], [`Error::PoolInCapture`]; [`Error::NoRoomToWake`], the driver's: then
    /// the pool sleeps on, contents included, and the call can be made again.
    pub fn wake(&self, pool: PoolId, caller: &Caller<'_>) -> Result<Slept> {
        self.core.enter(|held| held.wake(pool, caller))
    }

    /// Whether a memory pool is asleep.
    pub fn is_asleep(&self, pool: PoolId) -> bool {
        self.core.hold().is_asleep(pool)
    }
}

impl Held<'_> {
    /// Whether a memory pool has addresses and no memory.
    pub fn is_asleep(&self, id: PoolId) -> bool {
        self.ladder.memory_pools.get(&id).is_some_and(|pool| pool.asleep.is_some())
    }

    /// Gives back what is free, and lists what is left: the pages under live blocks.
    fn ready_to_sleep(&mut self, id: PoolId, caller: &Caller<'_>) -> Result<Vec<Run>> {
        if self.memory_pool(id).ok_or(Error::UnknownPool { pool: id })?.asleep.is_some() {
            return Err(Error::PoolAsleep { pool: id });
        }
        self.no_capture(id)?;
        self.core.driver.device_synchronize(self.core.device)?;
        self.process_events(Some(caller))?;
        self.unmap_all()?;
        for class in SizeClass::ALL {
            self.release_whole(id, class, caller)?;
        }
        Ok(self.runs(id, |pages, _| pages.ranges().collect()))
    }

    /// Runs of pages of a memory pool's expandable segments. `of` is given the pages of a segment and the ranges of page
    /// numbers that mapped blocks touch.
    fn runs(&self, id: PoolId, of: impl Fn(&Pages, Vec<Range<u64>>) -> Vec<Range<u64>>) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some(memory_pool) = self.ladder.memory_pools.get(&id) else { return runs };
        for pool in memory_pool.pool_indices() {
            let held = &self.pools[pool as usize];
            for (index, segment) in (0..).zip(&held.segments) {
                let Some(segment) = segment else { continue };
                let Source::Expandable(pages) = &segment.source else { continue };
                let blocks = held.blocks_of(segment).filter(|(_, block)| block.mapped);
                let touched = blocks.map(|(_, block)| pages.touching(block.addr - segment.base, block.size));
                runs.extend(of(pages, touched.collect()).into_iter().map(|range| Run {
                    pool,
                    segment: index,
                    addr: segment.base + range.start * pages.size,
                    bytes: (range.end - range.start) * pages.size,
                    pages: range,
                }));
            }
        }
        runs
    }

    fn fall_asleep(
        &mut self,
        id: PoolId,
        runs: &[Run],
        contents: Vec<(u64, PinnedBuffer)>,
        caller: &Caller<'_>,
    ) -> Result<Slept> {
        let driver = Arc::clone(&self.core.driver);
        for (addr, buffer) in &contents {
            let to = buffer.use_on(caller.stream).addr();
            driver.memcpy_async(to, *addr, buffer.len(), caller.stream)?;
        }
        driver.stream_synchronize(caller.stream)?;
        let mut slept = Slept { bytes: 0, contents: contents.iter().map(|(_, buffer)| buffer.len()).sum() };
        if let Some(pool) = self.memory_pool(id) {
            pool.asleep = Some(Sleep { contents });
        }
        self.set_policies();
        for run in runs {
            driver.mem_unmap(run.addr, run.bytes)?;
            for number in run.pages.clone() {
                if let Some(handle) = self.pages(run).take(number)
                    && driver.mem_release(handle).is_err()
                {
                    self.ladder.orphans.push(handle);
                }
            }
            self.hold_less(run.pool, run.bytes);
            slept.bytes += run.bytes;
        }
        Ok(slept)
    }

    /// A copy or a wait in a capture would invalidate it.
    fn no_capture(&self, id: PoolId) -> Result<()> {
        if self.ladder.captures > 0 { Err(Error::PoolInCapture { pool: id }) } else { Ok(()) }
    }

    fn wake(&mut self, id: PoolId, caller: &Caller<'_>) -> Result<Slept> {
        if self.memory_pool(id).ok_or(Error::UnknownPool { pool: id })?.asleep.is_none() {
            return Err(Error::PoolAwake { pool: id });
        }
        self.no_capture(id)?;
        self.process_events(Some(caller))?;
        // What was freed in its sleep does not wake.
        for class in SizeClass::ALL {
            self.release_whole(id, class, caller)?;
        }
        let runs = self.runs(id, missing);
        let bytes = runs.iter().map(|run| run.bytes).sum();
        let mut made = Vec::new();
        let mut mapped = self.map_runs(&runs, bytes, &mut made);
        if mapped.as_ref().is_err_and(is_short_of_memory) {
            self.undo(std::mem::take(&mut made));
            let _ = self.core.driver.take_last_error();
            self.release_cached(PoolId::DEFAULT, false, caller)?;
            mapped = self.map_runs(&runs, bytes, &mut made);
        }
        let contents = match mapped.and_then(|()| self.restore_contents(id, &runs, caller)) {
            Ok(contents) => contents,
            Err(error) => {
                self.undo(made);
                return Err(if is_short_of_memory(&error) { self.no_room(id, bytes)? } else { error });
            }
        };
        for (run, made) in runs.iter().zip(made) {
            run.pages.clone().zip(made.handles).for_each(|(number, handle)| self.pages(run).put(number, handle));
            self.hold_more(run.pool, run.bytes);
        }
        if let Some(pool) = self.memory_pool(id) {
            pool.asleep = None;
        }
        self.set_policies();
        Ok(Slept { bytes, contents })
    }

    fn no_room(&self, pool: PoolId, needed: u64) -> Result<Error> {
        // Told here: it must not come up again at the next call.
        let _ = self.core.driver.take_last_error();
        let (free, _) = self.core.driver.mem_info(self.core.device)?;
        let allowed = self.ladder.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.ladder.total_allocated));
        Ok(Error::NoRoomToWake { pool, needed, free: free.min(allowed) })
    }

    /// Creates and maps the pages of runs, with access for the device and its peers; `made` says how far it came. `bytes` are
    /// those of all runs.
    fn map_runs(&self, runs: &[Run], bytes: u64, made: &mut Vec<Made>) -> Result<()> {
        if self.ladder.limit.is_some_and(|limit| self.ladder.total_allocated + bytes > limit) {
            return Err(Error::Rejected { requested: bytes });
        }
        let (driver, device) = (&self.core.driver, self.core.device);
        let props = HandleProps { rdma: driver.caps(device)?.rdma_with_vmm, ..HandleProps::on(device) };
        for run in runs {
            let page = run.bytes / (run.pages.end - run.pages.start);
            made.push(Made { addr: run.addr, page, mapped: 0, handles: Vec::new() });
            let Some(made) = made.last_mut() else { unreachable!("it was pushed just now") };
            for _ in run.pages.clone() {
                made.handles.push(driver.mem_create(page, props)?);
            }
            for (addr, &handle) in (run.addr..).step_by(page as usize).zip(&made.handles) {
                driver.mem_map(addr, page, 0, handle)?;
                made.mapped += 1;
            }
            for &device in std::iter::once(&device).chain(&self.ladder.peers) {
                driver.mem_set_access(run.addr, run.bytes, Location::Device(device), Access::ReadWrite)?;
            }
        }
        Ok(())
    }

    /// Copies saved contents back where pages are mapped again, and waits for it.
    fn restore_contents(&mut self, id: PoolId, runs: &[Run], caller: &Caller<'_>) -> Result<u64> {
        let driver = Arc::clone(&self.core.driver);
        let Some(Sleep { contents }) = self.memory_pool(id).and_then(|pool| pool.asleep.as_ref()) else { return Ok(0) };
        let mut restored = 0;
        for (addr, buffer) in contents {
            for run in runs {
                let start = run.addr.max(*addr);
                let end = (run.addr + run.bytes).min(addr + buffer.len());
                if start < end {
                    let from = buffer.use_on(caller.stream).addr() + (start - addr);
                    driver.memcpy_async(start, from, end - start, caller.stream)?;
                    restored += end - start;
                }
            }
        }
        driver.stream_synchronize(caller.stream)?;
        Ok(restored)
    }

    /// Undoes the mapping of runs. The first error is the one that counts; what can be undone is.
    fn undo(&mut self, made: Vec<Made>) {
        let driver = &self.core.driver;
        for Made { addr, page, mapped, handles } in made {
            for number in 0..mapped {
                let _ = driver.mem_unmap(addr + number * page, page);
            }
            let left = handles.into_iter().filter(|&handle| driver.mem_release(handle).is_err());
            self.ladder.orphans.extend(left);
        }
    }

    fn pages(&mut self, run: &Run) -> &mut Pages {
        match &mut self.pools[run.pool as usize].segment_at_mut(run.segment).source {
            Source::Expandable(pages) => pages,
            _ => unreachable!("runs are of expandable segments"),
        }
    }
}

/// Whether it is for want of memory that a pool does not wake: the limit's or the device's.
fn is_short_of_memory(error: &Error) -> bool {
    match error {
        Error::Driver(error) => error.is_out_of_memory(),
        Error::Rejected { .. } => true,
        _ => false,
    }
}

/// How far the mapping of a run came.
struct Made {
    addr: u64,
    page: u64,
    mapped: u64,
    handles: Vec<Handle>,
}

/// The runs of pages that blocks touch and that are not there.
fn missing(pages: &Pages, touched: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in touched.into_iter().flatten().filter(|&number| pages.get(number).is_none()) {
        match runs.last_mut() {
            // Blocks that share a page both touch it.
            Some(run) if run.end == number + 1 => {}
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}
