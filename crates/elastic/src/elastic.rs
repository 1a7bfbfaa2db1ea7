//! Elastic buffers: one range of addresses, its front on the device, its tail on the host.

use std::sync::Arc;

use millpond_driver::{Device, Driver, Location, Stream};

use crate::error::{At, Error, Result, Step};
use crate::moving;
use crate::share::Shared;
use crate::sharing::{Choice, Sharing};
use crate::space::{Space, Wanted};

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// In the device's memory.
    Device,
    /// In the host's memory, on the NUMA node next to the device.
    Host,
}

/// How an elastic buffer is made. All sizes are bytes and are rounded up to pages.
#[derive(Clone, Debug, Default)]
pub struct ElasticOptions {
    /// The most that the front can hold; the tail begins behind it.
    pub front_capacity: u64,
    /// The most that the tail can hold.
    pub tail_capacity: u64,
    /// Bytes of a page; 0: the larger of what is recommended for the device and for the host.
    pub page: u64,
    /// Alignment of the first address, bytes, a power of two; 0: the driver's own.
    pub align: u64,
    /// The NUMA node of the tail; `None`: the one next to the device.
    pub numa_node: Option<u32>,
    /// Other devices that use the buffer.
    pub peers: Vec<Device>,
    /// Whether the memory can leave the process.
    pub sharing: Sharing,
}

/// A buffer in one range of addresses, whose front lies on the device and whose tail lies on the host (`HOST_NUMA`). The
/// device, its peers and the host reach all of the tail; the host does not reach the front.
///
/// Either part grows at its end, and any page can be moved to the other memory at the same address with its contents kept.
/// A call that fails leaves the buffer as it was.
#[derive(Debug)]
pub struct Elastic {
    space: Space,
    /// The page at which the tail begins.
    border: usize,
    node: u32,
}

impl Elastic {
    /// Reserves addresses for both parts; no memory yet.
    ///
    /// # Errors
    /// [`Error::NoNumaNode`], [`Error::NoHostMemory`], [`Error::PageSize`], [`Error::Capacity`], [`Error::NotExportable`];
    /// the driver's.
    pub fn new(driver: Arc<dyn Driver>, device: Device, options: &ElasticOptions) -> Result<Self> {
        let caps = driver.caps(device).at(Step::Ask)?;
        if !caps.vmm {
            return Err(Error::NoVirtualMemory(device));
        }
        if !caps.host_numa_vmm {
            return Err(Error::NoHostMemory(device));
        }
        let node = options.numa_node.or(caps.host_numa).ok_or(Error::NoNumaNode(device))?;
        let locations = &[Location::Device(device), Location::HostNuma(node)];
        let &ElasticOptions { front_capacity, tail_capacity, page, align, ref peers, sharing, .. } = options;
        let page = match page {
            0 => Space::page_for(&*driver, locations)?,
            page => page,
        };
        let sum = front_capacity.checked_next_multiple_of(page).and_then(|front| front.checked_add(tail_capacity));
        let capacity = sum.ok_or(Error::Capacity { capacity: u64::MAX })?;
        let border = front_capacity.div_ceil(page) as usize;
        let choice = Choice::new(sharing);
        let space = Space::reserve(driver, Wanted { device, capacity, page, align, peers, choice, locations })?;
        Ok(Elastic { space, border, node })
    }

    /// The first byte of the front, for good.
    pub fn addr(&self) -> u64 {
        self.space.base
    }

    /// The first byte of the tail, for good.
    pub fn tail_addr(&self) -> u64 {
        self.space.addr(self.border)
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.space.device
    }

    /// The NUMA node of the tail.
    pub fn numa_node(&self) -> u32 {
        self.node
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u64 {
        self.space.page
    }

    /// Bytes of addresses, both parts together.
    pub fn capacity(&self) -> u64 {
        self.space.capacity()
    }

    /// Bytes of memory in one of the two places.
    pub fn bytes_in(&self, part: Part) -> u64 {
        let location = self.location(part);
        self.space.count(|page| page.location == location) * self.space.page
    }

    /// Where the byte at an offset lies; `None` without memory.
    pub fn part_at(&self, offset: u64) -> Option<Part> {
        let page = self.space.pages.get(&((offset / self.space.page) as usize))?;
        Some(if matches!(page.location, Location::Device(_)) { Part::Device } else { Part::Host })
    }

    /// Makes sure that the first `bytes` of the front have memory; new pages lie on the device. N new pages cost N creates,
    /// N maps and one set-access per device.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] beyond the front's capacity; the driver's, and then nothing has changed.
    pub fn grow_front(&mut self, bytes: u64) -> Result<()> {
        self.grow(0, self.border, bytes, Part::Device)
    }

    /// Makes sure that the first `bytes` of the tail have memory; new pages lie on the host. As [`Elastic::grow_front`], and
    /// one set-access more for the host.
    ///
    /// # Errors
    /// As [`Elastic::grow_front`].
    pub fn grow_tail(&mut self, bytes: u64) -> Result<()> {
        self.grow(self.border, self.space.room, bytes, Part::Host)
    }

    fn grow(&mut self, start: usize, end: usize, bytes: u64, part: Part) -> Result<()> {
        let pages = bytes.div_ceil(self.space.page) as usize;
        if pages > end - start {
            let (offset, capacity) = (start as u64 * self.space.page, self.space.capacity());
            return Err(Error::OutOfRange { offset, bytes, capacity });
        }
        let gaps = self.space.gaps(start..start + pages);
        self.space.commit(&gaps, self.location(part))
    }

    /// Gives the pages of the front back that lie wholly behind its first `bytes`.
    ///
    /// # Errors
    /// The driver's.
    pub fn shrink_front(&mut self, bytes: u64) -> Result<()> {
        self.shrink(0, self.border, bytes)
    }

    /// Gives the pages of the tail back that lie wholly behind its first `bytes`.
    ///
    /// # Errors
    /// The driver's.
    pub fn shrink_tail(&mut self, bytes: u64) -> Result<()> {
        self.shrink(self.border, self.space.room, bytes)
    }

    fn shrink(&mut self, start: usize, end: usize, bytes: u64) -> Result<()> {
        let kept = usize::try_from(bytes.div_ceil(self.space.page)).unwrap_or(usize::MAX);
        let runs = self.space.runs(start.saturating_add(kept).min(end)..end);
        self.space.decommit(&runs)
    }

    /// Moves the pages that a range touches into the other memory, where they are not there yet: same addresses, same
    /// contents, same access. The copy runs on `stream`, after all work that uses the buffer, and is waited for.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::NotCommitted`]; the driver's, and then every page lies where it lay. While pages move,
    /// both copies need memory.
    pub fn move_to(&mut self, part: Part, offset: u64, bytes: u64, stream: Stream) -> Result<()> {
        let touched = self.space.touching(offset, bytes)?;
        if let Some(gap) = self.space.gaps(touched.clone()).first() {
            return Err(Error::NotCommitted { offset: gap.start as u64 * self.space.page });
        }
        let to = self.location(part);
        moving::relocate(&mut self.space, touched, to, stream)
    }

    fn location(&self, part: Part) -> Location {
        match part {
            Part::Device => Location::Device(self.space.device),
            Part::Host => Location::HostNuma(self.node),
        }
    }

    /// Remembers that work on `stream` uses the buffer: no memory goes or moves before the stream has passed.
    pub fn use_on(&mut self, stream: Stream) {
        self.space.streams.insert(stream);
    }

    /// Lets another device use the buffer: what is there and what will be.
    ///
    /// # Errors
    /// The driver's, and then nothing has changed.
    pub fn allow(&mut self, peer: Device) -> Result<()> {
        self.space.allow(peer)
    }

    /// Exports the pages that a range touches, for another process.
    ///
    /// # Errors
    /// [`Error::NotShared`], [`Error::NotCommitted`]; the driver's.
    pub fn share(&mut self, offset: u64, bytes: u64) -> Result<Shared> {
        Shared::of(&mut self.space, offset, bytes)
    }
}
