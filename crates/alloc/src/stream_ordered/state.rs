//! What is known beside the driver: live allocations, limits, and the capture.

use std::collections::{BTreeMap, BTreeSet};

use millpond_driver::{Device, Driver, DriverPool, PoolAttribute, Stream};

use crate::error::Result;

/// The state of all devices.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Devices that were used (R6.2).
    pub devices: BTreeMap<Device, DevicePool>,
    /// By address.
    pub live: BTreeMap<u64, Allocation>,
    /// A capture is under way, somewhere in the process (R6.6).
    pub capturing: bool,
    /// Streams on which memory was freed in the capture: they join the capturing one at its end (R6.6).
    pub freed_on: BTreeSet<Stream>,
    /// Allocations from before the capture that were freed in it: they are freed after it (R6.6).
    pub deferred: Vec<(u64, Allocation)>,
}

/// A live allocation.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// Bytes, as asked for.
    pub size: u64,
    /// The stream it was made on.
    pub stream: Stream,
    /// Other streams that use it.
    pub recorded: BTreeSet<Stream>,
    /// Made in a capture.
    pub captured: bool,
}

/// A device that was used.
#[derive(Debug)]
pub(crate) struct DevicePool {
    pub pool: DriverPool,
    /// The stream on which memory is freed that several streams used (R6.4).
    pub unifier: Stream,
    /// Bytes of live allocations.
    pub used: u64,
    /// The most that may be live; `u64::MAX` without a limit.
    pub limit: u64,
}

impl DevicePool {
    /// Sets the device's default pool up: it keeps what it has, and may reuse memory by every rule (R6.2).
    fn new(driver: &dyn Driver, device: Device) -> Result<Self> {
        let pool = driver.default_mem_pool(device)?;
        driver.mem_pool_set(pool, PoolAttribute::ReleaseThreshold, u64::MAX)?;
        for reuse in [
            PoolAttribute::ReuseFollowEventDependencies,
            PoolAttribute::ReuseAllowOpportunistic,
            PoolAttribute::ReuseAllowInternalDependencies,
        ] {
            driver.mem_pool_set(pool, reuse, 1)?;
        }
        Ok(DevicePool { pool, unifier: driver.stream_create(device)?, used: 0, limit: u64::MAX })
    }
}

impl State {
    /// A device's pool, set up at its first use.
    pub fn device(&mut self, driver: &dyn Driver, device: Device) -> Result<&mut DevicePool> {
        use std::collections::btree_map::Entry;
        Ok(match self.devices.entry(device) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(DevicePool::new(driver, device)?),
        })
    }
}
