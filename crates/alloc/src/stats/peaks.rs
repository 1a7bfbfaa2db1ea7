//! Peaks over all pools, kept exact by leases.

use super::counters::{Counters, Metric};
use super::values::Stat;
use crate::size::SizeClass;

/// The peaks of every metric, and where the accumulated figures were last reset.
///
/// Invariant: for every metric, the leases of all pools sum to no more than the peak, and those of one class to no more
/// than the peak of the class. A pool below its lease therefore cannot raise a peak.
///
/// A pool that outgrows a lease gets another one from what is left of the peak, or from what another pool does not use: that
/// takes the two pools' locks. Only where neither is enough has a peak been passed, perhaps; then all pools are looked at.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    peak: [Columns; Metric::COUNT],
    /// The leases of all pools.
    leased: [Columns; Metric::COUNT],
    /// (grown, freed) at the last reset.
    base: [[(i64, i64); 3]; Metric::COUNT],
    /// The pools that were given leases last, the latest one first: those that are most likely to have some to spare.
    given: Vec<u32>,
    /// Whether the last settling raised a peak: then the next one does, too, most likely.
    rising: bool,
}

/// All, small class, large class.
type Columns = [i64; 3];

/// A pool: its class and its counters.
pub(crate) type Member<'a> = (SizeClass, &'a mut Counters);

const COLUMNS: [Option<SizeClass>; 3] = [None, Some(SizeClass::Small), Some(SizeClass::Large)];

fn counts_in(class: SizeClass, column: Option<SizeClass>) -> bool {
    column.is_none_or(|only| only == class)
}

/// The columns in which a class counts.
fn columns(class: SizeClass) -> [usize; 2] {
    [0, 1 + class as usize]
}

/// The metrics of which a pool holds more than its lease.
#[inline]
fn outgrown(counters: &Counters) -> impl Iterator<Item = Metric> + use<> {
    let mut short = counters.outgrown();
    std::iter::from_fn(move || {
        let metric = Metric::ALL.get(short.trailing_zeros() as usize)?;
        short &= short - 1;
        Some(*metric)
    })
}

impl Peaks {
    /// How many pools are asked for what they do not use, before all are looked at.
    const ASKED: usize = 8;

    /// How large the lease of a pool may be.
    fn room(&self, metric: Metric, class: SizeClass, counters: &Counters) -> i64 {
        let (peak, leased) = (&self.peak[metric as usize], &self.leased[metric as usize]);
        let [all, own] = columns(class).map(|column| peak[column] - leased[column]);
        all.min(own) + counters.lease(metric)
    }

    fn set_lease(&mut self, metric: Metric, class: SizeClass, counters: &mut Counters, lease: i64) {
        let change = lease - counters.lease(metric);
        counters.set_lease(metric, lease);
        columns(class).into_iter().for_each(|column| self.leased[metric as usize][column] += change);
    }

    /// Gives a pool leases for what it holds, where there is room. Whether there was room for all.
    pub fn give(&mut self, class: SizeClass, counters: &mut Counters) -> bool {
        counters.unsettled = false;
        for metric in outgrown(counters) {
            let (room, need) = (self.room(metric, class, counters), counters.current(metric));
            if room < need {
                counters.unsettled = true;
            } else {
                // Half of what is left over stays for the others, so that two busy pools do not settle in turn.
                self.set_lease(metric, class, counters, need + (room - need + 1) / 2);
            }
        }
        !counters.unsettled
    }

    /// Takes back what a pool does not need of the leases that another one is short of; it holds `idle` less than its figures say.
    /// Returns whether there was anything.
    pub fn take_back(
        &mut self,
        class: SizeClass,
        counters: &mut Counters,
        idle: impl Fn(Metric) -> i64,
        short: &Counters,
    ) -> bool {
        let mut any = false;
        for metric in outgrown(short) {
            // One that outgrew its own lease keeps it: it has yet to settle, and then raises the peak of its class.
            let lease = (counters.current(metric) - idle(metric)).min(counters.lease(metric));
            any |= lease < counters.lease(metric);
            self.set_lease(metric, class, counters, lease);
        }
        any
    }

    /// Whether asking some pools is most likely in vain.
    pub fn are_rising(&self) -> bool {
        self.rising
    }

    /// The pools to ask, the most promising ones first.
    pub fn asked(&self) -> [Option<u32>; Self::ASKED] {
        std::array::from_fn(|at| self.given.get(at).copied())
    }

    /// A pool was given leases.
    pub fn note_given(&mut self, pool: u32) {
        if self.given.first() != Some(&pool) {
            self.given.retain(|&other| other != pool);
            self.given.truncate(Self::ASKED - 1);
            self.given.insert(0, pool);
        }
    }

    /// Raises the peaks to what the pools hold now, and renews the leases of the one that has grown at the cost of what the
    /// others do not use. Pools are their class and counters; of the others some places may be empty.
    pub fn settle(&mut self, grown: Member<'_>, others: &mut [Option<Member<'_>>]) {
        let (class, counters) = grown;
        self.rising = false;
        for metric in outgrown(counters) {
            // What each class holds; the one that has grown keeps its lease until it gets the new one.
            let mut held = [0; 2];
            held[class as usize] = counters.current(metric);
            for (class, pool) in others.iter().flatten() {
                held[*class as usize] += pool.current(metric);
            }
            let peak = &mut self.peak[metric as usize];
            let held = [held[0] + held[1], held[0], held[1]];
            for (peak, held) in peak.iter_mut().zip(held) {
                self.rising |= held > *peak;
                *peak = (*peak).max(held);
            }
            if self.room(metric, class, counters) < counters.current(metric) {
                for (class, pool) in others.iter_mut().flatten() {
                    // As in `take_back`.
                    let lease = pool.current(metric).min(pool.lease(metric));
                    self.set_lease(metric, *class, pool, lease);
                }
            }
        }
        let there_was_room = self.give(class, counters);
        debug_assert!(there_was_room, "the peak is at least what all hold");
    }

    /// The statistics of one metric: all, small class, large class.
    pub fn stats(&self, metric: Metric, pools: &[(SizeClass, &Counters)]) -> [Stat; 3] {
        let m = metric as usize;
        std::array::from_fn(|c| {
            let (current, grown) = sums(metric, COLUMNS[c], pools);
            let (grown_base, freed_base) = self.base[m][c];
            Stat {
                current,
                peak: self.peak[m][c] as u64,
                allocated: (grown - grown_base) as u64,
                freed: (grown - current - freed_base) as u64,
            }
        })
    }

    /// R8.1: peaks become what is held now.
    pub fn reset_peaks(&mut self, pools: &mut [(SizeClass, &mut Counters)]) {
        for metric in Metric::ALL {
            for (class, pool) in pools.iter_mut() {
                let current = pool.current(metric);
                self.set_lease(metric, *class, pool, current);
            }
            // Every pool has a lease for just what it holds.
            self.peak[metric as usize] = self.leased[metric as usize];
        }
    }

    /// R8.1: accumulated figures start again from 0.
    pub fn reset_accumulated(&mut self, pools: &[(SizeClass, &Counters)]) {
        for metric in Metric::ALL {
            for (c, column) in COLUMNS.into_iter().enumerate() {
                let (current, grown) = sums(metric, column, pools);
                self.base[metric as usize][c] = (grown, grown - current);
            }
        }
    }
}

impl Peaks {
    /// Checks the invariant of the leases.
    pub fn check(&self, pools: &[(SizeClass, &Counters)], wrong: &mut dyn FnMut(String)) {
        for metric in Metric::ALL {
            let figures = self.peak[metric as usize].into_iter().zip(self.leased[metric as usize]);
            for (column, (peak, booked)) in COLUMNS.iter().zip(figures) {
                let members = || pools.iter().filter(|(class, _)| counts_in(*class, *column));
                let leased: i64 = members().map(|(_, pool)| pool.lease(metric)).sum();
                let held: i64 = members().map(|(_, pool)| pool.current(metric)).sum();
                if leased > peak || held > peak {
                    wrong(format!("{} {column:?}: peak {peak}, held {held}, leased {leased}", metric.key()));
                }
                if leased != booked {
                    wrong(format!("{} {column:?}: leased {leased}, booked {booked}", metric.key()));
                }
            }
        }
    }
}

/// (current, grown) of a metric over the pools that count in a column.
fn sums(metric: Metric, column: Option<SizeClass>, pools: &[(SizeClass, &Counters)]) -> (i64, i64) {
    pools
        .iter()
        .filter(|(class, _)| counts_in(*class, column))
        .fold((0, 0), |(current, grown), (_, pool)| (current + pool.current(metric), grown + pool.grown(metric) as i64))
}
