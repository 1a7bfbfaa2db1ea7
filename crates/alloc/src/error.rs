//! What can go wrong, in sentences for the one who called.

use millpond_driver::{Device, DriverError, Stream};

use crate::oom::Oom;
use crate::private::PoolId;
use crate::size::show;
use crate::stream_ordered::DriverPoolError;

/// A request that was not served, or a call that was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device has no room (R2.43–R2.49).
    #[error("{0}")]
    OutOfMemory(Box<Oom>),
    /// A request of 2^60 bytes or more (R2.1).
    #[error("CUDA out of memory. Tried to allocate more than 1EB memory.")]
    TooLarge {
        /// Bytes asked for.
        requested: u64,
    },
    /// A request beyond `per_process_memory_fraction` under `throw_on_cudamalloc_oom` (R2.41).
    #[error(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed \
         per_process_memory_fraction limit. Requested size: {}", crate::size::format_size(*.requested)
    )]
    Rejected {
        /// Bytes asked for.
        requested: u64,
    },
    /// The driver failed for another reason than memory.
    #[error("CUDA driver error: {}", .0.code.text())]
    Driver(#[from] DriverError),
    /// An address that is not the start of a live block here (R3.1).
    #[error("invalid device pointer: {addr:#x}: no live block of this allocator starts there")]
    UnknownAddress {
        /// The address.
        addr: u64,
    },
    /// A stream of another device.
    #[error("{stream} belongs to {}, and this allocator serves {device}", .stream.device)]
    WrongDevice {
        /// The stream.
        stream: Stream,
        /// The allocator's device.
        device: Device,
    },
    /// The calling thread's stream is in a capture that was invalidated (R5.22).
    #[error("the capture on {stream} was invalidated by an earlier error; end it before allocating")]
    CaptureInvalidated {
        /// The stream.
        stream: Stream,
    },
    /// The streams of a block do not capture into one graph (R5.30).
    #[error("all streams that use a block freed in a capture must capture into the same graph")]
    CaptureMismatch,
    /// No scope accepts the capturing stream (R5.31), or one of its streams captures still (R5.34).
    #[error("the capture on {stream} and the open pool scopes do not fit together")]
    CaptureScope {
        /// The stream.
        stream: Stream,
    },
    /// A fraction outside [0, 1] (R2.38).
    #[error("invalid memory fraction {fraction}: it must lie between 0 and 1")]
    InvalidFraction {
        /// The fraction.
        fraction: f64,
    },
    /// A pool id that this device does not know.
    #[error("no memory pool {pool} exists on this device")]
    UnknownPool {
        /// The id.
        pool: PoolId,
    },
    /// A pool whose last owner has let go (R5.4).
    #[error("memory pool {pool} was released by its last owner and cannot be used again; keep one owner alive")]
    PoolReleased {
        /// The id.
        pool: PoolId,
    },
    /// A second custom allocator for one pool (R5.4).
    #[error("memory pool {pool} exists already, and its allocator cannot be changed")]
    PoolExists {
        /// The id.
        pool: PoolId,
    },
    /// A scope for a pool that has one (R2.30, R5.5).
    #[error("already recording to mempool_id {pool}: a scope for it is open")]
    ScopeOpen {
        /// The id.
        pool: PoolId,
    },
    /// A scope that is not open (R5.7).
    #[error("no scope for memory pool {pool} is open")]
    ScopeNotOpen {
        /// The id.
        pool: PoolId,
    },
    /// An exact address that is not a multiple of 512 (R2.52).
    #[error("exact addresses are multiples of 512, {addr:#x} is not")]
    MisalignedAddress {
        /// The address.
        addr: u64,
    },
    /// No free block covers the range (R2.53).
    #[error("could not allocate CUDA storage at exact address {addr:#x}: no free block of the stream covers {} there", show(*.size))]
    AddressNotFree {
        /// The address.
        addr: u64,
        /// Rounded bytes.
        size: u64,
    },
    /// A base address was asked for inside an expandable segment (R2.57).
    #[error(
        "{addr:#x} lies in an expandable segment, which has no single base to share; set expandable_segments:False"
    )]
    Expandable {
        /// The address.
        addr: u64,
    },
    /// Caching is off, and that cannot be done without it (R2.2, R2.55).
    #[error("the caching allocator is disabled: {what} needs it")]
    CachingDisabled {
        /// What was asked.
        what: &'static str,
    },
    /// A pool's blocks wait for events, or the pool is freeable (R5.38).
    #[error("memory pool {pool} cannot be checkpointed: {why}")]
    NoCheckpoint {
        /// The id.
        pool: PoolId,
        /// Why not.
        why: &'static str,
    },
    /// A saved state does not fit the pool any more (R5.39, R5.41).
    #[error("the saved state does not fit memory pool {pool}: {why}")]
    StaleCheckpoint {
        /// The id.
        pool: PoolId,
        /// Why not.
        why: String,
    },
    /// A custom allocator returned memory that is in use already (C37).
    #[error(
        "the custom allocator of memory pool {pool} returned {addr:#x}, which overlaps memory that is in use: it gave it before and \
         has not taken it back, or it had it from this allocator"
    )]
    CustomOverlap {
        /// The id.
        pool: PoolId,
        /// The address.
        addr: u64,
    },
    /// A custom allocator asked for memory of the memory pool that it serves.
    #[error(
        "the custom allocator of memory pool {pool} asks for memory of the pool that it serves; a pool without a custom allocator \
         has its memory from the driver"
    )]
    CustomAsksItself {
        /// The id.
        pool: PoolId,
    },
    /// A memory pool that has addresses and no memory: it sleeps already, or something needs its memory.
    #[error("memory pool {pool} is asleep; wake it first")]
    PoolAsleep {
        /// The id.
        pool: PoolId,
    },
    /// Waking a memory pool that is awake.
    #[error("memory pool {pool} is awake already")]
    PoolAwake {
        /// The id.
        pool: PoolId,
    },
    /// Not enough memory to wake a memory pool up.
    #[error(
        "memory pool {pool} needs {} to wake up and {} can be had; it sleeps on with all it kept", show(*.needed), show(*.free)
    )]
    NoRoomToWake {
        /// The id.
        pool: PoolId,
        /// Bytes of its live blocks, in whole pages.
        needed: u64,
        /// Bytes that the device or the limit has left.
        free: u64,
    },
    /// Sleep and waking wait for the device, which a capture forbids.
    #[error(
        "memory pool {pool} cannot go to sleep or wake up while a graph is captured on the device; end the capture"
    )]
    PoolInCapture {
        /// The id.
        pool: PoolId,
    },
    /// An error of `backend:cudaMallocAsync` alone (section 6).
    #[error(transparent)]
    DriverPool(#[from] DriverPoolError),
}

impl Error {
    /// Whether PyTorch would raise `torch.OutOfMemoryError` (R2.49).
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            Error::OutOfMemory(_)
                | Error::TooLarge { .. }
                | Error::Rejected { .. }
                | Error::NoRoomToWake { .. }
                | Error::DriverPool(DriverPoolError::OutOfMemory(_))
        )
    }
}

/// What the allocator's calls return.
pub type Result<T> = std::result::Result<T, Error>;
