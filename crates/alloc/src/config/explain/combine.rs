//! What does not go together.

use crate::config::keys::{Key, Owner};
use crate::config::settings::{Backend, Settings};

use super::{Entry, Notice, NoticeKind};

/// What is to be said about settings of which `entries` are written.
pub(super) fn notices(settings: &Settings, entries: &[Entry]) -> Vec<Notice> {
    let written = |key| entries.iter().any(|entry| entry.key == key);
    let mut notices = Vec::new();
    let mut note = |kind, message: &str| notices.push(Notice { kind, at: None, message: message.into() });

    if settings.backend == Backend::CudaMallocAsync {
        let is_native = |entry: &Entry| entry.key != Key::Backend && entry.key.owner() != Owner::Millpond;
        if entries.iter().any(is_native) {
            note(
                NoticeKind::AsyncIgnores,
                "With backend:cudaMallocAsync the keys of the caching allocator do nothing: the driver's own pools answer.",
            );
        }
        return notices;
    }

    let has_limit = settings.per_process_memory_fraction < 1.0;
    if settings.garbage_collection_threshold > 0.0 && !has_limit {
        note(
            NoticeKind::ThresholdWithoutLimit,
            "garbage_collection_threshold is a fraction of the memory limit and does nothing without one: set \
             per_process_memory_fraction below 1.0, or call torch.cuda.set_per_process_memory_fraction.",
        );
    }
    if settings.throw_on_cudamalloc_oom && has_limit {
        note(
            NoticeKind::ThrowOnOom,
            "throw_on_cudamalloc_oom changes nothing beside a per_process_memory_fraction below 1.0 that is in force from the \
             start: the limit fails first, as an ordinary out-of-memory error with its retry. The refusal comes only when the \
             fraction is set later, by a settings string at run time.",
        );
    } else if settings.throw_on_cudamalloc_oom {
        note(
            NoticeKind::ThrowOnOom,
            "throw_on_cudamalloc_oom without per_process_memory_fraction refuses only what exceeds the whole device, also when \
             other processes have filled it before.",
        );
    }
    if written(Key::MaxNonSplitRoundingMb) && settings.max_split_size == u64::MAX {
        note(
            NoticeKind::RoundingWithoutMaxSplit,
            "max_non_split_rounding_mb is about blocks of max_split_size_mb and more, and does nothing without that key.",
        );
    }
    if settings.pinned_num_register_threads > 1 && !settings.pinned_use_cuda_host_register {
        note(
            NoticeKind::ThreadsWithoutRegister,
            "pinned_num_register_threads does nothing without pinned_use_cuda_host_register:True.",
        );
    }
    if settings.expandable_segments {
        with_expandable(settings, written, note);
    } else if written(Key::ExpandableSegmentsReserve) || written(Key::ExpandableSegmentsReserveByClass) {
        note(NoticeKind::ReserveWithoutExpandable, "A reserve does nothing without expandable_segments:True.");
    }
    notices
}

fn with_expandable(settings: &Settings, written: impl Fn(Key) -> bool, mut note: impl FnMut(NoticeKind, &str)) {
    note(
        NoticeKind::ExpandableWithCapture,
        "expandable_segments in a captured CUDA graph with NCCL: before Blackwell, set NCCL_GRAPH_REGISTER=0, or NCCL registers \
         memory whose pages may change under it.",
    );
    if settings.max_split_size != u64::MAX {
        note(
            NoticeKind::MaxSplitWithExpandable,
            "max_split_size_mb has no useful meaning with expandable_segments: expandable blocks are split down to 512 bytes whatever it \
             says, but a smaller request is kept away from larger blocks.",
        );
    }
    if settings.garbage_collection_threshold > 0.0 {
        note(
            NoticeKind::ThresholdWithExpandable,
            "garbage_collection_threshold does not touch expandable segments: it gives back only whole blocks of the other kind.",
        );
    }
    if settings.roundup_power2_divisions.iter().any(|&divisions| divisions > 1) {
        note(
            NoticeKind::RoundupWithExpandable,
            "roundup_power2_divisions mostly costs memory with expandable_segments: their blocks are cut to any size, so similar \
             sizes share memory without rounding.",
        );
    }
    if written(Key::LargeSegmentSizeMb) && settings.page_size == 0 {
        note(
            NoticeKind::LargeSegmentIsPage,
            "large_segment_size_mb is also the page of large expandable segments: memory is taken and given back in steps of \
             it.",
        );
    }
}
