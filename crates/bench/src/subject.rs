//! What is timed.

use std::sync::Arc;

use millpond::config::Settings;
use millpond::{Allocator, Caller, HistoryOptions, Level};
use millpond_driver::{Bytes, Device, Driver, Stream};
use millpond_sim::{Sim, SimConfig};

/// An allocator of one device, behind whatever interface it has.
pub trait Subject: Sync {
    /// Why a request failed.
    type Error: Send;
    /// What it calls a stream.
    type Stream: Copy + Send;

    /// A stream by number: 0 is the default stream, 1 another one.
    fn stream(&self, number: usize) -> Self::Stream;

    /// Allocates for a stream. The address of the block.
    ///
    /// # Errors
    /// The allocator's.
    fn alloc(&self, size: u64, stream: Self::Stream) -> Result<u64, Self::Error>;

    /// Frees a live block.
    ///
    /// # Errors
    /// The allocator's.
    fn free(&self, addr: u64) -> Result<(), Self::Error>;

    /// Turns the history on, without stacks, or off.
    ///
    /// # Errors
    /// The allocator's.
    fn history(&self, on: bool) -> Result<(), Self::Error>;

    /// Gives back what is cached.
    ///
    /// # Errors
    /// The allocator's.
    fn empty_cache(&self) -> Result<(), Self::Error>;
}

/// What of the library failed.
pub type LibraryFailed = millpond::Error;

/// Entries that a history keeps: as many as fit a few seconds of a program, so that old ones make room.
pub const HISTORY: usize = 100_000;

/// The library, through its own interface.
pub struct Library {
    /// Its allocator.
    pub allocator: Allocator,
    default: Stream,
    /// The default stream first.
    streams: Vec<Stream>,
    driver: Arc<dyn Driver>,
}

impl Library {
    /// On a simulated device of 1 TiB.
    ///
    /// # Errors
    /// None that is known: the device is there.
    pub fn simulated(settings: Settings) -> Result<Self, LibraryFailed> {
        Library::on(Sim::new(SimConfig::with_capacity(Bytes(1 << 40))), Device(0), settings)
    }

    /// On a device of a driver.
    ///
    /// # Errors
    /// The driver's.
    pub fn on(driver: Arc<dyn Driver>, device: Device, settings: Settings) -> Result<Self, LibraryFailed> {
        let allocator = Allocator::with_settings(Arc::clone(&driver), device, settings)?;
        let default = Stream::default_of(device);
        let mut library = Library { allocator, default, streams: vec![default], driver };
        library.have_streams(2)?;
        Ok(library)
    }

    /// Creates streams until there are so many.
    ///
    /// # Errors
    /// The driver's.
    pub fn have_streams(&mut self, count: usize) -> Result<(), LibraryFailed> {
        while self.streams.len() < count {
            self.streams.push(self.driver.stream_create(self.default.device)?);
        }
        Ok(())
    }
}

impl Subject for Library {
    type Error = LibraryFailed;
    type Stream = Stream;

    fn stream(&self, number: usize) -> Stream {
        self.streams[number]
    }

    #[inline]
    fn alloc(&self, size: u64, stream: Stream) -> Result<u64, LibraryFailed> {
        self.allocator.alloc(size, stream, &Caller::on(stream))
    }

    #[inline]
    fn free(&self, addr: u64) -> Result<(), LibraryFailed> {
        self.allocator.free(addr, &Caller::on(self.default))
    }

    fn history(&self, on: bool) -> Result<(), LibraryFailed> {
        let options = HistoryOptions { level: Level::Never, max_entries: HISTORY, ..HistoryOptions::default() };
        self.allocator.record_history(on.then_some(options));
        Ok(())
    }

    fn empty_cache(&self) -> Result<(), LibraryFailed> {
        self.allocator.empty_cache(&Caller::on(self.default))
    }
}
