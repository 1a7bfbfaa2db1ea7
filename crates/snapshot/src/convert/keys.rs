//! The keys of snapshot dicts, recognised without comparing texts again and again.

use std::sync::Arc;

use crate::notes::Notes;
use crate::pickle::arena::Arena;
use crate::pickle::word::{Item, Word};
use crate::settings::Settings;
use crate::stacks::FxNode;

macro_rules! keys {
    ($($name:ident = $text:literal,)*) => {
        /// A key that the model knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
        pub(crate) enum Key {
            $($name,)*
            /// Any other.
            Unknown,
        }

        impl Key {
            fn of(text: &[u8]) -> Self {
                $(if text == $text.as_bytes() {
                    return Self::$name;
                })*
                Self::Unknown
            }

            /// A bit of its own, for sets of keys.
            pub fn bit(self) -> u64 {
                1 << self as u32
            }

            /// The key as it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Unknown => "",
                }
            }
        }
    };
}

keys! {
    // Trace entries (R9.9).
    Action = "action",
    Addr = "addr",
    DeviceFree = "device_free",
    Size = "size",
    Stream = "stream",
    TimeUs = "time_us",
    CompileContext = "compile_context",
    UserMetadata = "user_metadata",
    InternalMetadata = "internal_metadata",
    PoolId = "pool_id",
    Frames = "frames",
    // Frames (R9.8).
    Name = "name",
    Filename = "filename",
    Line = "line",
    FxNodeOp = "fx_node_op",
    FxNodeName = "fx_node_name",
    FxNodeInfo = "fx_node_info",
    FxOriginalTrace = "fx_original_trace",
    // Segments (9.2) and blocks (R9.7).
    Device = "device",
    Address = "address",
    TotalSize = "total_size",
    AllocatedSize = "allocated_size",
    ActiveSize = "active_size",
    RequestedSize = "requested_size",
    SegmentType = "segment_type",
    SegmentPoolId = "segment_pool_id",
    IsExpandable = "is_expandable",
    Blocks = "blocks",
    State = "state",
    History = "history",
    RealSize = "real_size",
    // The root (R9.1).
    Segments = "segments",
    DeviceTraces = "device_traces",
    AllocatorSettings = "allocator_settings",
    ExternalAnnotations = "external_annotations",
    HostSegments = "host_segments",
    HostTraces = "host_traces",
    // Annotations (R9.15).
    Stage = "stage",
    // Settings (R9.14).
    Conf = "PYTORCH_CUDA_ALLOC_CONF",
    MaxSplitSize = "max_split_size",
    GarbageCollectionThreshold = "garbage_collection_threshold",
    ExpandableSegments = "expandable_segments",
    PinnedNumRegisterThreads = "pinned_num_register_threads",
    ReleaseLockOnCudamalloc = "release_lock_on_cudamalloc",
    PinnedUseCudaHostRegister = "pinned_use_cuda_host_register",
    GraphCaptureRecordStreamReuse = "graph_capture_record_stream_reuse",
    MaxRoundThreshold = "max_round_threshold",
    MaxCachedSize = "max_cached_size",
    RoundupPower2Divisions = "roundup_power2_divisions",
}

impl Key {
    /// Whether this is one of those above that make an entry or a frame.
    pub fn is_of_entry_or_frame(self) -> bool {
        self <= Self::FxOriginalTrace
    }
}

const WAYS: usize = 256;

/// Remembers what texts mean. A text that is in the memo of a pickle is the same word each time,
/// so most lookups compare one number.
pub(crate) struct TextCache<T> {
    ways: Box<[(Word, T)]>,
}

impl<T: Copy> TextCache<T> {
    pub fn new(nothing: T) -> Self {
        Self { ways: vec![(Word::EMPTY, nothing); WAYS].into_boxed_slice() }
    }

    /// What `word` means; `read` is asked when it is not remembered.
    pub fn get(&mut self, word: Word, read: impl FnOnce() -> T) -> T {
        // Fibonacci hashing: neighbouring positions go to different ways.
        let way = (word.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let (known, meaning) = &mut self.ways[way];
        if *known != word {
            *meaning = read();
            *known = word;
        }
        *meaning
    }
}

/// The keys of one arena.
pub(crate) struct Keys(TextCache<Key>);

impl Keys {
    pub fn new() -> Self {
        Self(TextCache::new(Key::Unknown))
    }

    /// The key that `word` is; [`Key::Unknown`] also for what is no text.
    pub fn get(&mut self, arena: &Arena<'_>, word: Word) -> Key {
        match word.item() {
            Item::Text(position) => self.0.get(word, || Key::of(arena.text_bytes(position))),
            _ => Key::Unknown,
        }
    }
}

impl Notes {
    /// The keys of the texts that PyTorch writes, in its order.
    pub(crate) fn texts(&self) -> [(Key, Option<&Arc<str>>); 3] {
        [
            (Key::CompileContext, self.compile_context.as_ref()),
            (Key::UserMetadata, self.user_metadata.as_ref()),
            (Key::InternalMetadata, self.internal_metadata.as_ref()),
        ]
    }
}

impl FxNode {
    /// The keys of the texts, in PyTorch's order.
    pub(crate) fn texts(&self) -> [(Key, Option<&Arc<str>>); 4] {
        [
            (Key::FxNodeOp, self.op.as_ref()),
            (Key::FxNodeName, self.name.as_ref()),
            (Key::FxNodeInfo, self.info.as_ref()),
            (Key::FxOriginalTrace, self.original_trace.as_ref()),
        ]
    }
}

impl Settings {
    /// The keys of the integers, in PyTorch's order.
    pub(crate) fn integers(&self) -> [(Key, Option<i64>); 4] {
        [
            (Key::MaxSplitSize, self.max_split_size),
            (Key::PinnedNumRegisterThreads, self.pinned_num_register_threads),
            (Key::MaxRoundThreshold, self.max_round_threshold),
            (Key::MaxCachedSize, self.max_cached_size),
        ]
    }

    /// The keys of the booleans, in PyTorch's order.
    pub(crate) fn booleans(&self) -> [(Key, Option<bool>); 4] {
        [
            (Key::ExpandableSegments, self.expandable_segments),
            (Key::ReleaseLockOnCudamalloc, self.release_lock_on_cudamalloc),
            (Key::PinnedUseCudaHostRegister, self.pinned_use_cuda_host_register),
            (Key::GraphCaptureRecordStreamReuse, self.graph_capture_record_stream_reuse),
        ]
    }
}
