//! The free blocks of one size: a heap by age and address. Each block knows its place in the heap, so that a neighbour
//! that merges with it can take it out without a search.

use crate::block::{BlockId, Slab};

/// A block by what orders it among those of its size (R1.17, R1.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub counter: u64,
    pub addr: u64,
    pub block: BlockId,
}

/// A binary heap, the smallest key first.
#[derive(Debug, Default)]
pub(super) struct Class {
    heap: Vec<Key>,
}

impl Class {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub fn first(&self) -> Option<Key> {
        self.heap.first().copied()
    }

    #[inline]
    pub fn insert(&mut self, key: Key, blocks: &mut Slab) {
        let place = self.heap.len();
        self.heap.push(key);
        if place == 0 {
            blocks[key.block].place = 0;
        } else {
            self.rise(place, key, blocks);
        }
    }

    /// Takes out the block at a place.
    #[inline]
    pub fn remove(&mut self, place: usize, blocks: &mut Slab) {
        let Some(last) = self.heap.pop() else { return };
        if place < self.heap.len() {
            self.put(place, last, blocks);
        }
    }

    /// Moves a key from a place towards the top until its parent is smaller.
    fn rise(&mut self, mut place: usize, key: Key, blocks: &mut Slab) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] < key {
                break;
            }
            self.set(place, self.heap[parent], blocks);
            place = parent;
        }
        self.set(place, key, blocks);
    }

    /// Puts a key into a hole: down while a child is smaller, else up.
    #[cold]
    fn put(&mut self, mut place: usize, key: Key, blocks: &mut Slab) {
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = self.heap.get(left).copied() else { break };
            let mut at = left;
            if let Some(&right) = self.heap.get(left + 1)
                && right < child
            {
                (child, at) = (right, left + 1);
            }
            if key < child {
                break;
            }
            self.set(place, child, blocks);
            place = at;
        }
        self.rise(place, key, blocks);
    }

    #[inline]
    fn set(&mut self, place: usize, key: Key, blocks: &mut Slab) {
        self.heap[place] = key;
        blocks[key.block].place = place as u32;
    }

    /// The key that follows `key` in the order. The second smallest is a child of the smallest; further on it is a search.
    pub fn after(&self, key: &Key) -> Option<Key> {
        match self.heap.first() {
            Some(first) if first == key => self.heap.iter().skip(1).take(2).min().copied(),
            _ => self.heap.iter().filter(|other| *other > key).min().copied(),
        }
    }

    /// All keys, smallest first.
    pub fn sorted(&self) -> Vec<Key> {
        let mut keys = self.heap.clone();
        keys.sort_unstable();
        keys
    }

    /// Whether every block knows its place and no parent is larger than its child.
    pub fn is_consistent(&self, blocks: &Slab) -> bool {
        let heap = &self.heap;
        (0..heap.len()).all(|place| {
            blocks[heap[place].block].place as usize == place && heap[place.saturating_sub(1) / 2] <= heap[place]
        })
    }
}
