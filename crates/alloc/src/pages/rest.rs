//! Pages that are needed in two places by turns come to rest.
//!
//! A page that leaves a place and comes back, again and again, costs driver calls for ever. So a place that has lost its page
//! often keeps the next one, and whoever would have had it gets new memory: soon, as long as no more is held than was in use
//! at the peak, and late, if at all, where more would be.

use crate::device::Held;
use crate::segment::Pages;
use crate::stats::Metric;

/// So often a place may lose its page while there is room below the peak.
const RESTLESS: u8 = 4;
/// So often in any case.
const WEARY: u8 = 12;

/// How often a place may lose its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience(u8);

impl Patience {
    /// Memory is short: every free page may go.
    pub const ENDLESS: Patience = Patience(u8::MAX);

    /// Whether the page at home at a place stays.
    pub fn is_over(self, pages: &Pages, number: u64) -> bool {
        self != Patience::ENDLESS && pages.departures(number) >= self.0
    }
}

impl Held<'_> {
    /// The patience of a request that could have `bytes` of new memory instead.
    pub(super) fn patience(&mut self, bytes: u64) -> Patience {
        let active: i64 = self.pools.iter().map(|pool| pool.counters.current(Metric::ActiveBytes)).sum();
        let ladder = &mut self.ladder;
        ladder.most_in_use = ladder.most_in_use.max(active as u64 + bytes);
        Patience(if ladder.total_allocated + bytes <= ladder.most_in_use { RESTLESS } else { WEARY })
    }
}
