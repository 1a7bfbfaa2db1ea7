//! Peaks over all pools, kept exact by leases.

use super::counters::{Counters, Metric};
use super::values::Stat;
use crate::size::SizeClass;

/// The peaks of every metric, and where the accumulated figures were last reset.
///
/// Invariant: for every metric, the leases of all pools sum to no more than the peak, and those of one class to no more
/// than the peak of the class. A pool below its lease therefore cannot raise a peak.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    /// All, small class, large class.
    peak: [[i64; 3]; Metric::COUNT],
    /// (grown, freed) at the last reset.
    base: [[(i64, i64); 3]; Metric::COUNT],
}

/// A column and whether a class counts in it.
const COLUMNS: [Option<SizeClass>; 3] = [None, Some(SizeClass::Small), Some(SizeClass::Large)];

fn counts_in(class: SizeClass, column: Option<SizeClass>) -> bool {
    column.is_none_or(|only| only == class)
}

impl Peaks {
    /// Raises the peaks to what the pools hold now, and renews the leases of the pool `grown` at the cost of the others'
    /// slack. `pools` gives each pool's class and counters.
    pub fn settle(&mut self, pools: &mut [(SizeClass, &mut Counters)], grown: usize) {
        for metric in Metric::ALL {
            let m = metric as usize;
            if pools[grown].1.current(metric) <= pools[grown].1.lease(metric) {
                continue;
            }
            let class = pools[grown].0;
            let mut headroom = i64::MAX;
            for (column, peak) in COLUMNS.iter().zip(&mut self.peak[m]).filter(|(column, _)| counts_in(class, **column))
            {
                let held: i64 =
                    pools.iter().filter(|(c, _)| counts_in(*c, *column)).map(|(_, pool)| pool.current(metric)).sum();
                *peak = (*peak).max(held);
                let leased: i64 = pools
                    .iter()
                    .enumerate()
                    .filter(|&(i, (c, _))| i != grown && counts_in(*c, *column))
                    .map(|(_, (_, pool))| pool.lease(metric))
                    .sum();
                headroom = headroom.min(*peak - leased);
            }
            let need = pools[grown].1.current(metric);
            if headroom < need {
                // The others give up what they do not use; then there is room, for the peak is at least the sum held. One that
                // outgrew its own lease meanwhile keeps it: it has yet to settle, and then raises the peak of its class.
                for (_, pool) in pools.iter_mut() {
                    let lease = pool.current(metric).min(pool.lease(metric));
                    pool.set_lease(metric, lease);
                }
                headroom = COLUMNS
                    .iter()
                    .zip(&self.peak[m])
                    .filter(|(column, _)| counts_in(class, **column))
                    .map(|(column, peak)| {
                        let held: i64 = pools
                            .iter()
                            .filter(|(c, _)| counts_in(*c, *column))
                            .map(|(_, pool)| pool.current(metric))
                            .sum();
                        need + (peak - held)
                    })
                    .min()
                    .unwrap_or(need);
            }
            // Half of what is left over stays for the others, so that two busy pools do not settle in turn.
            pools[grown].1.set_lease(metric, need + (headroom - need + 1) / 2);
        }
        pools[grown].1.unsettled = false;
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
            for (column, peak) in COLUMNS.iter().zip(&mut self.peak[metric as usize]) {
                *peak = pools
                    .iter()
                    .filter(|(class, _)| counts_in(*class, *column))
                    .map(|(_, pool)| pool.current(metric))
                    .sum();
            }
            for (_, pool) in pools.iter_mut() {
                let current = pool.current(metric);
                pool.set_lease(metric, current);
            }
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
            for (column, peak) in COLUMNS.iter().zip(self.peak[metric as usize]) {
                let members = || pools.iter().filter(|(class, _)| counts_in(*class, *column));
                let leased: i64 = members().map(|(_, pool)| pool.lease(metric)).sum();
                let held: i64 = members().map(|(_, pool)| pool.current(metric)).sum();
                if leased > peak || held > peak {
                    wrong(format!("{} {column:?}: peak {peak}, held {held}, leased {leased}", metric.key()));
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
