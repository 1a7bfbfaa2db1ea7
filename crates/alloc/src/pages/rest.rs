//! Pages that are needed in two places by turns come to rest.
//!
//! A page that leaves a place and comes back, again and again, costs driver calls for ever. Two things end that, and whoever
//! would have had the page gets new memory. A place that has lost its page often keeps the next one: soon, as long as no more
//! is held than was in use at the peak, and late where more would be. And moves are paid for by growth: when so many bytes have
//! moved as [`CREDIT`] times the most that was in use, pages stay, as long as what is held is not far above that.

use crate::device::Held;
use crate::segment::Pages;
use crate::stats::Metric;

/// So often a place may lose its page while there is room below the peak.
const RESTLESS: u8 = 4;
/// So often in any case.
const WEARY: u8 = 12;
/// So many times the most that was in use may move in all, while there is room within [`SLACK`].
const CREDIT: u64 = 3;
/// The part of the most that was in use that may be held beyond it when the credit is spent: a fifth. What a program that does
/// the same again and again needs without moves is mostly less.
const SLACK: u64 = 5;

/// How often a place may lose its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience(u8);

/// What has moved, against what was in use.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The most bytes that were in use, live or waiting for events.
    most_in_use: u64,
    /// Bytes that have moved.
    moved: u64,
}

impl Rest {
    pub fn note_move(&mut self, bytes: u64) {
        self.moved += bytes;
    }

    /// The patience of a request that would have `held` bytes held with new memory, and `active` in use.
    fn patience(&mut self, held: u64, active: u64) -> Patience {
        self.most_in_use = self.most_in_use.max(active);
        let most = self.most_in_use;
        if held <= most + most / SLACK && self.moved > CREDIT * most {
            Patience::NONE
        } else if held <= most {
            Patience(RESTLESS)
        } else {
            Patience(WEARY)
        }
    }
}

impl Patience {
    /// Memory is short: every free page may go.
    pub const ENDLESS: Patience = Patience(u8::MAX);
    /// None may.
    pub const NONE: Patience = Patience(0);

    /// Whether the page at home at a place stays.
    pub fn is_over(self, pages: &Pages, number: u64) -> bool {
        self != Patience::ENDLESS && pages.departures(number) >= self.0
    }
}

impl Held<'_> {
    /// The patience of a request that could have `bytes` of new memory instead.
    pub(super) fn patience(&mut self, bytes: u64) -> Patience {
        let active: i64 = self.pools.iter().map(|pool| pool.counters.current(Metric::ActiveBytes)).sum();
        let held = self.ladder.total_allocated + bytes;
        self.ladder.rest.patience(held, active as u64 + bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Patience, RESTLESS, Rest, WEARY};

    #[test]
    fn patience_ends_with_the_room_below_the_peak_and_with_the_credit() {
        let mut rest = Rest::default();
        assert_eq!(rest.patience(100, 100), Patience(RESTLESS), "nothing is held but what is in use");
        assert_eq!(rest.patience(101, 90), Patience(WEARY), "more would be held than ever was in use");
        rest.note_move(300);
        assert_eq!(rest.patience(120, 90), Patience(WEARY), "three times the peak is the credit");
        rest.note_move(1);
        assert_eq!(rest.patience(120, 90), Patience::NONE, "it is spent");
        assert_eq!(rest.patience(121, 90), Patience(WEARY), "a fifth above the peak is as much as rest may cost");
        assert_eq!(rest.patience(121, 101), Patience(WEARY), "growth brings credit");
        assert_eq!(rest.patience(101, 101), Patience(RESTLESS));
    }
}
