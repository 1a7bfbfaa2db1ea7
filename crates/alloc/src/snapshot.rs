//! A snapshot of the allocator in PyTorch's form (sections 9.1–9.5 of the law).

use std::sync::Arc;

use millpond_driver::{Device, Stream};
use millpond_snapshot::{
    Action as Word, Block, BlockState as SavedState, Notes, Segment, SegmentType, Settings as SettingsDict, Snapshot,
    StackId, TimeUs, TraceEntry,
};
use rustc_hash::FxHashMap;

use crate::allocator::Allocator;
use crate::caller::Stack;
use crate::config::Settings;
use crate::device::Happened;
use crate::event::{Action, Event};
use crate::pool::PoolKey;
use crate::private::PoolId;
use crate::size::SizeClass;
use crate::view::{BlockState, BlockUse, SegmentState};

impl Allocator {
    /// The state of all pools, or of one memory pool, and with `traces` the history (R9.1–R9.10). One cut through all
    /// pools; the snapshot itself is built after the locks are gone. Pinned memory of the world's host caches is in it too,
    /// of those that keep a history (R9.16).
    pub fn snapshot(&self, only: Option<PoolId>, traces: bool) -> Snapshot {
        let core = &self.core;
        let (segments, settings, history) = {
            let mut held = core.hold();
            let segments = held.segments(only);
            let active = segments.iter().flat_map(|segment| &segment.blocks);
            let active = active.filter(|block| matches!(block.state, BlockUse::Live | BlockUse::Pending));
            let active = active.map(|block| block.size).sum();
            // The trace is copied before the snapshot's own entry (R9.10).
            let history = if traces { held.history() } else { Vec::new() };
            let stream = Stream::default_of(Device(0));
            let key = PoolKey { memory_pool: only.unwrap_or_default(), class: SizeClass::Small, stream };
            core.emit(Happened::new(Action::Snapshot, 0, active, key), None);
            (segments, Arc::clone(&held.ladder.settings), history)
        };
        core.journal.deliver();

        let mut snapshot = Snapshot { settings: settings_dict(&settings), ..Snapshot::default() };
        let mut stacks = Interned::default();
        let ranges = segments
            .iter()
            .flat_map(|segment| mapped_ranges(segment, only.is_some()).map(move |range| (segment, range)));
        let device = core.device.0 as i32;
        snapshot.segments =
            ranges.map(|(segment, range)| build(device, segment, range, &mut snapshot, &mut stacks)).collect();
        let entries = history.into_iter().map(|event| entry(event, &mut snapshot, &mut stacks)).collect();
        snapshot.device_traces = vec![Vec::new(); core.device.0 as usize];
        snapshot.device_traces.push(entries);
        core.world.host_caches().iter().for_each(|cache| cache.write_into(&mut snapshot, traces));
        snapshot
    }
}

/// The contiguous mapped ranges of a segment: each is a segment of the snapshot (R9.4). The form per memory pool starts only
/// from segment heads, so that ranges behind unmapped pages are missing (R9.6).
fn mapped_ranges(segment: &SegmentState, heads_only: bool) -> impl Iterator<Item = &[BlockState]> {
    let runs = segment.blocks.chunk_by(|a, b| (a.state == BlockUse::Unmapped) == (b.state == BlockUse::Unmapped));
    let runs = runs.take(if heads_only { 1 } else { usize::MAX });
    runs.filter(|run| run[0].state != BlockUse::Unmapped)
}

/// Stacks that were interned already, by identity: one look per stack, not per block.
#[derive(Default)]
pub(crate) struct Interned(FxHashMap<usize, (Stack, StackId)>);

impl Interned {
    pub fn id(&mut self, stack: &Option<Stack>, snapshot: &mut Snapshot) -> StackId {
        let Some(stack) = stack else { return StackId::default() };
        let key = Arc::as_ptr(stack).cast::<()>() as usize;
        // Keeping the stack keeps its address from being used again.
        self.0.entry(key).or_insert_with(|| (Arc::clone(stack), snapshot.stacks.intern(stack))).1
    }
}

fn build(
    device: i32,
    segment: &SegmentState,
    range: &[BlockState],
    snapshot: &mut Snapshot,
    stacks: &mut Interned,
) -> Segment {
    let sum = |counts: fn(&BlockState) -> u64| range.iter().map(counts).sum();
    Segment {
        device,
        address: range[0].addr,
        total_size: sum(|block| block.size),
        allocated_size: sum(|block| if block.state == BlockUse::Live { block.size } else { 0 }),
        active_size: sum(|block| if block.state == BlockUse::Free { 0 } else { block.size }),
        requested_size: sum(|block| if block.state == BlockUse::Free { 0 } else { block.requested }),
        stream: segment.stream.raw,
        segment_type: match segment.class {
            SizeClass::Small => SegmentType::Small,
            SizeClass::Large => SegmentType::Large,
        },
        pool: Some((segment.pool.0, segment.pool.1).into()),
        is_expandable: segment.expandable,
        stack: stacks.id(&segment.stack, snapshot),
        blocks: range
            .iter()
            .map(|block| Block {
                address: block.addr,
                size: block.size,
                requested_size: block.requested,
                state: match block.state {
                    BlockUse::Live => SavedState::ActiveAllocated,
                    BlockUse::Pending => SavedState::ActivePendingFree,
                    BlockUse::Free | BlockUse::Unmapped => SavedState::Inactive,
                },
                stack: stacks.id(&block.stack, snapshot),
                ..Block::default()
            })
            .collect(),
        ..Segment::default()
    }
}

pub(crate) fn entry(event: Event, snapshot: &mut Snapshot, stacks: &mut Interned) -> TraceEntry {
    let notes = Notes {
        compile_context: Some(event.compile_context.unwrap_or_else(|| "N/A".into())),
        user_metadata: Some(event.metadata.unwrap_or_else(|| "".into())),
        internal_metadata: event.internal.map(Into::into),
        ..Notes::default()
    };
    TraceEntry {
        action: Word::from_word(event.action.name()).unwrap_or(Word::Other),
        addr: event.addr,
        size: event.size,
        stream: event.stream.raw,
        time_us: Some(TimeUs::new(event.time_us)),
        pool: Some((event.pool.0, event.pool.1).into()),
        stack: event.stack.is_some().then(|| stacks.id(&event.stack, snapshot)),
        notes: snapshot.notes.intern(notes),
    }
}

/// `allocator_settings` (R9.14).
pub(crate) fn settings_dict(settings: &Settings) -> SettingsDict {
    SettingsDict {
        conf: Some(settings.text.clone()),
        max_split_size: Some(settings.max_split_size as i64),
        garbage_collection_threshold: Some(settings.garbage_collection_threshold),
        expandable_segments: Some(settings.expandable_segments),
        pinned_num_register_threads: Some(settings.pinned_num_register_threads as i64),
        release_lock_on_cudamalloc: Some(settings.release_lock_on_cudamalloc),
        pinned_use_cuda_host_register: Some(settings.pinned_use_cuda_host_register),
        graph_capture_record_stream_reuse: Some(settings.graph_capture_record_stream_reuse),
        max_round_threshold: Some(settings.pinned_max_round_threshold as i64),
        max_cached_size: Some(settings.pinned_max_cached_size as i64),
        roundup_power2_divisions: (0..).map(|k| 1 << k).zip(settings.roundup_power2_divisions).collect(),
        ..SettingsDict::default()
    }
}
