//! Growable buffers: addresses for the largest size, memory for the present one.

use std::ops::Range;
use std::sync::Arc;

use millpond_driver::{Device, Driver, Location, Stream};

use crate::error::Result;
use crate::share::Shared;
use crate::sharing::{Choice, Sharing};
use crate::space::{Space, Wanted};

/// How a growable buffer is made.
#[derive(Clone, Debug, Default)]
pub struct GrowOptions {
    /// The most it can ever hold, bytes; rounded up to pages. Only addresses are taken for it.
    pub capacity: u64,
    /// Bytes of a page: what memory comes and goes in. 0: the device's recommendation.
    pub page: u64,
    /// Alignment of the first address, bytes, a power of two; 0: the driver's own.
    pub align: u64,
    /// Other devices that use the buffer.
    pub peers: Vec<Device>,
    /// Whether the memory can leave the process.
    pub sharing: Sharing,
}

impl GrowOptions {
    /// A buffer of up to `capacity` bytes, all else as by default.
    pub fn up_to(capacity: u64) -> Self {
        GrowOptions { capacity, ..GrowOptions::default() }
    }
}

/// A buffer of device memory whose address never changes while its memory grows and shrinks, at the end or anywhere.
///
/// A call that fails leaves the buffer as it was. Memory goes back only after the streams that were
/// [said to use it](Growable::use_on) have done what they had queued; dropping the buffer waits for them too.
#[derive(Debug)]
pub struct Growable {
    space: Space,
}

impl Growable {
    /// Reserves addresses; no memory yet.
    ///
    /// # Errors
    /// [`Error::PageSize`](crate::Error::PageSize), [`Error::Capacity`](crate::Error::Capacity),
    /// [`Error::NotExportable`](crate::Error::NotExportable); the driver's.
    pub fn new(driver: Arc<dyn Driver>, device: Device, options: &GrowOptions) -> Result<Self> {
        let &GrowOptions { capacity, page, align, ref peers, sharing } = options;
        let (choice, locations) = (Choice::new(sharing), &[Location::Device(device)]);
        let wanted = Wanted { device, capacity, page, align, peers, choice, locations };
        Ok(Growable { space: Space::reserve(driver, wanted)? })
    }

    /// The first byte, for good.
    pub fn addr(&self) -> u64 {
        self.space.base
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.space.device
    }

    /// The most it can hold, bytes.
    pub fn capacity(&self) -> u64 {
        self.space.capacity()
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u64 {
        self.space.page
    }

    /// Bytes with memory behind them.
    pub fn committed(&self) -> u64 {
        self.space.count(|_| true) * self.space.page
    }

    /// Bytes from the start that have memory behind them without a hole.
    pub fn len(&self) -> u64 {
        self.space
            .runs(0..self.space.room)
            .first()
            .filter(|run| run.start == 0)
            .map_or(0, |run| run.end as u64 * self.space.page)
    }

    /// Whether no memory is at the start.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes sure that the first `bytes` have memory. N new pages cost N creates, N maps and one set-access per device.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) beyond the capacity; the driver's, and then nothing has changed.
    pub fn grow_to(&mut self, bytes: u64) -> Result<()> {
        self.commit(0, bytes)
    }

    /// Gives all pages back that lie wholly behind the first `bytes`.
    ///
    /// # Errors
    /// The driver's.
    pub fn shrink_to(&mut self, bytes: u64) -> Result<()> {
        let capacity = self.capacity();
        if bytes >= capacity { Ok(()) } else { self.decommit(bytes, capacity - bytes) }
    }

    /// Makes sure that every page which a range touches has memory.
    ///
    /// # Errors
    /// As [`Growable::grow_to`].
    pub fn commit(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let touched = self.space.touching(offset, bytes)?;
        let gaps = self.space.gaps(touched);
        self.space.commit(&gaps, Location::Device(self.space.device))
    }

    /// Gives every page back that lies wholly inside of a range; their contents are lost.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange); the driver's. What was given back before the failure stays so.
    pub fn decommit(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let inside = self.space.inside(offset, bytes)?;
        let runs = self.space.runs(inside);
        self.space.decommit(&runs)
    }

    /// The ranges of offsets that have memory.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let runs = self.space.runs(0..self.space.room);
        runs.into_iter().map(|run| run.start as u64 * self.space.page..run.end as u64 * self.space.page).collect()
    }

    /// Remembers that work on `stream` uses the buffer: no memory goes before the stream has passed.
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
    /// [`Error::NotShared`](crate::Error::NotShared), [`Error::NotCommitted`](crate::Error::NotCommitted); the driver's.
    pub fn share(&mut self, offset: u64, bytes: u64) -> Result<Shared> {
        Shared::of(&mut self.space, offset, bytes)
    }
}
