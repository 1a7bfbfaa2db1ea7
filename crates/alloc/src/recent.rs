//! A block that was handed out and came straight back.
//!
//! Most programs free what they allocated last and then ask for as much again. Carrying that free out, with its merge, only to
//! cut the same block off again would lead to the very state before: so the free is put off by one step, and the cycle leaves
//! nothing behind but a count. Until it is caught up with, the pool is as it was when the block was handed out; any other look
//! at the pool, or change of it, catches up first ([`Pool::catch_up`]; [`Core::hold`](crate::device::Core::hold) does it for
//! all pools). Decisions, statistics and events are those of frees carried out at once. Peaks are, too: each cycle ends on
//! figures that were settled when the block was handed out first.

use crate::block::{BlockId, NONE};
use crate::pool::{Fit, Pool};
use crate::stats::{Counters, Metric, Peaks};

/// The last hand-out of a pool in which nothing else has happened since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    /// The block; `NONE` when something else happened since.
    block: BlockId,
    /// It was given back, and nothing was done about it: the pool still has it as a live block.
    returned: bool,
    /// Since then other pools have been given leases that it needs.
    lent: bool,
    /// Its address; 0 without a block.
    addr: u64,
    /// What was asked for, and the rounded size for which it was chosen.
    requested: u64,
    rounded: u64,
    /// How the hand-out changed the inactive-split count and bytes.
    split: (i64, i64),
    /// How often it came back and was handed out again without an entry in the books.
    cycles: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Recent {
            block: NONE,
            returned: false,
            lent: false,
            addr: 0,
            requested: 0,
            rounded: 0,
            split: (0, 0),
            cycles: 0,
        }
    }
}

impl Recent {
    /// Whether it is this block, and it came back: then it is live no more, whatever the pool says.
    #[inline]
    pub fn has_returned(&self, id: BlockId) -> bool {
        self.returned && self.block == id
    }

    /// Whether it is the block at `addr`, which came back and was handed out again.
    #[inline]
    pub fn is_round_of(&self, addr: u64) -> bool {
        self.cycles > 0 && self.addr == addr
    }

    /// What was asked for, bytes.
    #[inline]
    pub fn requested(&self) -> u64 {
        self.requested
    }
}

impl Pool {
    /// Remembers a hand-out, made from a state without a free that was put off. A pool whose collection clock ticks has none:
    /// there every search counts.
    #[inline]
    pub fn remember(&mut self, (block, addr): (BlockId, u64), fit: Fit, split: (i64, i64)) {
        if self.policy.clock_ticks {
            return;
        }
        let Fit { requested, rounded, .. } = fit;
        self.recent = Recent { block, returned: false, lent: false, addr, requested, rounded, split, cycles: 0 };
    }

    /// The block and address that a request gets, if it is the block that just came back.
    #[inline]
    pub fn take_recent(&mut self, fit: Fit) -> Option<(BlockId, u64)> {
        if !self.recent.returned || self.recent.rounded != fit.rounded {
            return None;
        }
        self.recent.returned = false;
        self.recent.cycles += 1;
        if self.recent.lent {
            (self.recent.lent, self.counters.unsettled) = (false, true);
        }
        if self.recent.requested != fit.requested {
            self.change_request(fit.requested);
        }
        Some((self.recent.block, self.recent.addr))
    }

    /// The block was handed out for as many rounded bytes as before, but other ones were asked for.
    #[cold]
    fn change_request(&mut self, requested: u64) {
        self.count_cycles();
        self.counters.replace(Metric::RequestedBytes, self.recent.requested, requested);
        self.recent.requested = requested;
        self.blocks[self.recent.block].requested = requested;
    }

    /// Puts the free of the last block handed out off, if that is the one at `addr`. Nothing waits for such a block: streams
    /// are recorded with the device standing still, which catches up.
    #[inline]
    pub fn put_off(&mut self, addr: u64) -> bool {
        if self.recent.addr != addr || self.recent.returned {
            return false;
        }
        self.recent.returned = true;
        if !self.stacks.is_empty() {
            self.stacks.remove(&self.recent.block);
        }
        true
    }

    /// Carries out a free that was put off, and forgets the last hand-out: something else is about to happen.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.recent.returned || self.recent.cycles > 0 {
            self.catch_up_now();
        }
        (self.recent.block, self.recent.addr) = (NONE, 0);
    }

    fn catch_up_now(&mut self) {
        self.count_cycles();
        let Recent { block, returned, .. } = std::mem::take(&mut self.recent);
        if returned {
            self.retire(block);
            self.complete_free(block);
        }
    }

    /// Enters the cycles into the books: each was a free and an allocation of the same block.
    fn count_cycles(&mut self) {
        let cycles = std::mem::take(&mut self.recent.cycles);
        if cycles > 0 {
            for (metric, by) in self.handed_out() {
                // One of the two raised the figure, the other lowered it.
                self.counters.cycle(metric, cycles * by.unsigned_abs());
            }
        }
    }

    /// How the last hand-out changed the figures.
    fn handed_out(&self) -> [(Metric, i64); 8] {
        let Recent { block, requested, split, .. } = self.recent;
        let size = self.blocks[block].size;
        let oversize = i64::from(size >= self.policy.max_split_size);
        [
            (Metric::Allocation, 1),
            (Metric::AllocatedBytes, size as i64),
            (Metric::RequestedBytes, requested as i64),
            (Metric::Active, 1),
            (Metric::ActiveBytes, size as i64),
            (Metric::OversizeAllocations, oversize),
            (Metric::InactiveSplit, split.0),
            (Metric::InactiveSplitBytes, split.1),
        ]
    }

    /// Gives up what it does not use of the leases that another pool is short of. A free that was put off counts as carried out:
    /// to hand the block out again is to settle first. A block that is out is remembered no longer, for its free could raise
    /// figures beyond what is left.
    /// Returns whether there was anything.
    pub fn lend(&mut self, peaks: &mut Peaks, short: &Counters) -> bool {
        let (class, returned) = (self.key.class, self.recent.returned);
        if !returned {
            self.catch_up();
            return peaks.take_back(class, &mut self.counters, |_| 0, short);
        }
        self.recent.lent = true;
        let out = self.handed_out();
        let idle = |metric| out.iter().find(|(other, _)| *other == metric).map_or(0, |&(_, by)| by);
        peaks.take_back(class, &mut self.counters, idle, short)
    }
}
