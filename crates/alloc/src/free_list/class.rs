//! The free blocks of one size: a heap by age and address.
//!
//! A block that leaves from the middle leaves its key behind, so that taking it out writes to no other block. Keys that no
//! listed block answers to are stale; they go when they come to the top, or when they are more than half of the heap.

use crate::block::{BlockId, Slab};

/// A block by what orders it among those of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub position: u64,
    pub block: BlockId,
}

/// A binary heap, the smallest key first, with stale keys.
///
/// Invariant: the first key is that of a listed block; a class without listed blocks has no keys.
#[derive(Debug)]
pub(super) struct Class {
    heap: Vec<Key>,
    /// Bytes of its blocks.
    size: u64,
    /// How many blocks are listed.
    len: usize,
}

/// Puts a key into the last place of a heap, then moves it up until its parent is smaller.
#[inline]
fn rise(heap: &mut [Key], key: Key) {
    let mut place = heap.len() - 1;
    while place > 0 {
        let parent = (place - 1) / 2;
        if heap[parent].position <= key.position {
            break;
        }
        heap[place] = heap[parent];
        place = parent;
    }
    heap[place] = key;
}

/// Stale keys that are never worth a clean-up.
const FEW: usize = 16;

impl Class {
    pub fn new(size: u64) -> Self {
        Class { heap: Vec::new(), size, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The sum of their sizes.
    pub fn bytes(&self) -> u64 {
        self.len as u64 * self.size
    }

    #[inline]
    pub fn first(&self) -> Option<Key> {
        self.heap.first().copied()
    }

    /// Whether a listed block of the class answers to a key.
    #[inline]
    fn is_listed(&self, key: &Key, blocks: &Slab) -> bool {
        blocks.is_listed(key.block) && {
            let block = &blocks[key.block];
            block.position == key.position && block.size == self.size
        }
    }

    /// Lists a block.
    #[inline(always)]
    pub fn insert(&mut self, key: Key, blocks: &Slab) {
        if self.heap.len() == self.heap.capacity() && self.heap.len() > 2 * self.len + FEW {
            self.drop_stale(blocks);
        }
        self.len += 1;
        self.heap.push(key);
        rise(&mut self.heap, key);
    }

    /// Takes out a block that is no longer marked as listed. Returns whether others are left.
    #[inline]
    pub fn remove(&mut self, block: BlockId, blocks: &Slab) -> bool {
        self.len -= 1;
        if self.len == 0 {
            self.heap.clear();
            return false;
        }
        if self.heap[0].block == block {
            self.pop();
            while !self.is_listed(&self.heap[0], blocks) {
                self.pop();
            }
        }
        true
    }

    /// Takes out the first key.
    #[inline]
    fn pop(&mut self) {
        let Some(last) = self.heap.pop() else { return };
        let heap = &mut self.heap[..];
        let (mut place, mut child) = (0, 1);
        while child < heap.len() {
            // Without a branch: which of the two is smaller cannot be foreseen.
            let other = (child + 1).min(heap.len() - 1);
            child += usize::from(heap[other].position < heap[child].position);
            if last.position <= heap[child].position {
                break;
            }
            heap[place] = heap[child];
            (place, child) = (child, 2 * child + 1);
        }
        if let Some(hole) = heap.get_mut(place) {
            *hole = last;
        }
    }

    #[cold]
    fn drop_stale(&mut self, blocks: &Slab) {
        // What is sorted is a heap.
        self.heap = self.sorted(blocks);
    }

    /// The key that follows `key` in the order.
    pub fn after(&self, key: &Key, blocks: &Slab) -> Option<Key> {
        let mut next = None;
        self.search(0, key, &mut next, blocks);
        next
    }

    /// Looks for the least listed key above `floor` at a place of the heap and below it.
    fn search(&self, place: usize, floor: &Key, least: &mut Option<Key>, blocks: &Slab) {
        let Some(key) = self.heap.get(place) else { return };
        if least.is_some_and(|least| least.position <= key.position) {
            return;
        }
        if key.position > floor.position && self.is_listed(key, blocks) {
            *least = Some(*key);
            return;
        }
        self.search(2 * place + 1, floor, least, blocks);
        self.search(2 * place + 2, floor, least, blocks);
    }

    /// The keys of the listed blocks, smallest first.
    pub fn sorted(&self, blocks: &Slab) -> Vec<Key> {
        let mut keys: Vec<Key> = self.heap.iter().filter(|key| self.is_listed(key, blocks)).copied().collect();
        keys.sort_unstable();
        // A block that left and came back has two keys.
        keys.dedup();
        keys
    }

    /// Whether the keys are in order and the first one is of a listed block.
    pub fn is_consistent(&self, blocks: &Slab) -> bool {
        let heap = &self.heap;
        (1..heap.len()).all(|place| heap[(place - 1) / 2].position <= heap[place].position)
            && self.sorted(blocks).len() == self.len
            && heap.first().map_or(self.len == 0, |first| self.is_listed(first, blocks))
    }
}
