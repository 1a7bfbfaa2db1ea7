//! From the arena to the table of plain values, without recursion and with sharing kept.

use rustc_hash::FxHashMap;

use super::arena::{Arena, Kind};
use super::error::PickleError;
use super::word::{Item, Word};
use crate::stacks::FrameId;
use crate::values::{ValueId, Values};

/// Turns containers that have been folded back into values.
pub(crate) trait Unfold {
    /// The value of what was folded to `kind`, and about how many bytes were looked at for it.
    fn unfold(&self, kind: Kind, values: &mut Values, frames: &mut Frames) -> (ValueId, usize);
}

/// The values of frames that have been unfolded.
pub(crate) type Frames = FxHashMap<FrameId, ValueId>;

/// For arenas in which nothing has been folded.
pub(crate) struct NothingFolded;

impl Unfold for NothingFolded {
    fn unfold(&self, _: Kind, values: &mut Values, _: &mut Frames) -> (ValueId, usize) {
        (values.none(), 0)
    }
}

/// A text or bytes longer than this is looked up by where it stands before it is read.
const LONG: usize = 32;

/// Imports words of one arena into one table; a container that comes twice is imported once.
#[derive(Default)]
pub(crate) struct Importer {
    /// What each container has become, by its number.
    done: Vec<Done>,
    /// Long texts and bytes by where they stand: one that is shared is read once.
    long: FxHashMap<Word, ValueId>,
    frames: Frames,
    tasks: Vec<Task>,
    members: Vec<ValueId>,
    /// Bytes looked at to unfold what was folded.
    unfolded: usize,
    /// What was wrong before: a file with a bad value stays bad, and it is not searched again.
    failed: Option<PickleError>,
}

/// How far a container is.
#[derive(Clone, Copy)]
enum Done {
    NotYet,
    /// Its members are being imported.
    Begun,
    As(ValueId),
}

/// A container whose members are being imported.
struct Task {
    node: u32,
    /// Members imported so far.
    next: u32,
    /// Where they begin in `members`.
    start: u32,
}

impl Importer {
    /// The value of `word`. `limit` bounds the bytes that the table and the work may take.
    ///
    /// # Errors
    ///
    /// A container that holds itself, a dict with a key that can change, or too much memory.
    pub fn import(
        &mut self,
        arena: &mut Arena<'_>,
        unfold: &impl Unfold,
        values: &mut Values,
        word: Word,
        limit: usize,
    ) -> Result<ValueId, PickleError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let done = self.run(arena, unfold, values, word, limit);
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }

    fn run(
        &mut self,
        arena: &mut Arena<'_>,
        unfold: &impl Unfold,
        values: &mut Values,
        word: Word,
        limit: usize,
    ) -> Result<ValueId, PickleError> {
        if let Some(id) = self.enter(arena, unfold, values, word, limit)? {
            return Ok(id);
        }
        loop {
            let Some(task) = self.tasks.last_mut() else {
                // The outermost task's value is the one asked for.
                return Ok(self.members.pop().unwrap_or_else(|| values.none()));
            };
            if let Some(&member) = arena.items(task.node).get(task.next as usize) {
                task.next += 1;
                if let Some(id) = self.enter(arena, unfold, values, member, limit)? {
                    self.members.push(id);
                }
                continue;
            }
            let (node, start) = (task.node, task.start as usize);
            let id = close(arena.kind(node), &self.members[start..], values)?;
            self.tasks.pop();
            self.members.truncate(start);
            self.members.push(id);
            self.done[node as usize] = Done::As(id);
            if arena.memory() + self.memory() + values.memory() > limit {
                return Err(PickleError::OutOfBounds);
            }
        }
    }

    /// The value of a word that is a scalar or has been imported; else begins its import.
    fn enter(
        &mut self,
        arena: &mut Arena<'_>,
        unfold: &impl Unfold,
        values: &mut Values,
        word: Word,
        limit: usize,
    ) -> Result<Option<ValueId>, PickleError> {
        let Item::Node(node) = word.item() else {
            return Ok(Some(self.scalar(arena, values, word)));
        };
        let place = node as usize;
        if place >= self.done.len() {
            self.done.resize(place + 1, Done::NotYet);
        }
        match self.done[place] {
            Done::As(id) => return Ok(Some(id)),
            Done::Begun => return Err(PickleError::SelfReference),
            Done::NotYet => {}
        }
        arena.mark_used(node);
        let kind = arena.kind(node);
        if matches!(kind, Kind::List | Kind::Tuple | Kind::Dict) {
            self.done[place] = Done::Begun;
            self.tasks.push(Task { node, next: 0, start: self.members.len() as u32 });
            return Ok(None);
        }
        let (id, unfolded) = unfold.unfold(kind, values, &mut self.frames);
        self.unfolded += unfolded;
        if self.unfolded > limit {
            return Err(PickleError::OutOfBounds);
        }
        self.done[place] = Done::As(id);
        Ok(Some(id))
    }

    fn scalar(&mut self, arena: &Arena<'_>, values: &mut Values, word: Word) -> ValueId {
        let len = match word.item() {
            Item::Text(position) => arena.text_bytes(position).len(),
            Item::Bytes(position) => arena.bytes(position).len(),
            _ => 0,
        };
        if len <= LONG {
            return scalar(arena, values, word);
        }
        let known = self.long.entry(word);
        *known.or_insert_with(|| scalar(arena, values, word))
    }

    /// Bytes held, about.
    pub fn memory(&self) -> usize {
        self.done.capacity() * size_of::<Done>()
            + self.long.capacity() * 17
            + self.frames.capacity() * 9
            + self.tasks.capacity() * size_of::<Task>()
            + self.members.capacity() * size_of::<ValueId>()
    }
}

fn scalar(arena: &Arena<'_>, values: &mut Values, word: Word) -> ValueId {
    match word.item() {
        Item::None | Item::Node(_) => values.none(),
        Item::Bool(value) => values.bool(value),
        Item::Int(value) => values.int(value),
        Item::BigInt(position) => values.int(arena.big_int(position)),
        Item::Float(position) => values.float(arena.float(position)),
        Item::Text(position) => values.str(arena.text(position)),
        Item::Bytes(position) => values.bytes(arena.bytes(position)),
        Item::Pair(first, second) => {
            let halves = [values.int(first), values.int(second)];
            values.tuple(&halves)
        }
    }
}

fn close(kind: Kind, members: &[ValueId], values: &mut Values) -> Result<ValueId, PickleError> {
    match kind {
        Kind::Tuple => Ok(values.tuple(members)),
        Kind::Dict => {
            if members.iter().step_by(2).any(|&key| !values.is_hashable(key)) {
                return Err(PickleError::UnhashableKey);
            }
            Ok(values.dict(members))
        }
        _ => Ok(values.list(members)),
    }
}
