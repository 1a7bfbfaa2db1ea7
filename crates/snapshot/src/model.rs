//! What a snapshot holds: segments and their blocks, and what goes with them.
//!
//! All sizes and addresses are bytes, all times microseconds since the Unix epoch
//! (or since the start of a simulated run).

use std::num::NonZeroU64;

use crate::notes::NotesTable;
use crate::settings::Settings;
use crate::stacks::{StackId, Stacks};
use crate::trace::TraceEntry;
use crate::values::{ValueId, Values};

/// Keys this model does not know, kept in the order of the file so that rewriting loses nothing.
///
/// Both halves of a pair stand in [`Snapshot::values`].
pub type Extra = Vec<(ValueId, ValueId)>;

/// A memory snapshot, as `torch.cuda.memory._dump_snapshot` writes it (R9.1).
///
/// Stacks, notes and unknown values are held once in tables of the snapshot; segments, blocks and
/// trace entries refer to them by id. Two snapshots are equal when they say the same, whatever the
/// ids of their tables.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The segments of all devices, as listed in the file (R9.5: per device by address).
    pub segments: Vec<Segment>,
    /// One trace per device index, oldest entry first (R9.9). May be shorter than the device count.
    pub device_traces: Vec<Vec<TraceEntry>>,
    /// The settings the allocator ran under (R9.14).
    pub settings: Settings,
    /// `record_function` scopes (R9.15).
    pub annotations: Vec<Annotation>,
    /// Segments of the pinned host allocator, device −1 (R9.16).
    pub host_segments: Vec<Segment>,
    /// Trace of the pinned host allocator, oldest entry first (R9.17).
    pub host_traces: Vec<TraceEntry>,
    /// Unknown keys of the root.
    pub extra: Extra,
    /// The call stacks that segments, blocks and trace entries refer to.
    pub stacks: Stacks,
    /// What trace entries say beside their figures.
    pub notes: NotesTable,
    /// The values of all unknown keys.
    pub values: Values,
}

impl Snapshot {
    /// The trace of device `device`, oldest entry first; empty when there is none.
    pub fn trace(&self, device: usize) -> &[TraceEntry] {
        self.device_traces.get(device).map_or(&[], Vec::as_slice)
    }
}

/// One driver allocation, or one contiguous mapped range of an expandable segment (R9.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Device index; −1 for the pinned host allocator.
    pub device: i32,
    /// First byte.
    pub address: u64,
    /// Bytes, as the file states them.
    pub total_size: u64,
    /// Bytes in allocated blocks, as the file states them.
    pub allocated_size: u64,
    /// Bytes in allocated or pending blocks, as the file states them.
    pub active_size: u64,
    /// Bytes that callers asked for, over active blocks, as the file states them.
    pub requested_size: u64,
    /// Raw stream handle; 0 is the default stream.
    pub stream: u64,
    /// Which pools the segment serves.
    pub segment_type: SegmentType,
    /// The memory pool that owns the segment; `None` in files of 2023.
    pub pool: Option<PoolId>,
    /// Whether this is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// Where the driver allocation was made.
    pub stack: StackId,
    /// In address order.
    pub blocks: Vec<Block>,
    /// Unknown keys.
    pub extra: Extra,
}

/// The `segment_type` of a segment: which requests its pool serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentType {
    /// Requests above 1 MiB.
    #[default]
    Large,
    /// Requests up to 1 MiB.
    Small,
}

impl SegmentType {
    /// The word PyTorch writes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Small => "small",
        }
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "large" => Some(Self::Large),
            "small" => Some(Self::Small),
            _ => None,
        }
    }
}

/// A range of a segment (R9.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First byte. Files of 2023 do not state it: there it is the segment's address plus the sizes
    /// of the blocks before.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes the caller asked for; of an inactive block the last value, not 0.
    pub requested_size: u64,
    /// Who holds the block.
    pub state: BlockState,
    /// Where the block was allocated.
    pub stack: StackId,
    /// Unknown keys; also the `history` of 2023.
    pub extra: Extra,
}

impl Block {
    /// Bytes that count as allocated.
    pub fn allocated(&self) -> u64 {
        match self.state {
            BlockState::ActiveAllocated => self.size,
            BlockState::ActivePendingFree | BlockState::Inactive => 0,
        }
    }

    /// Bytes that count as active.
    pub fn active(&self) -> u64 {
        if self.state.is_active() { self.size } else { 0 }
    }

    /// Bytes that count as requested: those of active blocks.
    pub fn requested(&self) -> u64 {
        if self.state.is_active() { self.requested_size } else { 0 }
    }
}

/// The `state` of a block (R9.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockState {
    /// Held by the program.
    ActiveAllocated,
    /// Freed by the program, waiting for other streams.
    ActivePendingFree,
    /// Free.
    #[default]
    Inactive,
}

impl BlockState {
    /// The word PyTorch writes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActiveAllocated => "active_allocated",
            Self::ActivePendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }

    /// The inverse of [`as_str`](Self::as_str); also takes the docstring's `active_awaiting_free`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "active_allocated" => Some(Self::ActiveAllocated),
            "active_pending_free" | "active_awaiting_free" => Some(Self::ActivePendingFree),
            "inactive" => Some(Self::Inactive),
            _ => None,
        }
    }

    /// Whether the block counts as active: allocated or pending.
    pub fn is_active(self) -> bool {
        self != Self::Inactive
    }
}

/// A memory pool's id: `(0, 0)` is the default pool, `(k, 0)` a graph's, `(0, k)` a `MemPool`'s.
///
/// The second half is kept plus one, so that `Option<PoolId>` takes no more room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(u64, NonZeroU64);

impl PoolId {
    /// The default pool, `(0, 0)`.
    pub const DEFAULT: Self = Self::new(0, 0);

    /// The pool `(first, second)`. `second` is held to at most `u64::MAX - 1`.
    pub const fn new(first: u64, second: u64) -> Self {
        Self(first, NonZeroU64::MIN.saturating_add(second))
    }

    /// Both halves.
    pub const fn pair(self) -> (u64, u64) {
        (self.0, self.1.get() - 1)
    }
}

impl Default for PoolId {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl From<(u64, u64)> for PoolId {
    fn from((first, second): (u64, u64)) -> Self {
        Self::new(first, second)
    }
}

impl std::fmt::Debug for PoolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, second) = self.pair();
        write!(f, "PoolId({first}, {second})")
    }
}

impl std::fmt::Display for PoolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, second) = self.pair();
        write!(f, "({first}, {second})")
    }
}

/// One end of a `record_function` scope (R9.15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// The scope's name.
    pub name: String,
    /// `START` or `END`.
    pub stage: String,
    /// Device index.
    pub device: i32,
    /// Microseconds.
    pub time_us: Option<u64>,
    /// Unknown keys.
    pub extra: Extra,
}
