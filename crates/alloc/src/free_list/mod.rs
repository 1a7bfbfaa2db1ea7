//! The free blocks of one pool, in best-fit order (R1.17–R1.20).
//!
//! Sizes up to 2 MiB are multiples of 512, so each has a class of its own, and a bitmap of the classes that hold something
//! gives the best fit exactly in a few instructions. Larger blocks are few: they are in one sorted list.

mod sorted;

use sorted::Sorted;

use crate::block::BlockId;
use crate::size::MIN_BLOCK;

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
    /// Not more than any entry of at least `size` bytes.
    fn at_least(size: u64) -> Self {
        FreeEntry { size, counter: 0, addr: 0, block: 0 }
    }
}

/// Classes in a row of the bitmap, and rows.
const ROW: usize = 64;
const ROWS: usize = 64;
/// The largest size with a class of its own, bytes.
const EXACT: u64 = MIN_BLOCK * (ROW * ROWS) as u64;

type Row = Box<[Sorted<FreeEntry>; ROW]>;

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
    len: usize,
    bytes: u64,
}

impl Default for FreeList {
    fn default() -> Self {
        FreeList {
            rows: [const { None }; ROWS],
            filled: [0; ROWS],
            filled_rows: 0,
            large: Sorted::default(),
            irregular: false,
            len: 0,
            bytes: 0,
        }
    }
}

impl FreeList {
    /// The class of a size that has one.
    #[inline]
    fn class(&self, size: u64) -> Option<usize> {
        (size <= EXACT && !self.irregular && size > 0).then(|| (size / MIN_BLOCK) as usize - 1)
    }

    #[inline]
    pub fn insert(&mut self, entry: FreeEntry) {
        if entry.size % MIN_BLOCK != 0 && !self.irregular {
            self.give_up_classes();
        }
        self.len += 1;
        self.bytes += entry.size;
        let Some(class) = self.class(entry.size) else { return self.large.insert(entry) };
        let (row, column) = (class / ROW, class % ROW);
        let classes = self.rows[row].get_or_insert_with(new_row);
        classes[column].insert(entry);
        self.filled[row] |= 1 << column;
        self.filled_rows |= 1 << row;
    }

    #[inline]
    pub fn remove(&mut self, entry: FreeEntry) {
        let removed = match self.class(entry.size) {
            None => self.large.remove(&entry),
            Some(class) => {
                let (row, column) = (class / ROW, class % ROW);
                let Some(classes) = &mut self.rows[row] else { return };
                let removed = classes[column].remove(&entry);
                if classes[column].is_empty() {
                    self.filled[row] &= !(1 << column);
                    if self.filled[row] == 0 {
                        self.filled_rows &= !(1 << row);
                    }
                }
                removed
            }
        };
        if removed {
            self.len -= 1;
            self.bytes -= entry.size;
        }
    }

    /// From now on one list holds everything.
    #[cold]
    fn give_up_classes(&mut self) {
        let entries: Vec<FreeEntry> = self.iter().collect();
        *self = FreeList { irregular: true, ..FreeList::default() };
        entries.into_iter().for_each(|entry| self.insert(entry));
    }

    /// The first filled class from `class` on.
    #[inline]
    fn filled_from(&self, class: usize) -> Option<usize> {
        let (row, column) = (class / ROW, class % ROW);
        let here = self.filled.get(row)? >> column;
        if here != 0 {
            return Some(class + here.trailing_zeros() as usize);
        }
        let later = self.filled_rows.checked_shr(row as u32 + 1).unwrap_or(0);
        if later == 0 {
            return None;
        }
        let row = row + 1 + later.trailing_zeros() as usize;
        Some(row * ROW + self.filled[row].trailing_zeros() as usize)
    }

    #[inline]
    fn first_of(&self, class: usize) -> Option<FreeEntry> {
        self.rows[class / ROW].as_ref()?[class % ROW].first()
    }

    /// The best fit: the smallest block of at least `size` bytes (R1.20).
    #[inline]
    pub fn best_fit(&self, size: u64) -> Option<FreeEntry> {
        if let Some(class) = self.class(size.next_multiple_of(MIN_BLOCK))
            && let Some(filled) = self.filled_from(class)
        {
            return self.first_of(filled);
        }
        self.large.at_least(&FreeEntry::at_least(size))
    }

    /// The block that follows `entry` in the order.
    #[inline]
    pub fn after(&self, entry: &FreeEntry) -> Option<FreeEntry> {
        let Some(class) = self.class(entry.size) else { return self.large.after(entry) };
        let same = self.rows[class / ROW].as_ref().and_then(|row| row[class % ROW].after(entry));
        same.or_else(|| self.filled_from(class + 1).and_then(|class| self.first_of(class)))
            .or_else(|| self.large.first())
    }

    /// The blocks smaller than `size`, largest first.
    pub fn below(&self, size: u64) -> impl Iterator<Item = FreeEntry> + '_ {
        self.iter().rev().skip_while(move |entry| entry.size >= size)
    }

    /// All blocks, smallest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = FreeEntry> + '_ {
        let classes = self.rows.iter().flatten().flat_map(|row| row.iter());
        classes.flat_map(Sorted::iter).chain(self.large.iter())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The sum of all sizes, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn largest(&self) -> Option<FreeEntry> {
        self.large.last().or_else(|| self.iter().next_back())
    }

    /// Whether the bitmap says what the classes hold.
    pub fn is_consistent(&self) -> bool {
        let filled = |row: usize| match &self.rows[row] {
            None => 0,
            Some(classes) => classes.iter().rev().fold(0, |bits, class| bits << 1 | u64::from(!class.is_empty())),
        };
        let rows = (0..ROWS).rev().fold(0, |bits, row| bits << 1 | u64::from(self.filled[row] != 0));
        (0..ROWS).all(|row| filled(row) == self.filled[row]) && rows == self.filled_rows
    }
}

#[cold]
fn new_row() -> Row {
    Box::new(std::array::from_fn(|_| Sorted::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Random inserts and removals, against an ordered set.
    fn compare(step: u64, largest: u64) {
        let (mut list, mut model) = (FreeList::default(), BTreeSet::new());
        let mut state = largest;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for id in 0..8_000 {
            let (size, counter) = ((random(largest / step) + 1) * step, random(3));
            let entry = FreeEntry { size, counter, addr: random(1 << 30), block: id };
            list.insert(entry);
            model.insert(entry);
            if random(3) > 0 {
                let gone = *model.iter().nth(random(model.len() as u64) as usize).unwrap();
                list.remove(gone);
                model.remove(&gone);
            }
            let want = random(largest + largest / 8) + 1;
            let expected = model.range(FreeEntry::at_least(want)..).next().copied();
            assert_eq!(list.best_fit(want), expected, "best fit for {want}");
            if let Some(entry) = expected {
                let next = model.range(entry..).nth(1).copied();
                assert_eq!(list.after(&entry), next, "after {entry:?}");
            }
        }
        assert!(list.iter().eq(model.iter().copied()));
        assert!(list.below(largest / 2).eq(model.range(..FreeEntry::at_least(largest / 2)).rev().copied()));
        assert_eq!((list.len(), list.bytes()), (model.len(), model.iter().map(|entry| entry.size).sum()));
        assert_eq!(list.largest(), model.last().copied());
        assert!(list.is_consistent());
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
