//! `backend:cudaMallocAsync`: the driver's own pools instead of a cache (section 6 of the law).
//!
//! Every request is one `cuMemAllocFromPoolAsync` of exactly that size on the device's default driver pool; what is cached,
//! split and reused is the driver's affair. Settings of the native allocator have no effect (R6.12), and many of its
//! operations do not exist ([`Operation`]).
//!
//! ```
//! use millpond::StreamOrdered;
//! use millpond_driver::{Bytes, Device, Stream};
//! use millpond_sim::{Sim, SimConfig};
//!
//! let allocator = StreamOrdered::new(Sim::new(SimConfig::with_capacity(Bytes(1000 << 20))));
//! let stream = Stream::default_of(Device(0));
//! let a = allocator.alloc(600 << 20, stream)?;
//! allocator.free(a)?;
//! // The driver's pool still holds 600 MiB: it is trimmed before anybody hears of it.
//! let b = allocator.alloc(700 << 20, stream)?;
//! allocator.free(b)?;
//! # Ok::<(), millpond::Error>(())
//! ```

mod error;
mod free;
mod state;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_driver::{Device, Driver, PoolAttribute, Stream};

pub use error::{DriverPoolError, Operation, PoolOom};

use state::{Allocation, State};

use crate::error::{Error, Result};
use crate::size::TOO_LARGE;
use crate::stats::{Metric, Stat, Stats};

/// The allocator over the driver's pools, for all devices of a process.
#[derive(Debug)]
pub struct StreamOrdered {
    driver: Arc<dyn Driver>,
    state: Mutex<State>,
    warned_same_stream: AtomicBool,
    warned_deferred: AtomicBool,
    warned_accumulated: AtomicBool,
}

impl StreamOrdered {
    /// An allocator. Nothing is asked of a device before it is used (R6.2).
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        StreamOrdered {
            driver,
            state: Mutex::default(),
            warned_same_stream: AtomicBool::new(false),
            warned_deferred: AtomicBool::new(false),
            warned_accumulated: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `size` bytes for work that `stream` gets from now on; 0 for a size of 0. When the driver has no room, the stream is
    /// waited for and the pool trimmed, once (R6.3).
    ///
    /// # Errors
    /// [`DriverPoolError::OutOfMemory`], [`Error::TooLarge`]; the driver's, also when waiting for the stream fails.
    pub fn alloc(&self, size: u64, stream: Stream) -> Result<u64> {
        if size == 0 {
            return Ok(0);
        }
        if size >= TOO_LARGE {
            return Err(Error::TooLarge { requested: size });
        }
        let mut state = self.lock();
        let device = state.device(&*self.driver, stream.device)?;
        let pool = device.pool;
        if device.used + size > device.limit {
            return Err(self.out_of_memory(&mut state, size, stream.device));
        }
        if !state.capturing {
            self.free_deferred(&mut state)?;
        }
        let addr = match self.driver.mem_alloc_async(pool, size, stream) {
            Err(error) if error.is_out_of_memory() => {
                let _ = self.driver.take_last_error();
                self.driver.stream_synchronize(stream)?;
                self.driver.mem_pool_trim_to(pool, 0)?;
                match self.driver.mem_alloc_async(pool, size, stream) {
                    Err(error) if error.is_out_of_memory() => {
                        let _ = self.driver.take_last_error();
                        return Err(self.out_of_memory(&mut state, size, stream.device));
                    }
                    again => {
                        let addr = again?;
                        tracing::warn!(
                            "{size} bytes on {} only after waiting and trimming the driver's pool",
                            stream.device
                        );
                        addr
                    }
                }
            }
            first => first?,
        };
        let captured = state.capturing;
        state.device(&*self.driver, stream.device)?.used += size;
        state.live.insert(addr, Allocation { size, stream, recorded: Default::default(), captured });
        Ok(addr)
    }

    fn out_of_memory(&self, state: &mut State, requested: u64, device: Device) -> Error {
        let memory = self.driver.mem_info(device).map_err(Error::from);
        let known = memory.and_then(|(device_free, device_total)| {
            let held = state.device(&*self.driver, device)?;
            Ok(PoolOom {
                device,
                allocated: held.used,
                requested,
                device_total,
                device_free,
                limit: Some(held.limit).filter(|&limit| limit != u64::MAX),
                reserved: self.driver.mem_pool_get(held.pool, PoolAttribute::ReservedMemCurrent).ok(),
            })
        });
        known.map_or_else(|error| error, |oom| DriverPoolError::OutOfMemory(Box::new(oom)).into())
    }

    /// Records that work on `stream` uses a live allocation (R6.5).
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    pub fn record_stream(&self, addr: u64, stream: Stream) -> Result<()> {
        if addr == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        let allocation = state.live.get_mut(&addr).ok_or(Error::UnknownAddress { addr })?;
        if stream != allocation.stream {
            allocation.recorded.insert(stream);
        } else if !self.warned_same_stream.swap(true, Relaxed) {
            tracing::warn!("{addr:#x} was made on {stream}: recording that stream has no effect; said once");
        }
        Ok(())
    }

    /// Waits for every device that was used and gives back all that its pool holds and nobody uses (R6.8).
    ///
    /// # Errors
    /// The driver's.
    pub fn empty_cache(&self) -> Result<()> {
        for (&device, held) in &self.lock().devices {
            self.driver.device_synchronize(device)?;
            self.driver.mem_pool_trim_to(held.pool, 0)?;
        }
        Ok(())
    }

    /// Limits live allocations to a fraction of the device's memory (R6.9).
    ///
    /// # Errors
    /// [`Error::InvalidFraction`]; the driver's.
    pub fn set_memory_fraction(&self, device: Device, fraction: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Error::InvalidFraction { fraction });
        }
        let (_, total) = self.driver.mem_info(device)?;
        self.lock().device(&*self.driver, device)?.limit = (fraction * total as f64) as u64;
        Ok(())
    }

    /// The limit as a fraction of the device's memory; a huge number without one (R6.9).
    ///
    /// # Errors
    /// The driver's.
    pub fn memory_fraction(&self, device: Device) -> Result<f64> {
        let (_, total) = self.driver.mem_info(device)?;
        Ok(self.lock().device(&*self.driver, device)?.limit as f64 / total as f64)
    }

    /// What the driver's pool says of itself: allocated, active and reserved bytes, now and at most; all else is 0 (R6.7).
    ///
    /// # Errors
    /// The driver's. A device that was not used is not asked.
    pub fn stats(&self, device: Device) -> Result<Stats> {
        let mut stats = Stats::default();
        let state = self.lock();
        let Some(held) = state.devices.get(&device) else { return Ok(stats) };
        let get = |attribute| self.driver.mem_pool_get(held.pool, attribute);
        let stat = |current: u64, peak: u64| Stat { current: current as i64, peak, ..Stat::default() };
        let used = stat(get(PoolAttribute::UsedMemCurrent)?, get(PoolAttribute::UsedMemHigh)?);
        let reserved = stat(get(PoolAttribute::ReservedMemCurrent)?, get(PoolAttribute::ReservedMemHigh)?);
        for (metric, stat) in
            [(Metric::AllocatedBytes, used), (Metric::ActiveBytes, used), (Metric::ReservedBytes, reserved)]
        {
            stats.metrics[metric as usize][0] = stat;
        }
        Ok(stats)
    }

    /// Peaks start again from what is held now (R6.7).
    ///
    /// # Errors
    /// The driver's.
    pub fn reset_peak_stats(&self, device: Device) -> Result<()> {
        let state = self.lock();
        let Some(held) = state.devices.get(&device) else { return Ok(()) };
        self.driver.mem_pool_set(held.pool, PoolAttribute::ReservedMemHigh, 0)?;
        Ok(self.driver.mem_pool_set(held.pool, PoolAttribute::UsedMemHigh, 0)?)
    }

    /// Does nothing: the driver accumulates no figures (R6.7).
    pub fn reset_accumulated_stats(&self) {
        if !self.warned_accumulated.swap(true, Relaxed) {
            tracing::warn!("backend:cudaMallocAsync has no accumulated statistics that could be reset; said once");
        }
    }

    /// A size that can be allocated now, found by trying: the free memory, or a half, a quarter, … of it (R6.11).
    ///
    /// # Errors
    /// The driver's.
    pub fn largest_block(&self, stream: Stream) -> Result<u64> {
        let (free, _) = self.driver.mem_info(stream.device)?;
        let mut state = self.lock();
        let device = state.device(&*self.driver, stream.device)?;
        let mut size = free.min(device.limit.saturating_sub(device.used));
        while size > 0 {
            match self.driver.mem_alloc_async(device.pool, size, stream) {
                Ok(addr) => {
                    self.driver.mem_free_async(addr, stream)?;
                    return Ok(size);
                }
                Err(error) if error.is_out_of_memory() => {
                    let _ = self.driver.take_last_error();
                    size /= 2;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }

    /// (address, bytes) of a live allocation: it is its own base (R6.11).
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    pub fn base_allocation(&self, addr: u64) -> Result<(u64, u64)> {
        let state = self.lock();
        state.live.get(&addr).map(|allocation| (addr, allocation.size)).ok_or(Error::UnknownAddress { addr })
    }

    /// Lets `peer` use the memory of `device` (R6.11).
    ///
    /// # Errors
    /// The driver's.
    pub fn enable_peer_access(&self, device: Device, peer: Device) -> Result<()> {
        let pool = self.lock().device(&*self.driver, device)?.pool;
        Ok(self.driver.mem_pool_set_access(pool, peer, true)?)
    }

    /// Copies between devices or within one: by the peer copy, unless both are one device or have access to each other
    /// (`p2p`) (R6.11).
    ///
    /// # Errors
    /// The driver's.
    pub fn memcpy(
        &self,
        (dst, dst_device): (u64, Device),
        (src, src_device): (u64, Device),
        bytes: u64,
        stream: Stream,
        p2p: bool,
    ) -> Result<()> {
        let copied = if p2p || dst_device == src_device {
            self.driver.memcpy_async(dst, src, bytes, stream)
        } else {
            self.driver.memcpy_peer_async(dst, dst_device, src, src_device, bytes, stream)
        };
        Ok(copied?)
    }

    /// Caching cannot be turned off: the driver does it (R6.11).
    pub fn is_enabled(&self) -> bool {
        true
    }

    /// Refuses what only the native allocator does (R6.10).
    ///
    /// # Errors
    /// [`DriverPoolError::Unsupported`], always.
    pub fn unsupported<T>(&self, operation: Operation) -> Result<T> {
        Err(DriverPoolError::Unsupported(operation).into())
    }
}

impl Drop for StreamOrdered {
    fn drop(&mut self) {
        let mut state = self.lock();
        // Nobody is left who could be told of an error.
        let _ = self.free_deferred(&mut state);
        for device in state.devices.values() {
            let _ = self.driver.stream_destroy(device.unifier);
        }
    }
}
