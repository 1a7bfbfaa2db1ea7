//! Owned pinned memory: a block that gives itself back.

use std::marker::PhantomData;

use millpond_driver::Stream;

use super::HostCache;
use crate::caller::Caller;
use crate::error::Result;

/// Pinned host memory. Dropping it gives the block back: at once, or when the streams that it was
/// [used on](PinnedBuffer::use_on) have passed. Dropping never waits for a stream or panics; an error is left in
/// [`HostCache::last_error`].
#[derive(Debug)]
pub struct PinnedBuffer {
    cache: HostCache,
    addr: u64,
    size: u64,
    stream: Stream,
}

/// Leave to use a pinned buffer on a stream. While it lives the buffer cannot be dropped, and the buffer remembers the stream.
#[derive(Debug)]
#[must_use = "queue the work while the guard lives"]
pub struct PinnedUse<'b> {
    addr: u64,
    stream: Stream,
    buffer: PhantomData<&'b PinnedBuffer>,
}

impl HostCache {
    /// At least `size` bytes of pinned memory, given back when the buffer is dropped. `stream` is the calling thread's current
    /// stream: it decides whether the request belongs to a capture, and does not count as a use.
    ///
    /// # Errors
    /// As [`HostCache::alloc`].
    pub fn buffer(&self, size: u64, stream: Stream) -> Result<PinnedBuffer> {
        let addr = self.alloc(size, &Caller::on(stream))?;
        Ok(PinnedBuffer { cache: self.clone(), addr, size, stream })
    }
}

impl PinnedBuffer {
    /// The first byte; 0 for an empty buffer.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Bytes asked for.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Use the buffer on a stream, for a copy say (R7.14). Pinned memory has no stream of its own: every use counts.
    pub fn use_on(&self, stream: Stream) -> PinnedUse<'_> {
        self.cache.record_stream(self.addr, stream);
        PinnedUse { addr: self.addr, stream, buffer: PhantomData }
    }

    /// Gives the block back and says what went wrong.
    ///
    /// # Errors
    /// As [`HostCache::free`].
    pub fn free(mut self) -> Result<()> {
        let addr = std::mem::take(&mut self.addr);
        self.cache.free(addr, &Caller::on(self.stream))
    }

    /// Lets go of the block: the caller frees it with [`HostCache::free`].
    pub fn into_raw(mut self) -> u64 {
        // What is dropped is an empty buffer.
        std::mem::take(&mut self.addr)
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        self.cache.note(self.cache.free(self.addr, &Caller::on(self.stream)));
    }
}

impl PinnedUse<'_> {
    /// The first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The stream that may use it.
    pub fn stream(&self) -> Stream {
        self.stream
    }
}
