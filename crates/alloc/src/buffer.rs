//! Owned device memory: a live block that gives itself back.

use std::marker::PhantomData;

use millpond_driver::Stream;

use crate::allocator::Allocator;
use crate::caller::Caller;
use crate::error::Result;

/// An allocator seen from one stream: what most programs use.
#[derive(Clone, Debug)]
pub struct OnStream {
    allocator: Allocator,
    stream: Stream,
}

impl Allocator {
    /// The allocator for work on `stream`, which is also the calling thread's current stream (R5.22).
    pub fn on(&self, stream: Stream) -> OnStream {
        OnStream { allocator: self.clone(), stream }
    }
}

impl OnStream {
    /// The stream.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// At least `size` bytes, given back when the buffer is dropped.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    pub fn alloc(&self, size: u64) -> Result<Buffer> {
        let addr = self.allocator.alloc(size, self.stream, &Caller::on(self.stream))?;
        Ok(Buffer { allocator: self.allocator.clone(), addr, size, stream: self.stream })
    }

    /// Gives cached memory back to the driver.
    ///
    /// # Errors
    /// As [`Allocator::empty_cache`].
    pub fn empty_cache(&self) -> Result<()> {
        self.allocator.empty_cache(&Caller::on(self.stream))
    }
}

/// Device memory for work on one stream. Dropping it gives the block back: at once for work that the same stream gets
/// later, and for other streams it was [used on](Buffer::use_on) when they have passed. Dropping never blocks, panics or
/// allocates; an error is left in [`Allocator::last_error`] and the block is leaked rather than used again.
#[derive(Debug)]
pub struct Buffer {
    allocator: Allocator,
    addr: u64,
    size: u64,
    stream: Stream,
}

/// Leave to use a buffer on another stream. While it lives the buffer cannot be dropped, and the buffer remembers the stream,
/// so that its memory is not handed out before that stream has passed.
#[derive(Debug)]
#[must_use = "queue the work while the guard lives"]
pub struct StreamUse<'b> {
    addr: u64,
    stream: Stream,
    buffer: PhantomData<&'b Buffer>,
}

impl Buffer {
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

    /// The stream it was allocated for.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// Use the buffer on another stream (`record_stream`, R3.7). Ordering the work itself behind this stream's is the
    /// caller's affair, as ever.
    ///
    /// # Errors
    /// As [`Allocator::record_stream`].
    pub fn use_on(&self, stream: Stream) -> Result<StreamUse<'_>> {
        self.allocator.record_stream(self.addr, stream, &Caller::on(self.stream))?;
        Ok(StreamUse { addr: self.addr, stream, buffer: PhantomData })
    }

    /// Gives the block back and says what went wrong.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    pub fn free(mut self) -> Result<()> {
        let addr = std::mem::take(&mut self.addr);
        self.allocator.free(addr, &Caller::on(self.stream))
    }

    /// Lets go of the block: the caller frees it with [`Allocator::free`], or makes a buffer again.
    pub fn into_raw(mut self) -> u64 {
        // What is dropped is an empty buffer.
        std::mem::take(&mut self.addr)
    }

    /// A buffer over the live block at `addr`, which nobody else owns; `None` if there is none.
    pub fn from_raw(allocator: &Allocator, addr: u64, stream: Stream) -> Option<Buffer> {
        let (size, _) = allocator.size_of(addr)?;
        Some(Buffer { allocator: allocator.clone(), addr, size, stream })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let outcome = self.allocator.free(self.addr, &Caller::on(self.stream));
        self.allocator.note(outcome);
    }
}

impl StreamUse<'_> {
    /// The first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The stream that may use it.
    pub fn stream(&self) -> Stream {
        self.stream
    }
}
