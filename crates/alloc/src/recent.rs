//! A block that was handed out and came straight back.
//!
//! Most programs free what they allocated last and then ask for as much again. Merging the block with its neighbours only to
//! cut it off again would lead to the very state before: so the merge is put off by one step. Until it is caught up with, the
//! pool is as it was when the block was handed out, but for the block being idle; any other look at the pool, or change of
//! it, catches up first ([`Pool::catch_up`]; [`Core::hold`](crate::device::Core::hold) does it for all pools). Decisions, statistics and events are those of an immediate merge.

use crate::block::{BlockId, NONE};
use crate::pool::{Fit, Pool};
use crate::stats::Metric;

/// The last hand-out of a pool in which nothing has happened since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    /// The block; `NONE` when something else happened since.
    block: BlockId,
    /// It was given back: idle, but neither listed nor merged.
    returned: bool,
    /// The rounded size for which it was chosen.
    rounded: u64,
    /// How the hand-out changed the inactive-split count and bytes; giving back undoes it.
    split: (i64, i64),
}

impl Default for Recent {
    fn default() -> Self {
        Recent { block: NONE, returned: false, rounded: 0, split: (0, 0) }
    }
}

impl Recent {
    /// Whether it is this block.
    #[inline]
    pub fn is(&self, id: BlockId) -> bool {
        self.block == id
    }
}

impl Pool {
    /// Remembers a hand-out, made from a state without a put-off merge. A pool whose collection clock ticks has none: there
    /// every search counts.
    #[inline]
    pub fn remember(&mut self, block: BlockId, rounded: u64, split: (i64, i64)) {
        let block = if self.policy.clock_ticks { NONE } else { block };
        self.recent = Recent { block, returned: false, rounded, split };
    }

    /// The block that a request of `rounded` bytes gets, if it is the one that just came back.
    #[inline]
    pub fn take_recent(&mut self, fit: Fit) -> Option<BlockId> {
        let Recent { block, returned, rounded, split } = self.recent;
        if !returned || rounded != fit.rounded {
            return None;
        }
        self.recent.returned = false;
        self.count_split(split);
        self.make_live(block, fit.requested);
        Some(block)
    }

    /// Puts the merge of a retired block off, if it is the last one handed out.
    #[inline]
    pub fn put_off(&mut self, id: BlockId) -> bool {
        if !self.recent.is(id) {
            return false;
        }
        self.recent.returned = true;
        let (count, bytes) = self.recent.split;
        self.count_split((-count, -bytes));
        self.count_inactive(id);
        true
    }

    /// Makes up for a merge that was put off, and forgets the last hand-out: something else is about to happen.
    #[inline]
    pub fn catch_up(&mut self) {
        let Recent { block, returned, .. } = std::mem::take(&mut self.recent);
        if returned {
            self.merge(block);
        }
    }

    #[inline]
    fn count_split(&mut self, (count, bytes): (i64, i64)) {
        self.counters.change(Metric::InactiveSplit, count);
        self.counters.change(Metric::InactiveSplitBytes, bytes);
    }
}
