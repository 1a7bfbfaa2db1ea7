//! What became of the allocations of a workload, by id.

use rustc_hash::FxHashMap;

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was never allocated.
    Unknown,
    /// Its allocation failed.
    Failed,
    /// It was freed.
    Freed,
    /// It lives at an address; 0 for an allocation of 0 bytes.
    Live(u64),
}

/// The states of all ids. Small ids, which are what programs that count have, are found by index.
///
/// A state is one word: an address, or one of three small numbers that no address is, plus one for the null address.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    dense: Vec<u64>,
    sparse: FxHashMap<u64, u64>,
    /// How many ids are not unknown.
    seen: u64,
}

const UNKNOWN: u64 = 0;
const FAILED: u64 = 1;
const FREED: u64 = 2;
const NULL: u64 = 3;

/// Where an id would be in the dense table.
fn place(id: u64) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

impl Ids {
    /// The table grows at most to this many times the ids seen, so that sparse ids do not fill the memory.
    const SLACK: u64 = 4;
    const ALWAYS_DENSE: u64 = 1 << 12;

    #[inline]
    pub fn get(&self, id: u64) -> State {
        let word = match self.dense.get(place(id)) {
            Some(&word) => word,
            None => self.sparse.get(&id).copied().unwrap_or(UNKNOWN),
        };
        match word {
            UNKNOWN => State::Unknown,
            FAILED => State::Failed,
            FREED => State::Freed,
            NULL => State::Live(0),
            addr => State::Live(addr),
        }
    }

    #[inline]
    pub fn set(&mut self, id: u64, state: State) {
        let word = match state {
            State::Unknown => UNKNOWN,
            State::Failed => FAILED,
            State::Freed => FREED,
            State::Live(0) => NULL,
            State::Live(addr) => addr,
        };
        match self.dense.get_mut(place(id)) {
            Some(place) => {
                self.seen += u64::from(*place == UNKNOWN);
                *place = word;
            }
            None => self.set_beyond(id, word),
        }
    }

    /// Sets an id that the dense table does not cover.
    fn set_beyond(&mut self, id: u64, word: u64) {
        self.seen += u64::from(!self.sparse.contains_key(&id));
        let bound = (self.seen * Self::SLACK).max(Self::ALWAYS_DENSE);
        if id >= bound {
            self.sparse.insert(id, word);
            return;
        }
        let old = self.dense.len();
        self.dense.resize((place(id) + 1).max(old * 2).min(bound as usize), UNKNOWN);
        let new = self.dense.len() as u64;
        // What was sparse and is covered now moves.
        if !self.sparse.is_empty() {
            let moved: Vec<u64> = self.sparse.keys().copied().filter(|&id| id < new).collect();
            for id in moved {
                if let Some(word) = self.sparse.remove(&id) {
                    self.dense[place(id)] = word;
                }
            }
        }
        self.dense[place(id)] = word;
    }

    /// The live allocations: id and address.
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let dense = self.dense.iter().enumerate().map(|(id, &word)| (id as u64, word));
        let all = dense.chain(self.sparse.iter().map(|(&id, &word)| (id, word)));
        all.filter(|&(_, word)| word > FREED).map(|(id, word)| (id, if word == NULL { 0 } else { word }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_be_dense_or_sparse_and_keep_their_states() {
        let mut ids = Ids::default();
        let all: Vec<u64> = (0..10_000).chain([u64::MAX, u64::MAX - 1, 1 << 40, 20_000, 70_000]).rev().collect();
        for &id in &all {
            ids.set(id, State::Live(id.wrapping_mul(8).wrapping_add(512)));
        }
        for &id in &all {
            assert_eq!(ids.get(id), State::Live(id.wrapping_mul(8).wrapping_add(512)), "{id}");
        }
        assert_eq!(ids.get(15_000), State::Unknown);
        ids.set(3, State::Live(0));
        ids.set(4, State::Freed);
        ids.set(5, State::Failed);
        assert_eq!((ids.get(3), ids.get(4), ids.get(5)), (State::Live(0), State::Freed, State::Failed));
        assert_eq!(ids.live().count(), all.len() - 2);
        assert!(ids.dense.len() < 1 << 17);
    }

    #[test]
    fn ids_that_rush_ahead_do_not_fill_the_memory() {
        let mut ids = Ids::default();
        (0..40).for_each(|doublings| ids.set((1 << doublings) - 1, State::Freed));
        assert!(ids.dense.len() <= 4096, "{}", ids.dense.len());
        assert_eq!(ids.get((1 << 39) - 1), State::Freed);
    }
}
