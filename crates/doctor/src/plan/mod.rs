//! What is left of a device for a cache: by account, and by replay.

mod water;

use millpond_driver::Bytes;
use millpond_replay::RunError;
use serde::Serialize;

use crate::conf::Conf;
use crate::trial::{Patient, Until};
pub use water::PoolWater;

/// What is left for a cache beside recorded requests. Bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CachePlan {
    /// The device's memory.
    pub total: u64,
    /// Of that, what others take: contexts, communication, other processes.
    pub others: u64,
    /// How many requests were made.
    pub requests: u64,
    /// The setting's text.
    pub conf: String,
    /// Whether every request is served without a cache.
    pub fits: bool,
    /// The most that the requests hold from the driver without a cache.
    pub peak_reserved: u64,
    /// What each pool takes without a cache: the default pool first.
    pub pools: Vec<PoolWater>,
    /// The account: total less others, less what the default pool never frees, less the high water of every other pool.
    pub left: u64,
    /// The largest cache with which every request is served.
    pub cache: Option<LargestCache>,
}

/// The largest cache with which every request is served, found by replay. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LargestCache {
    /// The cache: there from the first request to the last, in memory of its own.
    pub bytes: u64,
    /// A smaller cache that fails all the same: a full device is cleared, and what follows may lie better.
    pub fails_below: Option<u64>,
    /// The steps of the search.
    pub step: u64,
}

/// Replays requests beside caches of several sizes on a device of `capacity`.
///
/// # Errors
/// A request that makes no sense.
pub fn plan(patient: &Patient<'_>, conf: &Conf, capacity: Bytes, step: Bytes) -> Result<CachePlan, RunError> {
    let (total, others) = (capacity.0, patient.others.0);
    let alone = patient.replay(&conf.settings, capacity, Until::End)?;
    let pools = water::by_pool(patient, &conf.settings, capacity)?;
    let taken = pools.iter().map(|pool| if pool.is_default() { pool.kept } else { pool.high_water });
    let left = taken.fold(total.saturating_sub(others), u64::saturating_sub);
    let cache = match alone.survives() {
        true => Some(largest(patient, conf, capacity, step, alone.peak_allocated)?),
        false => None,
    };
    Ok(CachePlan {
        total,
        others,
        requests: patient.len() as u64,
        conf: conf.text.clone(),
        fits: alone.survives(),
        peak_reserved: alone.peak_reserved,
        pools,
        left,
        cache,
    })
}

/// By bisection between no cache, with which the requests are served, and one beside which live blocks alone have no room.
fn largest(
    patient: &Patient<'_>,
    conf: &Conf,
    capacity: Bytes,
    step: Bytes,
    live: u64,
) -> Result<LargestCache, RunError> {
    let step = step.0.max(1 << 21);
    let mut low = 0;
    let mut high = capacity.0.saturating_sub(patient.others.0).saturating_sub(live) / step * step + step;
    let mut failed: Vec<u64> = Vec::new();
    while high > low + step {
        let middle = low.midpoint(high) / step * step;
        // A cache that is there from the start is memory that nobody else ever has.
        let beside = Patient { others: Bytes(patient.others.0 + middle), ..*patient };
        if beside.replay(&conf.settings, capacity, Until::FirstOom)?.survives() {
            low = middle;
        } else {
            high = middle;
            failed.push(middle);
        }
    }
    let fails_below = failed.into_iter().filter(|&failed| failed < low).max();
    Ok(LargestCache { bytes: low, fails_below, step })
}

#[cfg(test)]
mod tests {
    use millpond_replay::Workload;
    use millpond_replay::workload::ReadOptions;
    use millpond_sim::EventMode;

    use super::*;
    use crate::trial::Requests;

    const MIB: u64 = 1 << 20;

    fn planned(script: &str, conf: &str, capacity: u64, others: u64) -> CachePlan {
        let workload = Workload::read(script.as_bytes(), ReadOptions::default()).unwrap();
        let requests = Requests::Workload { workload: &workload, events: EventMode::Immediate };
        let patient = Patient { requests, others: Bytes(others), anew: false };
        plan(&patient, &Conf::read(conf).unwrap(), Bytes(capacity), Bytes(2 * MIB)).unwrap()
    }

    fn alloc(id: u64, mib: u64) -> String {
        format!("{{\"op\":\"alloc\",\"id\":{id},\"size\":{},\"stream\":0}}\n", mib * MIB)
    }

    fn free(id: u64) -> String {
        format!("{{\"op\":\"free\",\"id\":{id}}}\n")
    }

    #[test]
    fn the_largest_cache_leaves_what_the_requests_need_and_no_more() {
        // Weights of 100 MiB stay; work of 60 MiB comes and goes.
        let script = [alloc(0, 100), alloc(1, 60), free(1), alloc(2, 60), free(2)].concat();
        let plan = planned(&script, "", 1000 * MIB, 40 * MIB);
        assert_eq!((plan.fits, plan.pools.len(), plan.peak_reserved), (true, 1, 160 * MIB));
        assert_eq!((plan.pools[0].kept, plan.pools[0].high_water), (100 * MIB, 160 * MIB));
        assert_eq!(plan.left, 860 * MIB);
        let cache = plan.cache.unwrap();
        assert_eq!(cache, LargestCache { bytes: 800 * MIB, fails_below: None, step: 2 * MIB });
        // One step more and they are not served.
        let workload = Workload::read(script.as_bytes(), ReadOptions::default()).unwrap();
        let requests = Requests::Workload { workload: &workload, events: EventMode::Immediate };
        let others = |cache: u64| Patient { requests, others: Bytes(40 * MIB + cache), anew: false };
        let survives = |cache: u64| {
            others(cache).replay(&Conf::default().settings, Bytes(1000 * MIB), Until::End).unwrap().survives()
        };
        assert!(survives(cache.bytes) && !survives(cache.bytes + cache.step));
    }

    #[test]
    fn the_setting_decides_how_large_it_is() {
        // 8 × 16 MiB, then 4 × 32 MiB (C03): the default clears its cache, and expandable segments never hold more.
        let mut script: String = (0..8).map(|id| alloc(id, 16)).collect();
        script.extend((0..7).map(free));
        script.extend((8..11).map(|id| alloc(id, 32)));
        let cache = |conf: &str| planned(&script, conf, 400 * MIB, 0).cache.unwrap().bytes;
        assert!(cache("expandable_segments:True") >= 400 * MIB - 140 * MIB);
        assert_eq!(cache(""), 400 * MIB - 128 * MIB, "the 16 MiB that stay have a segment of their own");
    }

    #[test]
    fn requests_that_do_not_fit_alone_leave_nothing() {
        let plan = planned(&alloc(0, 100), "", 90 * MIB, 0);
        assert_eq!((plan.fits, plan.cache), (false, None));
        assert_eq!(plan.left, 90 * MIB, "nothing was ever held");
    }
}
