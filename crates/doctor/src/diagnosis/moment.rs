//! The moment that a diagnosis is about, and the state of the device then.

use millpond::size::SizeClass;
use millpond::{PoolId, SegmentState};
use millpond_driver::Device;
use millpond_replay::snapshot::{Bases, Recording, State, is_memory};
use millpond_snapshot::{Action, TraceEntry};
use serde::Serialize;

use crate::frames::lines;

/// Which moment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The first out-of-memory error of the trace.
    Oom,
    /// Nothing failed: reserved memory stands at its peak, and of that time live blocks at theirs.
    Peak,
    /// There is no trace: the state that the file holds.
    State,
}

/// What happened, and when. Microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Which one.
    pub when: When,
    /// The trace entry after which it is.
    pub entry: Option<usize>,
    /// How many entries the trace has.
    pub entries: usize,
    /// Since the first entry of the trace, where entries have times.
    pub after_us: Option<u64>,
    /// Out-of-memory errors in the trace; the moment is that of the first.
    pub ooms: u64,
    /// The pool that was asked; without an error the pool that holds most. It decides what every free byte is worth.
    pub pool: PoolKey,
    /// Where in the program the request came from, innermost first.
    pub stack: Vec<String>,
}

/// What keeps free blocks apart: the stream, the size class and the memory pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PoolKey {
    /// The stream's raw handle; 0 is the default stream.
    pub stream: u64,
    /// The size class.
    #[serde(serialize_with = "by_name")]
    pub class: SizeClass,
    /// The memory pool; (0, 0) is the default one.
    #[serde(serialize_with = "as_pair")]
    pub pool: PoolId,
}

fn by_name<S: serde::Serializer>(class: &SizeClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.name())
}

fn as_pair<S: serde::Serializer>(pool: &PoolId, serializer: S) -> Result<S::Ok, S::Error> {
    [pool.0, pool.1].serialize(serializer)
}

impl PoolKey {
    /// That of a segment.
    pub fn of(segment: &SegmentState) -> Self {
        PoolKey { stream: segment.stream.raw, class: segment.class, pool: segment.pool }
    }
}

/// What a device held at a moment. Bytes.
#[derive(Clone, Debug)]
pub struct Held {
    /// Everything held from the driver, by address; every mapped range of an expandable segment is one of its own.
    pub segments: Vec<SegmentState>,
    /// What segments hold beyond the blocks that the file lists.
    pub unlisted: u64,
}

impl Moment {
    /// The moment of a recording that matters most, and what was held then.
    pub fn of(recording: &Recording<'_>) -> (Self, Held) {
        let trace = recording.snapshot.trace(recording.device);
        let (when, entry) = match (recording.first_oom, trace) {
            (Some(oom), _) => (When::Oom, Some(oom.entry)),
            (None, []) => (When::State, None),
            (None, _) => (When::Peak, Some(peak(recording))),
        };
        let segments = after(recording, entry);
        let at = entry.map(|entry| &trace[entry]);
        let failed = at.filter(|entry| entry.action == Action::Oom);
        let started = trace.first().and_then(|entry| entry.time_us);
        let moment = Moment {
            when,
            entry,
            entries: trace.len(),
            after_us: at
                .and_then(|entry| entry.time_us)
                .and_then(|time| Some(time.get().saturating_sub(started?.get()))),
            ooms: trace.iter().filter(|entry| entry.action == Action::Oom).count() as u64,
            pool: failed.map_or_else(|| largest(&segments), asked),
            stack: failed.and_then(|oom| oom.stack).map_or(Vec::new(), |stack| lines(recording.snapshot, stack)),
        };
        (moment, Held { segments, unlisted: unlisted(recording) })
    }
}

impl Held {
    /// What the file lists.
    pub fn at_the_end(recording: &Recording<'_>) -> Self {
        Held { segments: after(recording, None), unlisted: unlisted(recording) }
    }
}

/// What was held after an entry of the trace, or in the end.
fn after(recording: &Recording<'_>, entry: Option<usize>) -> Vec<SegmentState> {
    let last = State::last(recording.snapshot, recording.device, &recording.settings);
    let trace = recording.snapshot.trace(recording.device);
    let state = last.rewind(entry.map_or(&[], |entry| &trace[entry + 1..]));
    // Without room beyond what is mapped, every mapped range is a segment of its own.
    state.segments(Device(0), &Bases::default(), |_| (0, 1))
}

/// The pool that a failed request asked.
fn asked(oom: &TraceEntry) -> PoolKey {
    let (first, second) = oom.pool.unwrap_or_default().pair();
    PoolKey { stream: oom.stream, class: SizeClass::of(oom.size), pool: PoolId(first, second) }
}

/// The first entry after which reserved memory, and with it what live blocks hold, is at its highest.
fn peak(recording: &Recording<'_>) -> usize {
    let mut reserved = recording.start.reserved();
    let mut held = 0i64;
    let mut highest = (0, i64::MIN);
    let mut at = 0;
    for (index, entry) in recording.snapshot.trace(recording.device).iter().enumerate() {
        match entry.action {
            Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(entry.size),
            Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(entry.size),
            Action::Alloc => held = held.saturating_add_unsigned(entry.size),
            Action::FreeRequested => held = held.saturating_sub_unsigned(entry.size),
            _ => continue,
        }
        if (reserved, held) > highest {
            highest = (reserved, held);
            at = index;
        }
    }
    at
}

/// The pool that holds most.
fn largest(segments: &[SegmentState]) -> PoolKey {
    let mut sums: Vec<(PoolKey, u64)> = Vec::new();
    for segment in segments {
        let key = PoolKey::of(segment);
        match sums.iter_mut().find(|(known, _)| *known == key) {
            Some((_, sum)) => *sum += segment.mapped(),
            None => sums.push((key, segment.mapped())),
        }
    }
    let most = sums.into_iter().max_by_key(|&(_, sum)| sum).map(|(key, _)| key);
    most.unwrap_or(PoolKey { stream: 0, class: SizeClass::Large, pool: PoolId::DEFAULT })
}

/// What segments hold beyond their blocks.
fn unlisted(recording: &Recording<'_>) -> u64 {
    let segments = recording.snapshot.segments.iter();
    let mine = segments.filter(|segment| usize::try_from(segment.device) == Ok(recording.device));
    let listed = |blocks: &[millpond_snapshot::Block]| blocks.iter().fold(0, |sum: u64, b| sum.saturating_add(b.size));
    let mine = mine.filter(|segment| is_memory(segment.address, segment.total_size));
    mine.fold(0, |sum: u64, segment| sum.saturating_add(segment.total_size.saturating_sub(listed(&segment.blocks))))
}
