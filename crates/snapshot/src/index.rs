//! An index over a table that grows: from a hash to the row that has it.

use std::hash::{BuildHasher, Hash, RandomState};

use rustc_hash::FxHashMap;

/// Finds a row of a table by its content, which stands in the table and not here.
///
/// Rows with the same hash take the next free one. The hash is keyed at random, so that a file
/// cannot be made to collide.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// By half of the hash: a table of millions of small rows must not be mostly index.
    rows: FxHashMap<u32, u32>,
    keys: RandomState,
}

impl Index {
    /// The hash of `content`; equal contents of two tables have equal hashes only in one index.
    pub fn hash(&self, content: impl Hash) -> u32 {
        self.keys.hash_one(content) as u32
    }

    /// The row with `hash` for which `is_it` holds, or else the slot where it belongs.
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Result<u32, Slot> {
        let mut slot = hash;
        while let Some(&row) = self.rows.get(&slot) {
            if is_it(row) {
                return Ok(row);
            }
            slot = slot.wrapping_add(1);
        }
        Err(Slot(slot))
    }

    /// Puts `row` where [`find`](Self::find) found nothing.
    pub fn insert(&mut self, slot: Slot, row: u32) {
        self.rows.insert(slot.0, row);
    }

    /// Bytes this index holds, about.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * 10
    }
}

/// Where a row belongs that an [`Index`] does not have yet.
pub(crate) struct Slot(u32);

/// The part of a text that goes into a hash: its length and both ends. Texts come from files, and
/// hashing all of a long one for each row that has it would take forever.
pub(crate) fn ends(text: &str) -> (usize, &[u8], &[u8]) {
    const END: usize = 48;
    let bytes = text.as_bytes();
    let end = bytes.len().min(END);
    (bytes.len(), &bytes[..end], &bytes[bytes.len() - end..])
}
