//! What happened: the rows of a device's trace.

use std::num::NonZeroU64;

use crate::model::PoolId;
use crate::notes::NotesId;
use crate::stacks::StackId;

/// What a trace entry records (R9.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A block was handed out.
    #[default]
    Alloc,
    /// The program freed a block.
    FreeRequested,
    /// A freed block came back to its pool.
    FreeCompleted,
    /// The driver gave a segment.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// Pages were mapped into an expandable segment.
    SegmentMap,
    /// Pages were unmapped from an expandable segment.
    SegmentUnmap,
    /// An allocation failed.
    Oom,
    /// A snapshot was taken.
    Snapshot,
    /// A live allocation was annotated.
    Annotate,
    /// A word of a later PyTorch; it stands in [`Notes::action`](crate::Notes::action).
    Other,
}

impl Action {
    /// Every action of R9.9, without [`Action::Other`].
    pub const ALL: [Self; 10] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Oom,
        Self::Snapshot,
        Self::Annotate,
    ];

    /// The word PyTorch writes; `other` for [`Action::Other`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Oom => "oom",
            Self::Snapshot => "snapshot",
            Self::Annotate => "annotate",
            Self::Other => "other",
        }
    }

    /// The action that PyTorch calls `word`, if it is one of R9.9.
    pub fn from_word(word: impl AsRef<[u8]>) -> Option<Self> {
        let word = word.as_ref();
        Self::ALL.into_iter().find(|action| action.as_str().as_bytes() == word)
    }
}

/// One thing that happened, in 64 bytes.
///
/// Its equality is that of one snapshot's rows: [`stack`](Self::stack) and [`notes`](Self::notes)
/// are ids of that snapshot's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceEntry {
    /// First byte of the block or range. Of [`Action::Oom`], which has none: the bytes the driver
    /// had free (`device_free`); see [`device_free`](Self::device_free).
    pub addr: u64,
    /// Bytes: what was asked for (alloc, free), what was mapped (segments), the rounded size (oom).
    pub size: u64,
    /// Raw stream handle; 0 is the default stream.
    pub stream: u64,
    /// When; absent in old files.
    pub time_us: Option<TimeUs>,
    /// The memory pool; absent in old files.
    pub pool: Option<PoolId>,
    /// Where in the program; absent when no context was kept.
    pub stack: Option<StackId>,
    /// What else the entry says, in [`Snapshot::notes`](crate::Snapshot::notes).
    pub notes: NotesId,
    /// What happened.
    pub action: Action,
}

impl TraceEntry {
    /// Bytes the driver had free, of an [`Action::Oom`].
    pub fn device_free(&self) -> Option<u64> {
        (self.action == Action::Oom).then_some(self.addr)
    }
}

/// Microseconds since the epoch, kept plus one so that `Option<TimeUs>` takes no more room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimeUs(NonZeroU64);

impl TimeUs {
    /// `us` microseconds, held to at most `u64::MAX - 1`.
    pub const fn new(us: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(us))
    }

    /// Microseconds.
    pub const fn get(self) -> u64 {
        self.0.get() - 1
    }
}

impl std::fmt::Debug for TimeUs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} µs", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_9_every_action_has_its_word() {
        for action in Action::ALL {
            assert_eq!(Action::from_word(action.as_str()), Some(action));
        }
        assert_eq!(Action::from_word("other"), None);
    }

    #[test]
    fn a_row_is_64_bytes() {
        assert_eq!(size_of::<TraceEntry>(), 64);
    }

    #[test]
    fn time_zero_is_a_time() {
        assert_eq!(TimeUs::new(0).get(), 0);
        assert_eq!(TimeUs::new(u64::MAX).get(), u64::MAX - 1);
    }
}
