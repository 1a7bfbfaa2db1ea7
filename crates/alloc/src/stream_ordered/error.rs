//! What can go wrong with the driver's pools, beyond what any allocator meets.

use std::fmt;

use millpond_driver::Device;

use crate::size::format_size;

/// An error of `backend:cudaMallocAsync`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverPoolError {
    /// No room, after one wait and one trim (R6.3).
    #[error("{0}")]
    OutOfMemory(Box<PoolOom>),
    /// A second capture, or a memory pool in a capture (R6.6).
    #[error("only one capture at a time is possible with backend:cudaMallocAsync; end the other one first")]
    OneCapture,
    /// The end of a capture that never began.
    #[error("no capture is under way that could end")]
    NoCapture,
    /// An operation that only the native allocator has (R6.10).
    #[error("backend:cudaMallocAsync does not support {0}; use backend:native")]
    Unsupported(Operation),
}

/// What the native allocator does and the driver's pools cannot (R6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Taking a snapshot.
    Snapshot,
    /// Recording a history, or asking whether one is kept.
    History,
    /// Observers of out-of-memory errors.
    OomObserver,
    /// Observers of rejections.
    RejectionObserver,
    /// Observers of all events.
    TraceTracker,
    /// Sharing memory with another process.
    Ipc,
    /// Saving and restoring the state of a pool.
    Checkpoint,
    /// Listing expandable segments.
    ExpandableSegments,
    /// Allocating at an exact address.
    ExactAddress,
    /// Counting references to a pool.
    PoolUseCount,
    /// Memory pools (`MemPool`).
    MemPool,
    /// Pools that lend on OOM.
    UseOnOom,
    /// Pools that hand out whole blocks.
    NoSplit,
    /// Checking which blocks of a pool are live.
    LiveBlocks,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Snapshot => "snapshots",
            Operation::History => "recording the history",
            Operation::OomObserver => "observers of out-of-memory errors",
            Operation::RejectionObserver => "observers of rejected requests",
            Operation::TraceTracker => "trace trackers",
            Operation::Ipc => "sharing memory with other processes",
            Operation::Checkpoint => "checkpoints of pools",
            Operation::ExpandableSegments => "expandable segments",
            Operation::ExactAddress => "allocating at an exact address",
            Operation::PoolUseCount => "counting the references to a pool",
            Operation::MemPool => "memory pools (MemPool)",
            Operation::UseOnOom => "use_on_oom",
            Operation::NoSplit => "no_split",
            Operation::LiveBlocks => "checking the live blocks of a pool",
        })
    }
}

/// An out-of-memory error of a driver pool. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOom {
    /// The device.
    pub device: Device,
    /// Bytes of live allocations.
    pub allocated: u64,
    /// What the caller asked for.
    pub requested: u64,
    /// All of the device.
    pub device_total: u64,
    /// Free on the device.
    pub device_free: u64,
    /// The limit, if one is set.
    pub limit: Option<u64>,
    /// What the driver's pool holds from the device; `None` if it could not be asked.
    pub reserved: Option<u64>,
}

impl PoolOom {
    /// Bytes that are free in the driver's pool and fit no request. Nobody but the driver knows, and it does not tell: always
    /// `None`, which means unknown, not zero (C81).
    pub fn fragmentation(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for PoolOom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |bytes: Option<u64>, otherwise: &str| bytes.map_or(otherwise.to_owned(), format_size);
        writeln!(f, "CUDA out of memory. Allocation on {} would exceed allowed memory.", self.device)?;
        writeln!(f, "Currently allocated     : {}", format_size(self.allocated))?;
        writeln!(f, "Requested               : {}", format_size(self.requested))?;
        writeln!(f, "Device limit            : {}", format_size(self.device_total))?;
        writeln!(f, "Free (according to CUDA): {}", format_size(self.device_free))?;
        writeln!(f, "PyTorch limit           : {} (set by the memory fraction)", or(self.limit, "none"))?;
        writeln!(f, "Held by the driver pool : {}", or(self.reserved, "unknown"))?;
        write!(f, "Fragmentation inside it : {}", or(self.fragmentation(), "unknown (the driver does not tell)"))
    }
}
