//! What trace entries say beside their figures: nearly always the same few things.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::index::{Index, ends};
use crate::model::Extra;

/// The texts and unknown keys of a trace entry.
///
/// A key that is absent is `None`; PyTorch's own defaults are `"N/A"` for the compile context and
/// `""` for the user's metadata (R9.9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The name of the enclosing compiled region (R9.22).
    pub compile_context: Option<Arc<str>>,
    /// What `_set_memory_metadata` said, or the annotation (R9.23).
    pub user_metadata: Option<Arc<str>>,
    /// PyTorch's own metadata; only written when not empty.
    pub internal_metadata: Option<Arc<str>>,
    /// The entry's action, where this is [`Action::Other`](crate::Action::Other).
    pub action: Option<Arc<str>>,
    /// Unknown keys.
    pub extra: Extra,
}

impl Hash for Notes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for text in [&self.compile_context, &self.user_metadata, &self.internal_metadata, &self.action] {
            text.as_deref().map(ends).hash(state);
        }
        self.extra.hash(state);
    }
}

/// Notes of a [`NotesTable`]; the default says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotesId(u32);

impl NotesId {
    /// The notes that say nothing, in every table.
    pub const EMPTY: Self = Self(0);

    /// Position in the table: 0 is the empty note.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All notes of a snapshot, each held once.
#[derive(Clone, Debug)]
pub struct NotesTable {
    rows: Vec<Notes>,
    index: Index,
}

impl Default for NotesTable {
    fn default() -> Self {
        let mut table = Self { rows: Vec::new(), index: Index::default() };
        table.intern(Notes::default());
        table
    }
}

impl NotesTable {
    /// The id of these notes.
    pub fn intern(&mut self, notes: Notes) -> NotesId {
        let hash = self.index.hash(&notes);
        let found = self.index.find(hash, |row| self.rows[row as usize] == notes);
        NotesId(found.unwrap_or_else(|slot| {
            let row = self.rows.len() as u32;
            self.rows.push(notes);
            self.index.insert(slot, row);
            row
        }))
    }

    /// The id of these notes, if the table has them.
    pub(crate) fn find(&self, notes: &Notes) -> Option<NotesId> {
        let hash = self.index.hash(notes);
        let found = self.index.find(hash, |row| self.rows[row as usize] == *notes);
        found.ok().map(NotesId)
    }

    /// The notes with this id; those that say nothing for an id of another table.
    pub fn get(&self, id: NotesId) -> &Notes {
        self.rows.get(id.index()).unwrap_or(&self.rows[0])
    }

    /// All notes, by [`NotesId::index`].
    pub fn all(&self) -> &[Notes] {
        &self.rows
    }

    /// Bytes this table holds, about.
    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Notes>() + self.index.memory()
    }
}
