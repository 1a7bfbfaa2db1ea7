//! The out-of-memory error: every figure, and PyTorch's text (R2.43–R2.48).

use std::fmt;

use millpond_driver::{Device, ProcessUse, Stream};

use crate::private::PoolId;
use crate::size::format_size;

/// An out-of-memory error with all that was known at that moment. Sizes are bytes.
#[derive(Clone, Debug)]
pub struct Oom {
    /// The device.
    pub device: Device,
    /// The stream of the request.
    pub stream: Stream,
    /// The memory pool of the request.
    pub pool: PoolId,
    /// What the caller asked for.
    pub requested: u64,
    /// The request, rounded.
    pub rounded: u64,
    /// What was asked of the driver (R1.11).
    pub alloc_size: u64,
    /// Free on the device.
    pub device_free: u64,
    /// All of the device.
    pub device_total: u64,
    /// What processes hold, this one first; `None` where nobody can tell.
    pub processes: Option<Vec<ProcessUse>>,
    /// The limit, if one is set.
    pub limit: Option<u64>,
    /// Bytes of live blocks.
    pub allocated: u64,
    /// Bytes held from the driver.
    pub reserved: u64,
    /// Bytes cached in private pools (R2.47; PyTorch's text calls them allocated).
    pub cached_in_private_pools: u64,
    /// Which advice closes the text.
    pub hint: Hint,
    /// Whether the memory pool's own allocator returned nothing; the text then ends with a sentence on that.
    pub custom_allocator_failed: bool,
}

/// The advice at the end of the text (R2.48).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Expandable segments are off: they are suggested.
    TryExpandable,
    /// They are on: a remark on address space.
    AddressSpace,
    /// One allocation cannot be larger than the reserve of a segment.
    ReserveTooSmall {
        /// The reserve, bytes.
        reserve: u64,
        /// The class of the stream, if it has one.
        class: Option<String>,
    },
}

/// Who is told of an out-of-memory error before it is raised (R2.44).
pub trait OomObserver: Send + Sync {
    /// Called under none of the allocator's locks.
    fn out_of_memory(&self, oom: &Oom);
}

impl fmt::Display for Oom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CUDA out of memory. Tried to allocate {}. {} has a total capacity of {} of which {} is free. ",
            format_size(self.alloc_size),
            self.device,
            format_size(self.device_total),
            format_size(self.device_free)
        )?;
        for (i, process) in self.processes.iter().flatten().enumerate() {
            match i {
                0 => f.write_str("Including non-PyTorch memory, this process")?,
                _ => write!(f, "Process {}", process.pid)?,
            }
            write!(f, " has {} memory in use. ", format_size(process.used.0))?;
        }
        if let Some(limit) = self.limit {
            write!(f, "{} allowed; ", format_size(limit))?;
        }
        let private = self.cached_in_private_pools;
        write!(f, "Of the allocated memory {} is allocated by PyTorch,", format_size(self.allocated + private))?;
        if private > 0 {
            write!(f, " with {} allocated in private pools (e.g., CUDA Graphs),", format_size(private))?;
        }
        let unallocated = self.reserved.saturating_sub(self.allocated + private);
        write!(f, " and {} is reserved by PyTorch but unallocated.", format_size(unallocated))?;
        match &self.hint {
            Hint::TryExpandable => f.write_str(
                " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
                 to avoid fragmentation.  See documentation for Memory Management  \
                 (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
            ),
            Hint::AddressSpace => f.write_str(
                " expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), \
                 expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the number \
                 of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / \
                 expandable_segments_reserve_by_class.",
            ),
            Hint::ReserveTooSmall { reserve, class } => {
                let reserve = format_size(*reserve);
                let whose = match class {
                    Some(class) => format!("for stream reserve class '{class}'"),
                    None => "for this stream".to_owned(),
                };
                write!(
                    f,
                    " This allocation exceeds the expandable-segment reserve of {reserve} {whose}, and a single allocation \
                     cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or \
                     expandable_segments_reserve_by_class (or unset it) so that a segment is at least {}.",
                    format_size(self.alloc_size)
                )
            }
        }?;
        if self.custom_allocator_failed {
            f.write_str(
                " The custom allocator backing this MemPool returned nullptr. Check preceding allocator warnings or logs for the \
                 underlying cause. This can indicate an allocator-specific error or memory constraint, even when device-wide \
                 free memory is available.",
            )?;
        }
        Ok(())
    }
}
