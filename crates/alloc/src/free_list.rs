//! The free blocks of one pool, in best-fit order (R1.17–R1.20).

use std::collections::BTreeSet;

use crate::block::BlockId;

/// A free block with all that orders it: size, then the registration counter of its segment (so the oldest segment wins
/// a tie, R1.18), then address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FreeEntry {
    pub size: u64,
    pub counter: u64,
    pub addr: u64,
    pub block: BlockId,
}

impl FreeEntry {
    /// The smallest entry of at least `size` bytes.
    fn at_least(size: u64) -> Self {
        FreeEntry { size, counter: 0, addr: 0, block: 0 }
    }
}

/// The free blocks of one pool (one stream), smallest first.
#[derive(Debug, Default)]
pub(crate) struct FreeList {
    entries: BTreeSet<FreeEntry>,
    bytes: u64,
}

impl FreeList {
    pub fn insert(&mut self, entry: FreeEntry) {
        self.bytes += entry.size;
        self.entries.insert(entry);
    }

    pub fn remove(&mut self, entry: FreeEntry) {
        if self.entries.remove(&entry) {
            self.bytes -= entry.size;
        }
    }

    /// The best fit: the smallest block of at least `size` bytes (R1.20), and after it all larger ones in order.
    pub fn from(&self, size: u64) -> impl Iterator<Item = FreeEntry> + '_ {
        self.entries.range(FreeEntry::at_least(size)..).copied()
    }

    /// The blocks smaller than `size`, largest first.
    pub fn below(&self, size: u64) -> impl Iterator<Item = FreeEntry> + '_ {
        self.entries.range(..FreeEntry::at_least(size)).rev().copied()
    }

    /// All blocks, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = FreeEntry> + '_ {
        self.entries.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The sum of all sizes, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn largest(&self) -> Option<FreeEntry> {
        self.entries.last().copied()
    }

    pub fn contains(&self, entry: &FreeEntry) -> bool {
        self.entries.contains(entry)
    }
}
