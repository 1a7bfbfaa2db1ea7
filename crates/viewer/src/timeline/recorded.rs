//! The timeline of a snapshot's device, as it was recorded.

use millpond::size::{self, SizeClass};
use millpond::{Action, PoolId};
use millpond_replay::snapshot::Recording;
use millpond_snapshot::{Action as Word, TraceEntry};

use super::Timeline;
use super::builder::{Builder, Told};

/// The trace of a device over the state in which it began. Requests are counted by the entries of the trace.
pub fn recorded(recording: &Recording<'_>) -> Timeline {
    let trace = recording.snapshot.trace(recording.device);
    // Some tools write no completions at all.
    let completions = trace.iter().any(|entry| entry.action == Word::FreeCompleted);
    let mut builder = Builder::completing_at_once(!completions);
    let (segments, bases) = recording.start_segments(&recording.settings, recording.capacity());
    let stacks = recording.start_stacks();
    builder.start(&segments, |addr| stacks.get(&addr).copied().unwrap_or_default());
    let reserve = segments.iter().filter(|segment| segment.expandable).map(|segment| segment.size).max();
    let sizes = recording.block_sizes();
    let classes = classes(trace);
    for (index, entry) in trace.iter().enumerate() {
        let (first, second) = entry.pool.unwrap_or_default().pair();
        let pool = PoolId(first, second);
        let told = Told {
            at: index as u32,
            action: action(entry.action),
            addr: entry.addr,
            size: entry.size,
            block_size: sizes[index],
            stream: entry.stream,
            pool,
            class: classes[index],
            stack: entry.stack.unwrap_or_default(),
            time_us: entry.time_us.map(|time| time.get()),
        };
        builder.tell(told, |addr| {
            let base = bases.base_of(addr, entry.stream, pool).unwrap_or(addr);
            let (full, _) = recording.settings.reserve_for(None, recording.capacity().0);
            (base, reserve.unwrap_or(full).max(addr - base + entry.size))
        });
    }
    builder.finish()
}

/// The class that each entry is about: new memory is for the request that comes next.
fn classes(trace: &[TraceEntry]) -> Vec<SizeClass> {
    let mut next = SizeClass::Large;
    let mut classes: Vec<SizeClass> = trace
        .iter()
        .rev()
        .map(|entry| match entry.action {
            Word::SegmentAlloc | Word::SegmentMap => next,
            Word::SegmentFree if entry.size != size::SMALL_SEGMENT => SizeClass::Large,
            _ => {
                let class = class_of(entry.size);
                if matches!(entry.action, Word::Alloc | Word::Oom) {
                    next = class;
                }
                class
            }
        })
        .collect();
    classes.reverse();
    classes
}

/// The class of a request (R1.9): rounding never takes it over the border.
pub(super) fn class_of(requested: u64) -> SizeClass {
    SizeClass::of(requested)
}

fn action(word: Word) -> Action {
    match word {
        Word::Alloc => Action::Alloc,
        Word::FreeRequested => Action::FreeRequested,
        Word::FreeCompleted => Action::FreeCompleted,
        Word::SegmentAlloc => Action::SegmentAlloc,
        Word::SegmentFree => Action::SegmentFree,
        Word::SegmentMap => Action::SegmentMap,
        Word::SegmentUnmap => Action::SegmentUnmap,
        Word::Oom => Action::Oom,
        // A word of a later PyTorch changes nothing that is known here.
        Word::Snapshot | Word::Other => Action::Snapshot,
        Word::Annotate => Action::Annotate,
    }
}
