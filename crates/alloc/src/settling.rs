//! Settling: a pool that outgrew a lease gets a larger one (`stats/peaks.rs`).
//!
//! Many streams that take turns at the peak of the device do this at every turn, so it looks at as few pools as will do. Whoever
//! holds the ladder may take a second pool in any order: nobody else waits for one while holding another.

use crate::device::{Core, Held};
use crate::pool::Pool;
use crate::stats::{Member, Peaks};

/// So many pools are looked at where they are, without holding all of the device.
const FEW: usize = 4;

impl Core {
    /// Settles the peaks for a pool that outgrew a lease; its lock has been let go, for the ladder comes first.
    #[cold]
    pub fn settle(&self, index: u32) {
        let mut ladder = self.hold_ladder();
        let mut pool = self.pools[index as usize].lock();
        let peaks = &mut ladder.peaks;
        let is_settled = peaks.are_rising() && self.settle_with_all(peaks, index, &mut pool)
            || self.settle_with_some(peaks, index, &mut pool)
            || self.settle_with_all(peaks, index, &mut pool);
        drop(pool);
        if is_settled {
            ladder.peaks.note_given(index);
        } else {
            self.hold_all(ladder).settle(index);
        }
    }

    /// Gives the pool leases of what is left of the peaks, or of what a few others do not use. Whether that was enough.
    fn settle_with_some(&self, peaks: &mut Peaks, index: u32, pool: &mut Pool) -> bool {
        if peaks.give(pool.key.class, &mut pool.counters) {
            return true;
        }
        let others = peaks.asked().into_iter().flatten().filter(|&other| other != index);
        others.into_iter().any(|other| {
            let has_lent = self.pools[other as usize].lock().lend(peaks, &pool.counters);
            has_lent && peaks.give(pool.key.class, &mut pool.counters)
        })
    }

    /// Looks at all pools, where they are few: a program on one stream has two, and while it grows every allocation is a new
    /// peak. Whether they are few.
    fn settle_with_all(&self, peaks: &mut Peaks, index: u32, pool: &mut Pool) -> bool {
        let count = self.pools.count();
        if count > FEW {
            return false;
        }
        let is_other = |at: &usize| *at < count && *at != index as usize;
        let mut others: [_; FEW] = std::array::from_fn(|at| is_other(&at).then(|| self.pools[at].lock()));
        pool.catch_up();
        others.iter_mut().flatten().for_each(|other| other.catch_up());
        let mut others = others.each_mut().map(|other| other.as_mut().map(|other| other.member()));
        peaks.settle(pool.member(), &mut others);
        true
    }
}

impl Held<'_> {
    /// Settles the peaks if the pool outgrew a lease, with a look at all pools.
    pub fn settle(&mut self, pool: u32) {
        if self.pools[pool as usize].counters.unsettled {
            let mut others: Vec<_> = self.pools.iter_mut().map(|pool| Some(pool.member())).collect();
            let Some(grown) = others[pool as usize].take() else { unreachable!("it was just put there") };
            self.ladder.peaks.settle(grown, &mut others);
            self.ladder.peaks.note_given(pool);
        }
    }
}

impl Pool {
    fn member(&mut self) -> Member<'_> {
        (self.key.class, &mut self.counters)
    }
}
