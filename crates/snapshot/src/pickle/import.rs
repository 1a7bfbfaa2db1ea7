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
    /// `None` while a container's members are being imported.
    done: FxHashMap<u32, Option<ValueId>>,
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

/// A container whose members are being imported.
struct Task {
    node: u32,
    /// Members imported so far.
    next: usize,
    /// Where they begin in `members`.
    start: usize,
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
            if let Some(&member) = arena.items(task.node).get(task.next) {
                task.next += 1;
                if let Some(id) = self.enter(arena, unfold, values, member, limit)? {
                    self.members.push(id);
                }
                continue;
            }
            let (node, start) = (task.node, task.start);
            let id = close(arena.kind(node), &self.members[start..], values)?;
            self.tasks.pop();
            self.members.truncate(start);
            self.members.push(id);
            self.done.insert(node, Some(id));
            if self.memory() + values.memory() > limit {
                return Err(PickleError::OutOfBounds { offset: 0, limit });
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
        match self.done.get(&node) {
            Some(Some(id)) => return Ok(Some(*id)),
            Some(None) => return Err(PickleError::SelfReference),
            None => {}
        }
        arena.mark_used(node);
        let kind = arena.kind(node);
        if matches!(kind, Kind::List | Kind::Tuple | Kind::Dict) {
            self.done.insert(node, None);
            self.tasks.push(Task { node, next: 0, start: self.members.len() });
            return Ok(None);
        }
        let (id, unfolded) = unfold.unfold(kind, values, &mut self.frames);
        self.unfolded += unfolded;
        if self.unfolded > limit {
            return Err(PickleError::OutOfBounds { offset: 0, limit });
        }
        self.done.insert(node, Some(id));
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
        self.done.capacity() * 13
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
