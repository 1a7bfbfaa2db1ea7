//! The free blocks of one pool, in best-fit order (R1.17–R1.20).
//!
//! Sizes up to 2 MiB are multiples of 512, so each has a class of its own, and a bitmap of the classes that hold something
//! gives the best fit exactly in a few instructions. Larger blocks are few: they are in one sorted list.

mod class;
mod sorted;

use class::{Class, Key};
use sorted::Sorted;

use crate::block::{BlockId, Slab};
use crate::size::MIN_BLOCK;

/// A free block with all that orders it: size, then position, so that the oldest segment wins a tie, and in it the lowest
/// address (R1.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FreeEntry {
    pub size: u64,
    pub position: u64,
    pub block: BlockId,
}

impl FreeEntry {
    /// The entry of a block of the slab.
    #[inline]
    pub fn of(id: BlockId, blocks: &Slab) -> Self {
        let block = &blocks[id];
        FreeEntry { size: block.size, position: block.position, block: id }
    }

    /// Not more than any entry of at least `size` bytes.
    fn at_least(size: u64) -> Self {
        FreeEntry { size, position: 0, block: 0 }
    }

    #[inline]
    fn key(&self) -> Key {
        Key { position: self.position, block: self.block }
    }
}

/// Classes in a row of the bitmap, and rows.
const ROW: usize = 64;
const ROWS: usize = 64;
/// The largest size with a class of its own, bytes.
const EXACT: u64 = MIN_BLOCK * (ROW * ROWS) as u64;

type Row = Box<[Class; ROW]>;

/// The free blocks of one pool (one stream), smallest first.
#[derive(Debug)]
pub(crate) struct FreeList {
    /// The classes by size, 64 to a row; rows that never held anything are not there.
    rows: [Option<Row>; ROWS],
    /// Which classes of a row hold something, and which rows.
    filled: [u64; ROWS],
    filled_rows: u64,
    /// Everything larger; and everything at all once a size came that is no multiple of 512 (only a seeded state can).
    large: Sorted<FreeEntry>,
    irregular: bool,
}

impl Default for FreeList {
    fn default() -> Self {
        FreeList {
            rows: [const { None }; ROWS],
            filled: [0; ROWS],
            filled_rows: 0,
            large: Sorted::default(),
            irregular: false,
        }
    }
}

/// Row and column of a class. The masks say what the size already says, in a way the compiler sees.
#[inline]
fn split(class: usize) -> (usize, usize) {
    (class / ROW % ROWS, class % ROW)
}

impl FreeList {
    /// The class of a size that has one.
    #[inline]
    fn class(&self, size: u64) -> Option<usize> {
        // A size of 0 wraps and is not small.
        let below = size.wrapping_sub(1);
        (below < EXACT && !self.irregular).then_some((below / MIN_BLOCK) as usize)
    }

    /// Lists a block of the slab.
    #[inline(always)]
    pub fn insert(&mut self, id: BlockId, blocks: &mut Slab) {
        let entry = FreeEntry::of(id, blocks);
        if !entry.size.is_multiple_of(MIN_BLOCK) && !self.irregular {
            self.give_up_classes(blocks);
        }
        blocks.list(id);
        let Some(class) = self.class(entry.size) else { return self.large.insert(entry) };
        let (row, column) = split(class);
        self.rows[row].get_or_insert_with(|| new_row(row))[column].insert(entry.key(), blocks);
        self.filled[row] |= 1 << column;
        self.filled_rows |= 1 << row;
    }

    /// Takes a listed block out.
    #[inline]
    pub fn remove(&mut self, entry: FreeEntry, blocks: &mut Slab) {
        blocks.unlist(entry.block);
        let Some(class) = self.class(entry.size) else {
            self.large.remove(&entry);
            return;
        };
        let (row, column) = split(class);
        let Some(classes) = &mut self.rows[row] else { return };
        if !classes[column].remove(entry.block, blocks) {
            self.filled[row] &= !(1 << column);
            if self.filled[row] == 0 {
                self.filled_rows &= !(1 << row);
            }
        }
    }

    /// From now on one list holds everything.
    #[cold]
    fn give_up_classes(&mut self, blocks: &Slab) {
        let entries: Vec<FreeEntry> = self.iter(blocks).collect();
        *self = FreeList { irregular: true, ..FreeList::default() };
        entries.into_iter().for_each(|entry| self.large.insert(entry));
    }

    /// The first filled class from `class` on.
    #[inline]
    fn filled_from(&self, class: usize) -> Option<usize> {
        if class >= ROW * ROWS {
            return None;
        }
        let (row, column) = split(class);
        let here = self.filled[row] >> column;
        if here != 0 {
            return Some(class + here.trailing_zeros() as usize);
        }
        // Two shifts: one by 64 would be none.
        let later = self.filled_rows >> row >> 1;
        if later == 0 {
            return None;
        }
        let row = (row + 1 + later.trailing_zeros() as usize) % ROWS;
        Some(row * ROW + self.filled[row].trailing_zeros() as usize)
    }

    #[inline]
    fn first_of(&self, class: usize) -> Option<FreeEntry> {
        let (row, column) = split(class);
        let key = self.rows[row].as_ref()?[column].first()?;
        Some(entry(class, key))
    }

    /// The best fit: the smallest block of at least `size` bytes (R1.20).
    #[inline]
    pub fn best_fit(&self, size: u64) -> Option<FreeEntry> {
        if let Some(class) = self.class(size)
            && let Some(filled) = self.filled_from(class)
        {
            return self.first_of(filled);
        }
        self.large.at_least(&FreeEntry::at_least(size))
    }

    /// The block that follows `entry` in the order.
    #[inline]
    pub fn after(&self, before: &FreeEntry, blocks: &Slab) -> Option<FreeEntry> {
        let Some(class) = self.class(before.size) else { return self.large.after(before) };
        let (row, column) = split(class);
        let same = self.rows[row].as_ref().and_then(|row| row[column].after(&before.key(), blocks));
        same.map(|key| entry(class, key))
            .or_else(|| self.filled_from(class + 1).and_then(|class| self.first_of(class)))
            .or_else(|| self.large.first())
    }

    /// The blocks smaller than `size`, largest first.
    pub fn below(&self, size: u64, blocks: &Slab) -> impl Iterator<Item = FreeEntry> {
        self.iter(blocks).rev().skip_while(move |entry| entry.size >= size)
    }

    /// All blocks, smallest first.
    pub fn iter(&self, blocks: &Slab) -> impl DoubleEndedIterator<Item = FreeEntry> {
        let rows = self.rows.iter().enumerate().filter_map(|(number, row)| Some((number, row.as_ref()?)));
        let classes =
            rows.flat_map(|(number, row)| row.iter().enumerate().map(move |(c, class)| (number * ROW + c, class)));
        let small =
            classes.flat_map(|(number, class)| class.sorted(blocks).into_iter().map(move |key| entry(number, key)));
        small.chain(self.large.iter())
    }

    /// How many blocks are listed.
    pub fn len(&self) -> usize {
        self.rows.iter().flatten().flat_map(|row| row.iter()).map(Class::len).sum::<usize>() + self.large.len()
    }

    /// The sum of all sizes, bytes.
    pub fn bytes(&self) -> u64 {
        let classes = self.rows.iter().flatten().flat_map(|row| row.iter());
        classes.map(Class::bytes).sum::<u64>() + self.large.iter().map(|entry| entry.size).sum::<u64>()
    }

    /// The size of the largest block, bytes.
    pub fn largest(&self) -> Option<u64> {
        let filled = |row: usize| row * ROW + self.filled[row].ilog2() as usize;
        let class = || self.filled_rows.checked_ilog2().map(|row| (filled(row as usize) as u64 + 1) * MIN_BLOCK);
        self.large.last().map(|entry| entry.size).or_else(class)
    }

    /// Whether the bitmap says what the classes hold, and they hold what is marked as listed.
    pub fn is_consistent(&self, blocks: &Slab) -> bool {
        let filled = |row: usize| match &self.rows[row] {
            None => 0,
            Some(classes) => classes.iter().rev().fold(0, |bits, class| bits << 1 | u64::from(class.len() > 0)),
        };
        let rows = (0..ROWS).rev().fold(0, |bits, row| bits << 1 | u64::from(self.filled[row] != 0));
        let mut classes = self.rows.iter().flatten().flat_map(|row| row.iter());
        (0..ROWS).all(|row| filled(row) == self.filled[row])
            && rows == self.filled_rows
            && classes.all(|class| class.is_consistent(blocks))
    }
}

#[inline]
fn entry(class: usize, key: Key) -> FreeEntry {
    FreeEntry { size: (class as u64 + 1) * MIN_BLOCK, position: key.position, block: key.block }
}

#[cold]
fn new_row(row: usize) -> Row {
    Box::new(std::array::from_fn(|column| Class::new((row * ROW + column + 1) as u64 * MIN_BLOCK)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use std::collections::BTreeSet;

    /// Random inserts and removals, against an ordered set.
    fn compare(step: u64, largest: u64) {
        let (mut list, mut model, mut blocks) = (FreeList::default(), BTreeSet::new(), Slab::default());
        let mut state = largest;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..8_000 {
            let size = (random(largest / step) + 1) * step;
            // Some sizes come often, so that classes hold more than one block.
            let size = if random(2) == 0 { step * 3 } else { size };
            let id = blocks.insert(Block { position: random(1 << 30), ..Block::new(0, size, 0) });
            list.insert(id, &mut blocks);
            model.insert(FreeEntry::of(id, &blocks));
            if random(3) > 0 {
                let gone = *model.iter().nth(random(model.len() as u64) as usize).unwrap();
                list.remove(gone, &mut blocks);
                model.remove(&gone);
            }
            let want = random(largest + largest / 8) + 1;
            let expected = model.range(FreeEntry::at_least(want)..).next().copied();
            assert_eq!(list.best_fit(want), expected, "best fit for {want}");
            if let Some(entry) = expected {
                let next = model.range(entry..).nth(1).copied();
                assert_eq!(list.after(&entry, &blocks), next, "after {entry:?}");
            }
            if let Some(entry) = model.range(FreeEntry::at_least(step * 3)..).nth(random(4) as usize) {
                assert_eq!(list.after(entry, &blocks), model.range(entry..).nth(1).copied(), "after {entry:?}");
            }
        }
        assert!(list.iter(&blocks).eq(model.iter().copied()));
        assert!(list.below(largest / 2, &blocks).eq(model.range(..FreeEntry::at_least(largest / 2)).rev().copied()));
        assert_eq!((list.len(), list.bytes()), (model.len(), model.iter().map(|entry| entry.size).sum()));
        assert_eq!(list.largest(), model.last().map(|entry| entry.size));
        assert!(list.is_consistent(&blocks));
    }

    #[test]
    fn r1_17_small_blocks_are_in_order_of_size_age_address() {
        compare(512, 2 << 20);
    }

    #[test]
    fn r1_17_so_are_blocks_on_both_sides_of_the_last_class() {
        compare(512, 6 << 20);
    }

    #[test]
    fn sizes_that_are_no_multiple_of_512_are_in_order_too() {
        compare(300, 4 << 20);
    }
}
