//! Statistics.

use std::ffi::c_char;

use millpond::{Metric, Stat, Stats, memory_summary};
use serde_json::json;

use crate::allocator::{mp_allocator, with};
use crate::pointer;
use crate::pools::mp_pool_id;
use crate::status::mp_status;
use crate::text::give_string;

/// How many metrics there are.
pub const MP_METRICS: usize = 11;
/// Live allocations.
pub const MP_METRIC_ALLOCATION: usize = 0;
/// Bytes of live blocks.
pub const MP_METRIC_ALLOCATED_BYTES: usize = 1;
/// Bytes that callers asked for, of blocks that are live or waiting.
pub const MP_METRIC_REQUESTED_BYTES: usize = 2;
/// Blocks that are live or wait for events.
pub const MP_METRIC_ACTIVE: usize = 3;
/// Bytes of blocks that are live or wait for events.
pub const MP_METRIC_ACTIVE_BYTES: usize = 4;
/// Free parts of split blocks; cudaMalloc segments only.
pub const MP_METRIC_INACTIVE_SPLIT: usize = 5;
/// Bytes of free parts of split blocks; cudaMalloc segments only.
pub const MP_METRIC_INACTIVE_SPLIT_BYTES: usize = 6;
/// cudaMalloc segments.
pub const MP_METRIC_SEGMENT: usize = 7;
/// Bytes held from the driver.
pub const MP_METRIC_RESERVED_BYTES: usize = 8;
/// Live allocations of max_split_size or more.
pub const MP_METRIC_OVERSIZE_ALLOCATIONS: usize = 9;
/// Segments of max_split_size or more.
pub const MP_METRIC_OVERSIZE_SEGMENTS: usize = 10;

const _: () = assert!(Metric::COUNT == MP_METRICS && Metric::OversizeSegments as usize == MP_METRIC_OVERSIZE_SEGMENTS);

/// One counter: bytes or a number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct mp_stat {
    /// The value now.
    pub current: i64,
    /// The highest value since the last reset of peaks.
    pub peak: i64,
    /// The sum of all increases since the last reset of accumulated figures.
    pub allocated: i64,
    /// The sum of all decreases since then.
    pub freed: i64,
}

impl From<Stat> for mp_stat {
    fn from(stat: Stat) -> Self {
        let [peak, allocated, freed] = [stat.peak, stat.allocated, stat.freed].map(|value| value as i64);
        mp_stat { current: stat.current, peak, allocated, freed }
    }
}

/// The statistics of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mp_stats {
    /// By MP_METRIC_…; then all, small pool, large pool.
    pub metrics: [[mp_stat; 3]; MP_METRICS],
    /// Allocations tried again after the synchronising release.
    pub num_alloc_retries: i64,
    /// Out-of-memory errors.
    pub num_ooms: i64,
    /// Synchronising releases.
    pub num_sync_all_streams: i64,
    /// Allocations and mapped ranges that the driver gave.
    pub num_device_alloc: i64,
    /// Allocations and mapped ranges that the driver got back.
    pub num_device_free: i64,
    /// Requests rejected by policy.
    pub num_oom_rejections: i64,
    /// max_split_size when the allocator was made; -1 for unlimited.
    pub max_split_size: i64,
}

impl From<&Stats> for mp_stats {
    fn from(stats: &Stats) -> Self {
        mp_stats {
            metrics: stats.metrics.map(|metric| metric.map(mp_stat::from)),
            num_alloc_retries: stats.num_alloc_retries as i64,
            num_ooms: stats.num_ooms as i64,
            num_sync_all_streams: stats.num_sync_all_streams as i64,
            num_device_alloc: stats.num_device_alloc as i64,
            num_device_free: stats.num_device_free as i64,
            num_oom_rejections: stats.num_oom_rejections as i64,
            max_split_size: stats.max_split_size,
        }
    }
}

/// The statistics, as one cut through all pools.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_stats_get(allocator: *const mp_allocator, stats: *mut mp_stats) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| pointer::put(stats, (&this.allocator.stats()).into(), "stats")) }
}

/// Bytes that a private pool holds from the driver.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mp_pool_stat {
    /// The pool.
    pub pool: mp_pool_id,
    /// All, small pool, large pool.
    pub reserved: [mp_stat; 3],
}

/// What each private pool that ever was holds from the driver.
///
/// @param pools where they go; NULL to ask how many there are.
/// @param capacity room for so many.
/// @param count how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_stats_private_pools(
    allocator: *const mp_allocator,
    pools: *mut mp_pool_stat,
    capacity: usize,
    count: *mut usize,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let all = this.allocator.stats().reserved_by_private_pools;
            pointer::put(count, all.len(), "count")?;
            let room = if pools.is_null() { 0 } else { capacity };
            for (index, (&pool, stats)) in all.iter().take(room).enumerate() {
                let reserved = stats.map(mp_stat::from);
                pools.add(index).write(mp_pool_stat { pool: pool.into(), reserved });
            }
            Ok(())
        })
    }
}

/// The statistics under the names of torch.cuda.memory_stats, as JSON for mp_string_destroy:
/// {"schema":1,"device":0,"stats":{name: number}}.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_stats_json(allocator: *const mp_allocator, json: *mut *mut c_char) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let stats = this.allocator.stats().flatten();
            let object = json!({"schema": 1, "device": this.allocator.device().0, "stats": stats});
            pointer::put(json, std::ptr::null_mut(), "json")?;
            pointer::put(json, give_string(object.to_string()), "json")
        })
    }
}

/// The table of torch.cuda.memory_summary, for mp_string_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_memory_summary(
    allocator: *const mp_allocator,
    abbreviated: bool,
    text: *mut *mut c_char,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let table = memory_summary(&this.allocator.stats(), this.allocator.device().0, abbreviated);
            pointer::put(text, std::ptr::null_mut(), "text")?;
            pointer::put(text, give_string(table), "text")
        })
    }
}

/// Peaks start again from what is held now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_reset_peak_stats(allocator: *const mp_allocator) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.reset_peak_stats();
            Ok(())
        })
    }
}

/// Accumulated figures start again from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_reset_accumulated_stats(allocator: *const mp_allocator) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.reset_accumulated_stats();
            Ok(())
        })
    }
}
