//! When two snapshots say the same: ids are those of each one's own tables.

use crate::model::{Annotation, Block, Extra, Segment, Snapshot};
use crate::notes::{Notes, NotesId};
use crate::settings::Settings;
use crate::stacks::{Frame, FrameId, StackId};
use crate::trace::TraceEntry;
use crate::values::{Plain, ValueId};

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        let ids = Translation::new(other, self);
        // All fields are named, so that one that is added is not forgotten here.
        let Self {
            segments,
            device_traces,
            settings,
            annotations,
            host_segments,
            host_traces,
            extra,
            stacks: _,
            notes: _,
            values: _,
        } = self;
        all(segments, &other.segments, |a, b| ids.segment(a, b))
            && all(device_traces, &other.device_traces, |a, b| all(a, b, |a, b| ids.entry(a, b)))
            && ids.settings(settings, &other.settings)
            && all(annotations, &other.annotations, |a, b| ids.annotation(a, b))
            && all(host_segments, &other.host_segments, |a, b| ids.segment(a, b))
            && all(host_traces, &other.host_traces, |a, b| ids.entry(a, b))
            && ids.extra(extra, &other.extra)
    }
}

fn all<T>(a: &[T], b: &[T], is_same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}

/// From the ids of one snapshot to those of another; `None` for what the other does not have.
struct Translation {
    values: Vec<Option<ValueId>>,
    stacks: Vec<Option<StackId>>,
    notes: Vec<Option<NotesId>>,
}

impl Translation {
    fn new(from: &Snapshot, to: &Snapshot) -> Self {
        let mut ids = Self { values: Vec::new(), stacks: Vec::new(), notes: Vec::new() };
        // A value's members come before it, so theirs are known.
        for id in from.values.iter() {
            let value = match from.values.get(id) {
                Plain::List(items) => ids.members(items, to, |items| Plain::List(items)),
                Plain::Tuple(items) => ids.members(items, to, |items| Plain::Tuple(items)),
                Plain::Dict(items) => ids.members(items, to, |items| Plain::Dict(items)),
                scalar => to.values.find(scalar),
            };
            ids.values.push(value);
        }
        let frames = from.stacks.all_frames().iter();
        let frames: Vec<Option<FrameId>> = frames.map(|frame| to.stacks.find_frame(&ids.frame(frame)?)).collect();
        for id in from.stacks.iter() {
            let stack = from.stacks.ids(id).iter();
            let stack: Option<Vec<FrameId>> = stack.map(|frame| frames[frame.index()]).collect();
            let found = stack.and_then(|stack| to.stacks.find_ids(&stack));
            ids.stacks.push(found);
        }
        for notes in from.notes.all() {
            let found = ids.note(notes).and_then(|notes| to.notes.find(&notes));
            ids.notes.push(found);
        }
        ids
    }

    fn members(
        &self,
        items: &[ValueId],
        to: &Snapshot,
        container: for<'a> fn(&'a [ValueId]) -> Plain<'a>,
    ) -> Option<ValueId> {
        let items: Option<Vec<ValueId>> = items.iter().map(|&id| self.value(id)).collect();
        to.values.find(container(&items?))
    }

    fn value(&self, id: ValueId) -> Option<ValueId> {
        self.values.get(id.index()).copied().flatten()
    }

    fn pairs(&self, extra: &Extra) -> Option<Extra> {
        let pair = |&(key, value): &_| Some((self.value(key)?, self.value(value)?));
        extra.iter().map(pair).collect()
    }

    fn frame(&self, frame: &Frame) -> Option<Frame> {
        Some(Frame { extra: self.pairs(&frame.extra)?, ..frame.clone() })
    }

    fn note(&self, notes: &Notes) -> Option<Notes> {
        Some(Notes { extra: self.pairs(&notes.extra)?, ..notes.clone() })
    }

    // Of each of these the second is in the ids that are translated.

    fn extra(&self, a: &Extra, b: &Extra) -> bool {
        self.pairs(b).as_ref() == Some(a)
    }

    fn stack(&self, a: StackId, b: StackId) -> bool {
        self.stacks.get(b.index()).copied().flatten() == Some(a)
    }

    fn entry(&self, a: &TraceEntry, b: &TraceEntry) -> bool {
        let stacks = match (a.stack, b.stack) {
            (Some(a), Some(b)) => self.stack(a, b),
            (a, b) => a == b,
        };
        let notes = self.notes.get(b.notes.index()).copied().flatten();
        let ours = TraceEntry { stack: a.stack, notes: a.notes, ..*b };
        stacks && notes == Some(a.notes) && ours == *a
    }

    fn segment(&self, a: &Segment, b: &Segment) -> bool {
        let Segment {
            device,
            address,
            total_size,
            allocated_size,
            active_size,
            requested_size,
            stream,
            segment_type,
            pool,
            is_expandable,
            stack,
            blocks,
            extra,
        } = a;
        *device == b.device
            && *address == b.address
            && *total_size == b.total_size
            && *allocated_size == b.allocated_size
            && *active_size == b.active_size
            && *requested_size == b.requested_size
            && *stream == b.stream
            && *segment_type == b.segment_type
            && *pool == b.pool
            && *is_expandable == b.is_expandable
            && self.stack(*stack, b.stack)
            && all(blocks, &b.blocks, |a, b| self.block(a, b))
            && self.extra(extra, &b.extra)
    }

    fn block(&self, a: &Block, b: &Block) -> bool {
        let Block { address, size, requested_size, state, stack, extra } = a;
        *address == b.address
            && *size == b.size
            && *requested_size == b.requested_size
            && *state == b.state
            && self.stack(*stack, b.stack)
            && self.extra(extra, &b.extra)
    }

    fn annotation(&self, a: &Annotation, b: &Annotation) -> bool {
        let Annotation { name, stage, device, time_us, extra } = a;
        *name == b.name
            && *stage == b.stage
            && *device == b.device
            && *time_us == b.time_us
            && self.extra(extra, &b.extra)
    }

    fn settings(&self, a: &Settings, b: &Settings) -> bool {
        // By its bits: a threshold that is no number still equals itself.
        let threshold = |settings: &Settings| settings.garbage_collection_threshold.map(f64::to_bits);
        let rest = |settings: &Settings| Settings {
            garbage_collection_threshold: None,
            extra: Extra::new(),
            ..settings.clone()
        };
        threshold(a) == threshold(b) && rest(a) == rest(b) && self.extra(&a.extra, &b.extra)
    }
}
