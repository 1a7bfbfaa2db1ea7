//! How high memory stood in each pool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use millpond::config::Settings;
use millpond::{Action, BlockUse, Event, Observer, PoolId};
use millpond_driver::Bytes;
use millpond_replay::RunError;
use serde::Serialize;

use crate::trial::Patient;

/// What a pool takes. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolWater {
    /// `[0,0]` is the default pool, `[k,0]` a graph's, `[0,k]` a user's.
    pub pool: [u64; 2],
    /// The most that it held from the driver at any time.
    pub high_water: u64,
    /// In blocks that were never freed, such as weights.
    pub kept: u64,
}

impl PoolWater {
    /// Whether it is the default pool.
    pub fn is_default(&self) -> bool {
        self.pool == [0, 0]
    }
}

/// Follows the driver's memory of each pool, bytes: now and at most.
#[derive(Default)]
struct Gauge(Mutex<BTreeMap<PoolId, (u64, u64)>>);

impl Gauge {
    fn pools(&self) -> std::sync::MutexGuard<'_, BTreeMap<PoolId, (u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rise(&self, pool: PoolId, bytes: u64) {
        let mut pools = self.pools();
        let (now, most) = pools.entry(pool).or_default();
        *now += bytes;
        *most = (*most).max(*now);
    }

    fn fall(&self, pool: PoolId, bytes: u64) {
        let mut pools = self.pools();
        let (now, _) = pools.entry(pool).or_default();
        *now = now.saturating_sub(bytes);
    }
}

impl Observer for Gauge {
    fn events(&self, events: &[Event]) {
        for event in events {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => self.rise(event.pool, event.size),
                Action::SegmentFree | Action::SegmentUnmap => self.fall(event.pool, event.size),
                _ => {}
            }
        }
    }
}

/// What each pool of the first device takes, the default pool first; nothing if the start state does not fit.
pub(super) fn by_pool(patient: &Patient<'_>, settings: &Settings, capacity: Bytes) -> Result<Vec<PoolWater>, RunError> {
    let watched = patient.run(settings, capacity, |program| {
        let gauge = Arc::new(Gauge::default());
        for segment in program.machine().allocator().segments() {
            gauge.rise(segment.pool, segment.mapped());
        }
        program.machine().allocator().attach_observer(Arc::clone(&gauge) as Arc<dyn Observer>);
        while program.next_request()?.is_some() {}
        let mut pools: BTreeMap<PoolId, PoolWater> = BTreeMap::new();
        for (&id, &(_, high_water)) in &*gauge.pools() {
            pools.insert(id, PoolWater { pool: [id.0, id.1], high_water, kept: 0 });
        }
        for segment in program.machine().allocator().segments() {
            let live = segment.blocks.iter().filter(|block| block.state == BlockUse::Live);
            if let Some(pool) = pools.get_mut(&segment.pool) {
                pool.kept += live.map(|block| block.size).sum::<u64>();
            }
        }
        Ok(pools.into_values().collect())
    })?;
    Ok(watched.unwrap_or_default())
}
