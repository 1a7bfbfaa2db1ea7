//! Out-of-memory errors, as C sees them.

use millpond::Oom;

use crate::pools::mp_pool_id;

/// What was known when a request failed. Sizes are bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_oom {
    /// The device.
    pub device: i32,
    /// The stream of the request.
    pub stream: u64,
    /// The memory pool of the request.
    pub pool: mp_pool_id,
    /// What the caller asked for.
    pub requested: u64,
    /// The request, rounded.
    pub rounded: u64,
    /// What was asked of the driver.
    pub alloc_size: u64,
    /// Free on the device.
    pub device_free: u64,
    /// All of the device.
    pub device_total: u64,
    /// The limit; UINT64_MAX without one.
    pub limit: u64,
    /// Bytes of live blocks.
    pub allocated: u64,
    /// Bytes held from the driver.
    pub reserved: u64,
    /// Bytes cached in private pools.
    pub cached_in_private_pools: u64,
}

impl From<&Oom> for mp_oom {
    fn from(oom: &Oom) -> Self {
        mp_oom {
            device: oom.device.0 as i32,
            stream: oom.stream.raw,
            pool: oom.pool.into(),
            requested: oom.requested,
            rounded: oom.rounded,
            alloc_size: oom.alloc_size,
            device_free: oom.device_free,
            device_total: oom.device_total,
            limit: oom.limit.unwrap_or(u64::MAX),
            allocated: oom.allocated,
            reserved: oom.reserved,
            cached_in_private_pools: oom.cached_in_private_pools,
        }
    }
}
