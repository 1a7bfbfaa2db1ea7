//! Items in ascending order, in short chunks: no insert or removal moves more than one chunk, and nothing is allocated
//! while the number of items stays about the same.

/// The most items of a chunk.
const CHUNK: usize = 64;
/// A chunk below this is joined with a neighbour if both fit well.
const SPARSE: usize = CHUNK / 4;

/// A sorted set.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<T> {
    /// None is empty, except that a set without items may keep one chunk.
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { chunks: Vec::new() }
    }
}

impl<T: Ord + Copy> Sorted<T> {
    /// The chunk that holds, or would hold, an item.
    #[inline]
    fn chunk_of(&self, item: &T) -> usize {
        if self.chunks.len() <= 1 {
            return 0;
        }
        let after = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last < item));
        after.min(self.chunks.len() - 1)
    }

    #[inline]
    pub fn insert(&mut self, item: T) {
        let mut at = self.chunk_of(&item);
        match self.chunks.get_mut(at) {
            None => self.chunks.push(Vec::with_capacity(4)),
            Some(chunk) if chunk.len() == CHUNK => {
                let upper = chunk.split_off(CHUNK / 2);
                let goes_up = upper[0] < item;
                self.chunks.insert(at + 1, upper);
                at += usize::from(goes_up);
            }
            Some(_) => {}
        }
        let chunk = &mut self.chunks[at];
        let place = chunk.partition_point(|other| *other < item);
        chunk.insert(place, item);
    }

    /// Removes an item; whether it was there.
    #[inline]
    pub fn remove(&mut self, item: &T) -> bool {
        let at = self.chunk_of(item);
        let Some(chunk) = self.chunks.get_mut(at) else { return false };
        let Ok(place) = chunk.binary_search(item) else { return false };
        chunk.remove(place);
        if chunk.len() < SPARSE && self.chunks.len() > 1 {
            self.join(at);
        }
        true
    }

    /// Joins a sparse chunk with its smaller neighbour, if there is room left after; an empty one goes.
    #[cold]
    fn join(&mut self, at: usize) {
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
            return;
        }
        let before = at.checked_sub(1).map(|before| self.chunks[before].len());
        let after = self.chunks.get(at + 1).map(Vec::len);
        let first = match (before, after) {
            (Some(before), Some(after)) if before <= after => at - 1,
            (Some(_), None) => at - 1,
            _ => at,
        };
        if self.chunks[first].len() + self.chunks[first + 1].len() <= CHUNK - SPARSE {
            let upper = self.chunks.remove(first + 1);
            self.chunks[first].extend(upper);
        }
    }

    #[inline]
    pub fn first(&self) -> Option<T> {
        self.chunks.first()?.first().copied()
    }

    pub fn last(&self) -> Option<T> {
        self.chunks.last()?.last().copied()
    }

    pub fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// The first item that is not less than `key`.
    #[inline]
    pub fn at_least(&self, key: &T) -> Option<T> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        chunk.get(chunk.partition_point(|item| item < key)).copied()
    }

    /// The item after `key`.
    #[inline]
    pub fn after(&self, key: &T) -> Option<T> {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get(at)?;
        match chunk.get(chunk.partition_point(|item| item <= key)) {
            Some(item) => Some(*item),
            None => self.chunks.get(at + 1)?.first().copied(),
        }
    }

    #[cfg(test)]
    fn contains(&self, item: &T) -> bool {
        self.chunks.get(self.chunk_of(item)).is_some_and(|chunk| chunk.binary_search(item).is_ok())
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        self.chunks.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_sorted_set_whatever_comes() {
        for spread in [10, 300, 5_000] {
            let (mut set, mut model) = (Sorted::default(), BTreeSet::new());
            let mut state: u64 = spread;
            for _ in 0..30_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let item = (state >> 33) % spread;
                if state & 1 == 0 {
                    if model.insert(item) {
                        set.insert(item);
                    }
                } else {
                    assert_eq!(set.remove(&item), model.remove(&item));
                }
                assert_eq!(set.at_least(&item), model.range(item..).next().copied());
                assert_eq!(set.after(&item), model.range(item + 1..).next().copied());
                assert_eq!(set.first(), model.first().copied());
                assert_eq!(set.last(), model.last().copied());
            }
            assert!(set.iter().eq(model.iter().copied()));
            assert!(set.chunks.iter().all(|chunk| chunk.len() <= CHUNK));
            model.iter().for_each(|item| assert!(set.contains(item) && set.remove(item)));
            assert_eq!(set.len(), 0);
        }
    }
}
