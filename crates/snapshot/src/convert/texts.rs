//! Texts that come again and again, each held once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::keys::TextCache;
use crate::index::Index;
use crate::pickle::arena::Arena;
use crate::pickle::word::{Item, Word};

/// A text of a [`Texts`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextId(u32);

/// All texts of frames and notes.
pub(crate) struct Texts {
    rows: Vec<Arc<str>>,
    index: Index,
    bytes: usize,
    seen: TextCache<Option<TextId>>,
    /// Long texts by where they stand: one that is shared is read once.
    long: FxHashMap<Word, TextId>,
}

/// A text longer than this is never forgotten by where it stands.
const LONG: usize = 32;

impl Texts {
    pub fn new() -> Self {
        Self {
            rows: Vec::new(),
            index: Index::default(),
            bytes: 0,
            seen: TextCache::new(None),
            long: FxHashMap::default(),
        }
    }

    /// The id of the text at `word`; `None` for what is no text.
    pub fn intern(&mut self, arena: &Arena<'_>, word: Word) -> Option<TextId> {
        let Item::Text(position) = word.item() else {
            return None;
        };
        if arena.text_bytes(position).len() > LONG {
            if let Some(&known) = self.long.get(&word) {
                return Some(known);
            }
            let id = find_or_add(&mut self.rows, &mut self.index, &mut self.bytes, arena.text(position));
            self.long.insert(word, id);
            return Some(id);
        }
        let Self { rows, index, bytes, seen, .. } = self;
        seen.get(word, || Some(find_or_add(rows, index, bytes, arena.text(position))))
    }

    pub fn get(&self, id: TextId) -> Arc<str> {
        self.rows[id.0 as usize].clone()
    }

    /// Bytes held, about.
    pub fn memory(&self) -> usize {
        self.bytes + self.long.capacity() * 17 + self.rows.capacity() * size_of::<Arc<str>>() + self.index.memory()
    }
}

fn find_or_add(rows: &mut Vec<Arc<str>>, index: &mut Index, bytes: &mut usize, text: &str) -> TextId {
    let hash = index.hash(text);
    let found = index.find(hash, |row| *rows[row as usize] == *text);
    TextId(found.unwrap_or_else(|slot| {
        let row = rows.len() as u32;
        rows.push(text.into());
        *bytes += text.len() + 24;
        index.insert(slot, row);
        row
    }))
}
