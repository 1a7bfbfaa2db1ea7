//! Rows, frames and stacks, made into dicts and lists again where an unknown key holds them.

use super::keys::Key;
use crate::model::Extra;
use crate::notes::NotesTable;
use crate::pickle::arena::Kind;
use crate::pickle::import::{Frames, Unfold};
use crate::stacks::{FrameId, StackId, Stacks};
use crate::trace::{Action, TraceEntry};
use crate::values::{ValueId, Values};

/// What rows, frames and stacks are as plain values.
pub(crate) struct Unfolder<'a> {
    pub rows: &'a [TraceEntry],
    pub stacks: &'a Stacks,
    pub notes: &'a NotesTable,
}

impl Unfold for Unfolder<'_> {
    fn unfold(&self, kind: Kind, values: &mut Values, frames: &mut Frames) -> (ValueId, usize) {
        match kind {
            Kind::Row(row) => match self.rows.get(row as usize) {
                Some(row) => self.row(row, values, frames),
                None => (values.none(), 0),
            },
            Kind::Frame(frame) => self.frame(frame, values, frames),
            Kind::Stack(stack) => self.stack(stack, values, frames),
            Kind::List | Kind::Tuple | Kind::Dict => (values.none(), 0),
        }
    }
}

impl Unfolder<'_> {
    fn row(&self, row: &TraceEntry, values: &mut Values, frames: &mut Frames) -> (ValueId, usize) {
        let notes = self.notes.get(row.notes);
        let mut pairs = Pairs::default();
        let action = notes.action.as_deref().unwrap_or(row.action.as_str());
        pairs.text(values, Key::Action, action);
        let figure = match row.action {
            Action::Oom => Key::DeviceFree,
            _ => Key::Addr,
        };
        pairs.int(values, figure, row.addr);
        pairs.int(values, Key::Size, row.size);
        pairs.int(values, Key::Stream, row.stream);
        if let Some(time) = row.time_us {
            pairs.int(values, Key::TimeUs, time.get());
        }
        for (key, text) in notes.texts() {
            if let Some(text) = text {
                pairs.text(values, key, text);
            }
        }
        if let Some(pool) = row.pool {
            let (first, second) = pool.pair();
            let halves = [values.int(first), values.int(second)];
            let pool = values.tuple(&halves);
            pairs.value(values, Key::PoolId, pool);
        }
        if let Some(stack) = row.stack {
            let (stack, cost) = self.stack(stack, values, frames);
            pairs.value(values, Key::Frames, stack);
            pairs.cost += cost;
        }
        pairs.extra(&notes.extra);
        pairs.dict(values)
    }

    fn stack(&self, stack: StackId, values: &mut Values, frames: &mut Frames) -> (ValueId, usize) {
        let ids = self.stacks.ids(stack);
        let mut cost = size_of_val(ids);
        let mut members = Vec::with_capacity(ids.len());
        for &id in ids {
            let (frame, more) = self.frame(id, values, frames);
            members.push(frame);
            cost += more;
        }
        (values.list(&members), cost)
    }

    fn frame(&self, id: FrameId, values: &mut Values, frames: &mut Frames) -> (ValueId, usize) {
        if let Some(&known) = frames.get(&id) {
            return (known, 0);
        }
        let Some(frame) = self.stacks.frame(id) else {
            return (values.none(), 0);
        };
        let mut pairs = Pairs::default();
        pairs.text(values, Key::Name, &frame.name);
        pairs.text(values, Key::Filename, &frame.filename);
        pairs.int(values, Key::Line, frame.line);
        for (key, text) in frame.fx.iter().flat_map(|fx| fx.texts()) {
            if let Some(text) = text {
                pairs.text(values, key, text);
            }
        }
        pairs.extra(&frame.extra);
        let (value, cost) = pairs.dict(values);
        frames.insert(id, value);
        (value, cost)
    }
}

/// The keys and values of a dict that is being made.
#[derive(Default)]
struct Pairs {
    pairs: Vec<ValueId>,
    /// Bytes looked at.
    cost: usize,
}

impl Pairs {
    fn value(&mut self, values: &mut Values, key: Key, value: ValueId) {
        self.pairs.extend([values.str(key.as_str()), value]);
        self.cost += 8;
    }

    fn text(&mut self, values: &mut Values, key: Key, text: &str) {
        let value = values.str(text);
        self.value(values, key, value);
        self.cost += text.len();
    }

    fn int(&mut self, values: &mut Values, key: Key, value: impl Into<i128>) {
        let value = values.int(value);
        self.value(values, key, value);
    }

    fn extra(&mut self, extra: &Extra) {
        self.pairs.extend(extra.iter().flat_map(|&(key, value)| [key, value]));
    }

    fn dict(self, values: &mut Values) -> (ValueId, usize) {
        (values.dict(&self.pairs), self.cost)
    }
}
