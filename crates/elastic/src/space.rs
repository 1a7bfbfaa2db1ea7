//! Reserved addresses in which pages are mapped: what all buffers of this crate rest on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use millpond_driver::{
    Access, Device, Driver, Granularity, Handle, HandleProps, HandleType, Location, Shareable, Stream,
};

use crate::error::{At, Error, Result, Step};
use crate::sharing::Choice;
use crate::undo::{Done, Undo};

/// A page: one physical handle.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub handle: Handle,
    pub location: Location,
    /// The handle as it left the process, closed when the page goes (R4.35).
    pub exported: Option<Shareable>,
}

/// One reservation with its pages. Pages are numbered from 0.
#[derive(Debug)]
pub(crate) struct Space {
    pub driver: Arc<dyn Driver>,
    pub device: Device,
    pub base: u64,
    /// Bytes of a page.
    pub page: u64,
    /// How many pages there is room for.
    pub room: usize,
    /// Those that have memory.
    pub pages: BTreeMap<usize, Page>,
    /// Devices with access, the owner first.
    pub accessors: Vec<Device>,
    /// Streams whose work uses the memory: they are waited for before any of it goes.
    pub streams: BTreeSet<Stream>,
    pub choice: Choice,
    /// What a finished sequence could not undo; tried again later.
    pub leftovers: Vec<Done>,
}

/// What a space is made for.
pub(crate) struct Wanted<'w> {
    pub device: Device,
    /// Bytes of addresses.
    pub capacity: u64,
    /// Bytes of a page; 0: the device's recommendation.
    pub page: u64,
    /// Alignment of the first address, bytes; 0: the driver's own.
    pub align: u64,
    pub peers: &'w [Device],
    pub choice: Choice,
    /// Where pages will lie.
    pub locations: &'w [Location],
}

impl Space {
    /// Reserves addresses for whole pages.
    pub fn reserve(driver: Arc<dyn Driver>, wanted: Wanted<'_>) -> Result<Space> {
        let Wanted { device, capacity, page, align, peers, choice, locations } = wanted;
        if !driver.caps(device).at(Step::Ask)?.vmm {
            return Err(Error::NoVirtualMemory(device));
        }
        choice.check(&*driver, device)?;
        let page = if page == 0 { Space::page_for(&*driver, locations)? } else { page };
        let granularity = granularity(&*driver, locations, Granularity::Minimum)?;
        if !page.is_multiple_of(granularity) {
            return Err(Error::PageSize { page, granularity });
        }
        let bytes = capacity.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or(Error::Capacity { capacity })?;
        let base = driver.mem_address_reserve(bytes, align, 0).at(Step::Reserve)?;
        let accessors = std::iter::once(device).chain(peers.iter().copied().filter(|&peer| peer != device)).collect();
        Ok(Space {
            driver,
            device,
            base,
            page,
            room: (bytes / page) as usize,
            pages: BTreeMap::new(),
            accessors,
            streams: BTreeSet::new(),
            choice,
            leftovers: Vec::new(),
        })
    }

    /// The page that is recommended for memory at all of some locations, bytes.
    pub fn page_for(driver: &dyn Driver, locations: &[Location]) -> Result<u64> {
        granularity(driver, locations, Granularity::Recommended)
    }

    /// Bytes of addresses.
    pub fn capacity(&self) -> u64 {
        self.room as u64 * self.page
    }

    /// The address of a page.
    pub fn addr(&self, page: usize) -> u64 {
        self.base + page as u64 * self.page
    }

    fn bytes(&self, pages: &Range<usize>) -> u64 {
        (pages.end - pages.start) as u64 * self.page
    }

    /// The pages that a range of bytes touches (R4.9).
    pub fn touching(&self, offset: u64, bytes: u64) -> Result<Range<usize>> {
        let end = self.end_of(offset, bytes)?;
        Ok((offset / self.page) as usize..end.div_ceil(self.page) as usize)
    }

    /// The pages that lie wholly inside of a range of bytes (R4.19).
    pub fn inside(&self, offset: u64, bytes: u64) -> Result<Range<usize>> {
        let end = self.end_of(offset, bytes)?;
        let start = offset.div_ceil(self.page) as usize;
        Ok(start..start.max((end / self.page) as usize))
    }

    fn end_of(&self, offset: u64, bytes: u64) -> Result<u64> {
        let capacity = self.capacity();
        let end = offset.checked_add(bytes).filter(|&end| end <= capacity);
        end.ok_or(Error::OutOfRange { offset, bytes, capacity })
    }

    /// The runs of pages in a range that have memory.
    pub fn runs(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (&page, _) in self.pages.range(range) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    /// The runs of pages in a range that have none.
    pub fn gaps(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut gaps = Vec::new();
        let mut start = range.start;
        for run in self.runs(range.clone()) {
            gaps.push(start..run.start);
            start = run.end;
        }
        gaps.push(start..range.end);
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// How many pages have memory, of those that `counts` accepts.
    pub fn count(&self, counts: impl Fn(&Page) -> bool) -> u64 {
        self.pages.values().filter(|page| counts(page)).count() as u64
    }

    /// Waits for all work that was said to use the memory (R4.20).
    pub fn wait(&self) -> Result<()> {
        self.streams.iter().try_for_each(|&stream| self.driver.stream_synchronize(stream).at(Step::Wait))
    }

    /// Puts new memory into pages that have none, all or nothing: one create and one map for each page, then one
    /// set-access for each run of pages and each accessor.
    pub fn commit(&mut self, runs: &[Range<usize>], location: Location) -> Result<()> {
        let driver = Arc::clone(&self.driver);
        let mut undo = Undo::new(&*driver);
        let mut handles = Vec::new();
        for _ in runs.iter().cloned().flatten() {
            let handle = self.choice.create(&*driver, self.device, self.page, location)?;
            undo.push(Done::Created(handle));
            handles.push(handle);
        }
        for (page, &handle) in runs.iter().cloned().flatten().zip(&handles) {
            self.map(page, handle, &mut undo)?;
        }
        for run in runs {
            self.grant(run.clone(), location)?;
        }
        undo.keep();
        for (page, handle) in runs.iter().cloned().flatten().zip(handles) {
            self.pages.insert(page, Page { handle, location, exported: None });
        }
        Ok(())
    }

    /// Maps a handle at a page.
    pub fn map(&self, page: usize, handle: Handle, undo: &mut Undo<'_>) -> Result<()> {
        let addr = self.addr(page);
        self.driver.mem_map(addr, self.page, 0, handle).at(Step::Map)?;
        undo.push(Done::Mapped(addr, self.page));
        Ok(())
    }

    /// Gives access to mapped pages at one location: to the device, its peers and, for memory of the host, the host.
    pub fn grant(&self, run: Range<usize>, location: Location) -> Result<()> {
        let host = matches!(location, Location::HostNuma(_)).then_some(Location::Host);
        let accessors = self.accessors.iter().map(|&device| Location::Device(device)).chain(host);
        accessors.into_iter().try_for_each(|accessor| self.grant_to(accessor, &run))
    }

    fn grant_to(&self, accessor: Location, run: &Range<usize>) -> Result<()> {
        let (addr, bytes) = (self.addr(run.start), self.bytes(run));
        self.driver.mem_set_access(addr, bytes, accessor, Access::ReadWrite).at(Step::SetAccess)
    }

    /// Lets another device use what is there now and what will be (R4.24). After a failure nobody has more access than before.
    pub fn allow(&mut self, peer: Device) -> Result<()> {
        if self.accessors.contains(&peer) {
            return Ok(());
        }
        let runs = self.runs(0..self.room);
        for (done, run) in runs.iter().enumerate() {
            if let Err(error) = self.grant_to(Location::Device(peer), run) {
                for run in &runs[..done] {
                    let (addr, bytes) = (self.addr(run.start), self.bytes(run));
                    let _ = self.driver.mem_set_access(addr, bytes, Location::Device(peer), Access::None);
                }
                return Err(error);
            }
        }
        self.accessors.push(peer);
        Ok(())
    }

    /// Takes the memory out of runs of pages that have it, after all work that uses it. A run whose pages cannot be unmapped
    /// keeps them.
    pub fn decommit(&mut self, runs: &[Range<usize>]) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        self.wait()?;
        self.clear_leftovers();
        for run in runs {
            self.driver.mem_unmap(self.addr(run.start), self.bytes(run)).at(Step::Unmap)?;
            let mut outcome = Ok(());
            for page in run.clone() {
                let Some(Page { handle, .. }) = self.pages.remove(&page) else { continue };
                if let Err(error) = self.driver.mem_release(handle) {
                    self.leftovers.push(Done::Created(handle));
                    outcome = outcome.and(Err(error));
                }
            }
            outcome.at(Step::Release)?;
        }
        Ok(())
    }

    /// Tries again what could not be undone before.
    pub fn clear_leftovers(&mut self) {
        self.leftovers.retain(|done| done.undo(&*self.driver).is_err());
    }

    /// Exports the pages of a range, each once while it lives (R4.35).
    pub fn export(&mut self, range: Range<usize>) -> Result<(HandleType, Vec<Shareable>)> {
        let Some(handle_type) = self.choice.decided().filter(|&decided| decided != HandleType::None) else {
            return Err(Error::NotShared);
        };
        let mut handles = Vec::with_capacity(range.len());
        for number in range {
            let offset = number as u64 * self.page;
            let Some(page) = self.pages.get_mut(&number) else { return Err(Error::NotCommitted { offset }) };
            let exported = match &page.exported {
                Some(exported) => exported.clone(),
                None => self.driver.mem_export(page.handle, handle_type).at(Step::Export)?,
            };
            page.exported = Some(exported.clone());
            handles.push(exported);
        }
        Ok((handle_type, handles))
    }
}

impl Drop for Space {
    /// Gives everything back, after all work that uses it. Errors have nobody left who could be told of them.
    fn drop(&mut self) {
        let _ = self.wait();
        for run in self.runs(0..self.room) {
            let _ = self.driver.mem_unmap(self.addr(run.start), self.bytes(&run));
        }
        for page in self.pages.values() {
            let _ = self.driver.mem_release(page.handle);
        }
        self.clear_leftovers();
        let _ = self.driver.mem_address_free(self.base, self.capacity());
    }
}

/// The granularity of memory at all of some locations. Granularities are powers of two: the largest is a multiple of all.
fn granularity(driver: &dyn Driver, locations: &[Location], which: Granularity) -> Result<u64> {
    locations.iter().try_fold(1, |most: u64, &location| {
        let props = HandleProps { location, handle_type: HandleType::None, rdma: false };
        Ok(most.max(driver.mem_granularity(props, which).at(Step::Ask)?))
    })
}
