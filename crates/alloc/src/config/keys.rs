//! Every key: its name, whose it is, what it does, its default and what is allowed.

use Owner::{Cuda, Generic, Millpond};

/// Who reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// PyTorch's parser for all accelerators.
    Generic,
    /// PyTorch's parser for CUDA devices, which runs after the generic one (R10.16).
    Cuda,
    /// Millpond alone; PyTorch does not know the key.
    Millpond,
}

/// A key of the settings string; [`Key::about`] says what it does. The order is the one of the law's table (10.3), then
/// Millpond's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// `large_segment_size_mb`.
    LargeSegmentSizeMb,
    /// `max_split_size_mb`.
    MaxSplitSizeMb,
    /// `max_non_split_rounding_mb`.
    MaxNonSplitRoundingMb,
    /// `garbage_collection_threshold`.
    GarbageCollectionThreshold,
    /// `roundup_power2_divisions`.
    RoundupPower2Divisions,
    /// `expandable_segments`.
    ExpandableSegments,
    /// `pinned_use_background_threads`.
    PinnedUseBackgroundThreads,
    /// `pinned_max_round_threshold_mb`.
    PinnedMaxRoundThresholdMb,
    /// `pinned_max_cached_size_mb`.
    PinnedMaxCachedSizeMb,
    /// `backend`.
    Backend,
    /// `release_lock_on_cudamalloc`.
    ReleaseLockOnCudamalloc,
    /// `pinned_use_cuda_host_register`.
    PinnedUseCudaHostRegister,
    /// `pinned_num_register_threads`.
    PinnedNumRegisterThreads,
    /// `pinned_reserve_segment_size_mb`.
    PinnedReserveSegmentSizeMb,
    /// `pinned_free_catch_all`.
    PinnedFreeCatchAll,
    /// `graph_capture_record_stream_reuse`.
    GraphCaptureRecordStreamReuse,
    /// `per_process_memory_fraction`.
    PerProcessMemoryFraction,
    /// `throw_on_cudamalloc_oom`.
    ThrowOnCudamallocOom,
    /// `expandable_segments_reserve`.
    ExpandableSegmentsReserve,
    /// `expandable_segments_reserve_by_class`.
    ExpandableSegmentsReserveByClass,
    /// `preset`.
    Preset,
    /// `retry_after_sync`.
    RetryAfterSync,
    /// `page_reuse`.
    PageReuse,
    /// `page_size_mb`.
    PageSizeMb,
    /// `pinned_size_classes`.
    PinnedSizeClasses,
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One of a few words.
    Word,
    /// An unsigned number, also in each entry of a list.
    Whole,
    /// A floating point number.
    Real,
    /// A reserve (R4.25), also in each entry of a list.
    Reserve,
}

struct Row {
    key: Key,
    name: &'static str,
    owner: Owner,
    default: &'static str,
    allowed: &'static str,
    about: &'static str,
}

const FLAG: &str = "True or False";

const fn row(
    key: Key,
    name: &'static str,
    owner: Owner,
    default: &'static str,
    allowed: &'static str,
    about: &'static str,
) -> Row {
    Row { key, name, owner, default, allowed, about }
}

#[rustfmt::skip]
static ROWS: [Row; 25] = [
    row(Key::LargeSegmentSizeMb, "large_segment_size_mb", Generic, "20",
        "a whole number of MiB above 10",
        "The size of the segment that is made for requests of 1 to 10 MiB, and of a page of large expandable segments."),
    row(Key::MaxSplitSizeMb, "max_split_size_mb", Generic, "unlimited",
        "a whole number of MiB, large_segment_size_mb (20) or more",
        "Blocks of this size or more are not split, and a smaller request never gets one. It keeps large blocks whole for \
         large requests."),
    row(Key::MaxNonSplitRoundingMb, "max_non_split_rounding_mb", Generic, "large_segment_size_mb",
        "a whole number of MiB, large_segment_size_mb (20) or more",
        "How much larger than its request a block may be that is too large to split. Above it, new memory is taken instead."),
    row(Key::GarbageCollectionThreshold, "garbage_collection_threshold", Generic, "off",
        "a number above 0.0 and below 1.0",
        "When more than this fraction of the memory limit is used, unused blocks are given back, the oldest first, before \
         new memory is taken."),
    row(Key::RoundupPower2Divisions, "roundup_power2_divisions", Generic, "off",
        "a power of two, or a list such as [256:1,512:2,>:4] whose sizes in MiB are powers of two and whose divisions are \
         powers of two or 0",
        "Requests are rounded up to one of this many steps between two powers of two, so that similar sizes share blocks."),
    row(Key::ExpandableSegments, "expandable_segments", Generic, "False", FLAG,
        "Segments grow and shrink page by page inside reserved address space, so that free memory is not cut up between \
         segments."),
    row(Key::PinnedUseBackgroundThreads, "pinned_use_background_threads", Generic, "False", FLAG,
        "A thread of its own watches for pinned blocks that are free again. Once started it never stops."),
    row(Key::PinnedMaxRoundThresholdMb, "pinned_max_round_threshold_mb", Generic, "unlimited",
        "a whole number of MiB",
        "Pinned requests up to this size are rounded up to a power of two; larger ones get their exact size."),
    row(Key::PinnedMaxCachedSizeMb, "pinned_max_cached_size_mb", Generic, "unlimited",
        "a whole number of MiB",
        "Pinned blocks up to this size are kept when freed; larger ones are given back at once."),
    row(Key::Backend, "backend", Cuda, "native", "native or cudaMallocAsync",
        "Which allocator answers: the caching one, or the driver's own pools. It is chosen at the start and stays."),
    row(Key::ReleaseLockOnCudamalloc, "release_lock_on_cudamalloc", Cuda, "False", FLAG,
        "The allocator's lock is released while the driver makes memory, so that other threads need not wait for it."),
    row(Key::PinnedUseCudaHostRegister, "pinned_use_cuda_host_register", Cuda, "False", FLAG,
        "Pinned memory is taken from the system and registered with the driver, instead of being taken from the driver."),
    row(Key::PinnedNumRegisterThreads, "pinned_num_register_threads", Cuda, "1",
        "a power of two, 128 at most",
        "How many threads touch the pages of a pinned block before it is registered. It needs \
         pinned_use_cuda_host_register."),
    row(Key::PinnedReserveSegmentSizeMb, "pinned_reserve_segment_size_mb", Cuda, "off",
        "a whole number of MiB above 0",
        "A pinned region of this size is made at the first pinned request, and blocks are cut from it. It is never freed."),
    row(Key::PinnedFreeCatchAll, "pinned_free_catch_all", Cuda, "False", FLAG,
        "An error while pinned memory is freed becomes a warning."),
    row(Key::GraphCaptureRecordStreamReuse, "graph_capture_record_stream_reuse", Cuda, "False", FLAG,
        "While a CUDA graph is captured, blocks that other streams used are reused as soon as the graph's own order allows \
         it, instead of after the capture."),
    row(Key::PerProcessMemoryFraction, "per_process_memory_fraction", Cuda, "1.0",
        "a number from 0.0 to 1.0",
        "The process may hold at most this fraction of the device's memory. The limit is taken from the setting once, when \
         the device is first used."),
    row(Key::ThrowOnCudamallocOom, "throw_on_cudamalloc_oom", Cuda, "False", FLAG,
        "A request that would exceed per_process_memory_fraction is refused before the driver is asked and before anything \
         is released."),
    row(Key::ExpandableSegmentsReserve, "expandable_segments_reserve", Cuda, "9/8 of the device's memory",
        "a fraction of the device's memory such as 0.5, or a number of GiB such as 40G",
        "How much address space an expandable segment sets aside, which is also the largest single allocation."),
    row(Key::ExpandableSegmentsReserveByClass, "expandable_segments_reserve_by_class", Cuda, "none",
        "a list such as [decode:0.5,prefill:40G] of class names, each with a fraction of the device's memory or a number \
         of GiB",
        "The same for the streams of a named class."),
    row(Key::Preset, "preset", Millpond, "torch", "torch or millpond, as the first key",
        "Which defaults Millpond's own keys have: torch decides as PyTorch does, millpond turns on what Millpond does \
         better."),
    row(Key::RetryAfterSync, "retry_after_sync", Millpond, "False; True in preset:millpond", FLAG,
        "After the release that waits for the device, the free blocks are searched once more, so that no request fails \
         while a block that fits is free."),
    row(Key::PageReuse, "page_reuse", Millpond, "off; pressure in preset:millpond", "off, pressure or always",
        "Free pages inside expandable segments move to where they are needed: never, before a request would fail, or before \
         any new memory is made."),
    row(Key::PageSizeMb, "page_size_mb", Millpond, "large_segment_size_mb",
        "an even number of MiB, 2 or more",
        "The size of a page of large expandable segments."),
    row(Key::PinnedSizeClasses, "pinned_size_classes", Millpond, "False; True in preset:millpond", FLAG,
        "Pinned requests are rounded up to an eighth of a power of two instead of to a power of two."),
];

impl Key {
    /// Every key.
    pub fn all() -> impl Iterator<Item = Key> {
        ROWS.iter().map(|row| row.key)
    }

    /// The key of that name or alias. Keys are case-sensitive (R10.6).
    pub fn find(name: &str) -> Option<Key> {
        match name {
            "release_lock_on_hipmalloc" => Some(Key::ReleaseLockOnCudamalloc),
            "pinned_use_hip_host_register" => Some(Key::PinnedUseCudaHostRegister),
            name => ROWS.iter().find(|row| row.name == name).map(|row| row.key),
        }
    }

    /// The name it is written with.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Who reads it.
    pub fn owner(self) -> Owner {
        self.row().owner
    }

    /// The value when it is not written, in words.
    pub fn default_text(self) -> &'static str {
        self.row().default
    }

    /// What may be written, as the end of the sentence "allowed is …".
    pub fn allowed(self) -> &'static str {
        self.row().allowed
    }

    /// What it does, in one or two sentences.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// The words that may be written, when the value is one of a few words.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Key::Backend => &["native", "cudaMallocAsync"],
            Key::Preset => &["torch", "millpond"],
            Key::PageReuse => &["off", "pressure", "always"],
            key if key.allowed() == FLAG => &["True", "False"],
            _ => &[],
        }
    }

    /// The form of its value.
    pub fn form(self) -> Form {
        match self {
            Key::GarbageCollectionThreshold | Key::PerProcessMemoryFraction => Form::Real,
            Key::ExpandableSegmentsReserve | Key::ExpandableSegmentsReserveByClass => Form::Reserve,
            key if key.words().is_empty() => Form::Whole,
            _ => Form::Word,
        }
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_3_rows_stand_in_the_order_of_the_keys() {
        for (index, key) in Key::all().enumerate() {
            assert_eq!(key as usize, index);
            assert_eq!(Key::find(key.name()), Some(key));
        }
    }

    #[test]
    fn r10_12_pytorch_has_exactly_twenty_keys_and_two_aliases() {
        let owned = |owner| Key::all().filter(|key| key.owner() == owner).count();
        assert_eq!((owned(Generic), owned(Cuda), owned(Millpond)), (9, 11, 5));
        assert_eq!(Key::find("release_lock_on_hipmalloc"), Some(Key::ReleaseLockOnCudamalloc));
        assert_eq!(Key::find("pinned_use_hip_host_register"), Some(Key::PinnedUseCudaHostRegister));
        for name in ["expandable_segments_handle_type", "roundup_bypass_threshold_mb", "Backend", ""] {
            assert_eq!(Key::find(name), None, "{name}");
        }
    }

    #[test]
    fn r10_6_keys_that_take_a_word_know_their_words() {
        let flags = Key::all().filter(|key| key.words() == ["True", "False"]).count();
        assert_eq!(flags, 9);
    }
}
