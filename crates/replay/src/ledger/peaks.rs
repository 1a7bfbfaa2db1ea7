//! When the peaks were.
//!
//! The allocator's peaks are exact, and say nothing about when. Looking after every request costs more than the requests;
//! so one run looks now and then, which tells within how many requests each peak was reached for the first time, and a
//! second run looks closely just there.

use millpond::{Allocator, Metric};

/// The metrics whose peaks are dated.
pub(super) const DATED: [Metric; 4] =
    [Metric::AllocatedBytes, Metric::ActiveBytes, Metric::RequestedBytes, Metric::ReservedBytes];

/// Requests between two looks of the first run.
pub(super) const STRIDE: u64 = 1024;

/// The peaks of all dated metrics, bytes.
pub(super) fn now(allocator: &Allocator) -> [u64; 4] {
    let stats = allocator.stats();
    DATED.map(|metric| stats.all(metric).peak)
}

/// The first run's view: the stride in which each peak was reached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coarse {
    pub peaks: [u64; 4],
    /// How many requests were made before the stride in which the peak was reached.
    pub from: [u64; 4],
    seen: u64,
}

impl Coarse {
    /// Looks after `made` requests.
    pub fn look(&mut self, allocator: &Allocator, made: u64) {
        let now = now(allocator);
        for ((peak, from), now) in self.peaks.iter_mut().zip(&mut self.from).zip(now) {
            if now > *peak {
                (*peak, *from) = (now, self.seen);
            }
        }
        self.seen = made;
    }
}

/// The second run's view: the request after which each peak stood.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fine {
    coarse: Coarse,
    pub at: [Option<u64>; 4],
}

impl Fine {
    pub fn new(coarse: Coarse) -> Self {
        // A peak of nothing is as old as the run.
        Fine { coarse, at: coarse.peaks.map(|peak| (peak == 0).then_some(0)) }
    }

    /// Looks after request `request`, if a peak may have been reached by it.
    pub fn look(&mut self, allocator: &Allocator, request: u64) {
        let due = |(at, from): (&Option<u64>, &u64)| at.is_none() && request >= *from;
        if !self.at.iter().zip(&self.coarse.from).any(due) {
            return;
        }
        for ((at, peak), now) in self.at.iter_mut().zip(self.coarse.peaks).zip(now(allocator)) {
            if now >= peak {
                at.get_or_insert(request);
            }
        }
    }

    pub fn is_complete(&self) -> bool {
        self.at.iter().all(Option::is_some)
    }
}
