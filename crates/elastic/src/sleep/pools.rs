//! Memory pools of an allocator under a tag: they sleep and wake with its allocations.

use millpond::{Allocator, Caller, PoolId, Slept};

use super::{Keep, Sleeper};
use crate::error::{Error, Result};

/// A memory pool under a tag.
#[derive(Clone, Debug)]
pub(super) struct TaggedPool {
    pub tag: String,
    pub allocator: Allocator,
    pub pool: PoolId,
}

impl TaggedPool {
    /// Whether the allocator has the pool still: it goes when its last owner lets go.
    pub fn exists(&self) -> bool {
        self.allocator.pool_use_count(self.pool).is_ok()
    }

    pub fn is_asleep(&self) -> bool {
        self.allocator.is_asleep(self.pool)
    }
}

impl Sleeper {
    /// Puts memory pools to sleep, one after the other; if one cannot, those before it wake again.
    pub(super) fn sleep_pools(&self, pools: &[TaggedPool], keep: Keep) -> Result<Slept> {
        let caller = Caller::on(self.stream);
        let kept = (keep == Keep::Contents).then_some(&self.host);
        let sleep = |pool: &TaggedPool| pool.allocator.sleep(pool.pool, kept, &caller);
        each(pools, sleep, |pool, _| drop(pool.allocator.wake(pool.pool, &caller)))
    }

    /// Wakes memory pools, one after the other; if one cannot, those before it sleep again, with what they had kept.
    pub(super) fn wake_pools(&self, pools: &[TaggedPool]) -> Result<Slept> {
        let caller = Caller::on(self.stream);
        let wake = |pool: &TaggedPool| pool.allocator.wake(pool.pool, &caller);
        each(pools, wake, |pool, woken| {
            let kept = (woken.contents > 0).then_some(&self.host);
            drop(pool.allocator.sleep(pool.pool, kept, &caller));
        })
    }
}

/// Does something with each pool; after a failure it is undone where it was done. The first error counts.
fn each(
    pools: &[TaggedPool],
    act: impl Fn(&TaggedPool) -> millpond::Result<Slept>,
    undo: impl Fn(&TaggedPool, Slept),
) -> Result<Slept> {
    let mut done: Vec<(&TaggedPool, Slept)> = Vec::with_capacity(pools.len());
    // A pool that went meanwhile has nothing to give or to take.
    for pool in pools.iter().filter(|pool| pool.exists()) {
        match act(pool) {
            Ok(slept) => done.push((pool, slept)),
            Err(error) => {
                done.into_iter().rev().for_each(|(pool, slept)| undo(pool, slept));
                return Err(Error::Pool(error));
            }
        }
    }
    let sum = |of: fn(&Slept) -> u64| done.iter().map(|(_, slept)| of(slept)).sum();
    Ok(Slept { bytes: sum(|slept| slept.bytes), contents: sum(|slept| slept.contents) })
}
