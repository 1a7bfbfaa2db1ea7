//! Every setting, as a value.

use std::collections::BTreeMap;

/// Which set of defaults is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// PyTorch's decisions, to the byte.
    #[default]
    Torch,
    /// What Millpond does better is on.
    Millpond,
}

impl Preset {
    /// Gives Millpond's own keys their defaults. What Millpond does better than PyTorch is listed here and nowhere else;
    /// PyTorch's keys are not touched.
    pub(super) fn set_defaults(self, settings: &mut Settings) {
        let is_better = self == Preset::Millpond;
        settings.preset = self;
        settings.retry_after_sync = is_better;
        settings.page_reuse = if is_better { PageReuse::Pressure } else { PageReuse::Off };
        settings.page_size = 0;
        settings.pinned_size_classes = is_better;
    }
}

/// Which allocator answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The caching allocator.
    #[default]
    Native,
    /// The driver's own pools (`cudaMallocAsync`).
    CudaMallocAsync,
}

impl Backend {
    /// The name it has in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Native => "native",
            Backend::CudaMallocAsync => "cudaMallocAsync",
        }
    }
}

/// How much address space an expandable segment reserves (R4.25).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reserve {
    /// A fraction of the device's memory; above 1 is legal.
    Fraction(f64),
    /// A number of GiB.
    GiB(f64),
}

impl Reserve {
    /// The reserve in bytes on a device of `total` bytes: truncated, saturating (R4.25).
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            // A float to integer cast truncates and saturates.
            Reserve::Fraction(fraction) => (fraction * total as f64) as u64,
            Reserve::GiB(gib) => (gib * (1u64 << 30) as f64) as u64,
        }
    }
}

/// Whether free pages move to where they are needed (`page_reuse`, Millpond's own).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageReuse {
    /// Never, as PyTorch.
    #[default]
    Off,
    /// Before a request would fail.
    Pressure,
    /// Before any new physical memory is made.
    Always,
}

/// Every setting of the allocator (section 10 of the law). Sizes are bytes; `u64::MAX` stands for unlimited.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `preset` (Millpond's own).
    pub preset: Preset,
    /// `large_segment_size_mb`: the segment for requests of 1 to 10 MiB, and the page of large expandable segments (R1.1).
    pub large_segment_size: u64,
    /// `max_split_size_mb`: blocks of this size or more are not split (R1.14, R1.25).
    pub max_split_size: u64,
    /// `max_non_split_rounding_mb`: how much larger an oversize block may be than its request (R1.25).
    pub max_non_split_rounding: u64,
    /// `garbage_collection_threshold`: fraction of the limit above which old blocks are released; 0 is off (R2.18).
    pub garbage_collection_threshold: f64,
    /// `roundup_power2_divisions` for the sixteen intervals from below 2 MiB to 32 GiB and more; 0 is off (R1.3).
    pub roundup_power2_divisions: [u64; 16],
    /// `expandable_segments` (section 4).
    pub expandable_segments: bool,
    /// `expandable_segments_reserve` (R4.25).
    pub expandable_segments_reserve: Option<Reserve>,
    /// `expandable_segments_reserve_by_class` (R4.26).
    pub expandable_segments_reserve_by_class: BTreeMap<String, Reserve>,
    /// `backend`.
    pub backend: Backend,
    /// `release_lock_on_cudamalloc` (R2.15).
    pub release_lock_on_cudamalloc: bool,
    /// `graph_capture_record_stream_reuse` (section 5.9).
    pub graph_capture_record_stream_reuse: bool,
    /// `per_process_memory_fraction`: 0 to 1 (R2.39, R2.40).
    pub per_process_memory_fraction: f64,
    /// `throw_on_cudamalloc_oom` (R2.40).
    pub throw_on_cudamalloc_oom: bool,
    /// `pinned_use_background_threads` (R7.8).
    pub pinned_use_background_threads: bool,
    /// `pinned_max_round_threshold_mb` (R7.6).
    pub pinned_max_round_threshold: u64,
    /// `pinned_max_cached_size_mb` (R7.18).
    pub pinned_max_cached_size: u64,
    /// `pinned_use_cuda_host_register` (R7.10).
    pub pinned_use_cuda_host_register: bool,
    /// `pinned_num_register_threads` (R7.11).
    pub pinned_num_register_threads: u64,
    /// `pinned_reserve_segment_size_mb`; 0 is off (R7.13).
    pub pinned_reserve_segment_size: u64,
    /// `pinned_free_catch_all` (R7.19).
    pub pinned_free_catch_all: bool,
    /// `pinned_size_classes` (Millpond's own): eighths of a power of two instead of powers of two for pinned memory.
    pub pinned_size_classes: bool,
    /// `retry_after_sync` (Millpond's own): after the synchronising release the pool is searched once more, so that no OOM
    /// is raised while a fitting block is free (PyTorch does: L1).
    pub retry_after_sync: bool,
    /// `page_reuse` (Millpond's own).
    pub page_reuse: PageReuse,
    /// `page_size_mb` (Millpond's own): bytes of an expandable page of large pools; 0: `large_segment_size`.
    pub page_size: u64,
    /// The last settings string that was applied, whatever its source (R9.14).
    pub text: String,
}

/// One MiB in bytes, the unit of the `_mb` keys.
pub(crate) const MIB: u64 = 1 << 20;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            preset: Preset::Torch,
            large_segment_size: 20 * MIB,
            max_split_size: u64::MAX,
            max_non_split_rounding: 20 * MIB,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; 16],
            expandable_segments: false,
            expandable_segments_reserve: None,
            expandable_segments_reserve_by_class: BTreeMap::new(),
            backend: Backend::Native,
            release_lock_on_cudamalloc: false,
            graph_capture_record_stream_reuse: false,
            per_process_memory_fraction: 1.0,
            throw_on_cudamalloc_oom: false,
            pinned_use_background_threads: false,
            pinned_max_round_threshold: u64::MAX,
            pinned_max_cached_size: u64::MAX,
            pinned_use_cuda_host_register: false,
            pinned_num_register_threads: 1,
            pinned_reserve_segment_size: 0,
            pinned_free_catch_all: false,
            pinned_size_classes: false,
            retry_after_sync: false,
            page_reuse: PageReuse::Off,
            page_size: 0,
            text: String::new(),
        }
    }
}
