//! One tagged allocation: addresses for good, and memory while it is awake.

use std::sync::Arc;

use millpond::{HostCache, PinnedBuffer};
use millpond_driver::{Device, Driver, Location, Stream};

use crate::error::{At, Error, Result, Step};
use crate::sharing::{Choice, Sharing};
use crate::space::{Space, Wanted};

/// The one page of the allocation.
const WHOLE: std::ops::Range<usize> = 0..1;

#[derive(Debug)]
pub(super) struct Allocation {
    pub tag: String,
    space: Space,
    /// How often the memory was made anew.
    pub generation: u64,
    sleep: Option<Sleep>,
}

/// An allocation without memory.
#[derive(Debug)]
struct Sleep {
    contents: Option<PinnedBuffer>,
}

impl Allocation {
    /// One handle for all of it.
    pub fn new(driver: &Arc<dyn Driver>, device: Device, tag: &str, bytes: u64, peers: &[Device]) -> Result<Self> {
        let (locations, choice) = (&[Location::Device(device)], Choice::new(Sharing::Never));
        let granularity = Space::page_for(&**driver, locations)?;
        let capacity = bytes.checked_next_multiple_of(granularity).filter(|_| bytes > 0);
        let capacity = capacity.ok_or(Error::Capacity { capacity: bytes })?;
        let wanted = Wanted { device, capacity, page: capacity, align: 0, peers, choice, locations };
        let mut space = Space::reserve(Arc::clone(driver), wanted)?;
        space.commit(&[WHOLE], Location::Device(device))?;
        Ok(Allocation { tag: tag.to_owned(), space, generation: 0, sleep: None })
    }

    pub fn addr(&self) -> u64 {
        self.space.base
    }

    /// Bytes of memory that it has when awake.
    pub fn bytes(&self) -> u64 {
        self.space.capacity()
    }

    pub fn is_asleep(&self) -> bool {
        self.sleep.is_some()
    }

    pub fn use_on(&mut self, stream: Stream) {
        self.space.streams.insert(stream);
    }

    pub fn allow(&mut self, peer: Device) -> Result<()> {
        self.space.allow(peer)
    }

    /// Queues a copy of the contents, after all work that uses them.
    pub fn save(&self, host: &HostCache, stream: Stream) -> Result<PinnedBuffer> {
        self.space.wait()?;
        let buffer = host.buffer(self.bytes(), stream).map_err(Error::Pinned)?;
        // The guard makes the buffer wait for the copy, also when it is dropped after a failure.
        let to = buffer.use_on(stream).addr();
        self.space.driver.memcpy_async(to, self.addr(), self.bytes(), stream).at(Step::Copy)?;
        Ok(buffer)
    }

    pub fn fall_asleep(&mut self, contents: Option<PinnedBuffer>) -> Result<()> {
        let gone = self.space.decommit(&[WHOLE]);
        if self.space.count(|_| true) == 0 {
            self.sleep = Some(Sleep { contents });
            // Whoever registered the old memory has lost it.
            self.generation += 1;
        }
        gone
    }

    /// Takes memory and queues the copy of the contents into it; it still counts as asleep.
    pub fn restore(&mut self, stream: Stream) -> Result<()> {
        if self.space.count(|_| true) == 0 {
            self.space.commit(&[WHOLE], Location::Device(self.space.device))?;
        }
        let Some(contents) = self.sleep.as_ref().and_then(|sleep| sleep.contents.as_ref()) else { return Ok(()) };
        let from = contents.use_on(stream).addr();
        self.space.driver.memcpy_async(self.space.base, from, self.space.capacity(), stream).at(Step::Copy)
    }

    /// Gives memory of a failed waking back, after the copies that were queued.
    pub fn sleep_on(&mut self, stream: Stream) -> Result<()> {
        if self.space.count(|_| true) == 0 {
            return Ok(());
        }
        self.space.driver.stream_synchronize(stream).at(Step::Wait)?;
        self.space.decommit(&[WHOLE])
    }

    /// The contents are back; returns their bytes.
    pub fn wake_up(&mut self) -> u64 {
        let contents = self.sleep.take().and_then(|sleep| sleep.contents);
        contents.map_or(0, |contents| contents.len())
    }
}
