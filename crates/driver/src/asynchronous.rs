//! Stream-ordered allocation: the driver's own pools (`cuMemAllocAsync`).

use crate::{Device, Result, Stream};

/// A driver pool (`CUmemoryPool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverPool(pub u64);

/// Attributes of a driver pool; all are numbers, switches are 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolAttribute {
    /// Bytes that stay reserved at a synchronisation.
    ReleaseThreshold,
    /// Reuse across streams that an event orders.
    ReuseFollowEventDependencies,
    /// Reuse of memory whose stream is seen to have passed.
    ReuseAllowOpportunistic,
    /// Reuse across streams for which the driver inserts a dependency.
    ReuseAllowInternalDependencies,
    /// Bytes held from the device now.
    ReservedMemCurrent,
    /// The most bytes held since the last reset (write 0 to reset).
    ReservedMemHigh,
    /// Bytes handed out now.
    UsedMemCurrent,
    /// The most bytes handed out since the last reset (write 0 to reset).
    UsedMemHigh,
}

/// Stream-ordered allocation.
pub trait Async {
    /// `cuDeviceGetDefaultMemPool`.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`, `INVALID_DEVICE`.
    fn default_mem_pool(&self, device: Device) -> Result<DriverPool>;

    /// `cuMemPoolCreate`: a pool of pinned memory on `device`.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`, `OUT_OF_MEMORY`.
    fn mem_pool_create(&self, device: Device) -> Result<DriverPool>;

    /// `cuMemPoolDestroy`.
    ///
    /// # Errors
    /// `INVALID_VALUE`; the default pool cannot go.
    fn mem_pool_destroy(&self, pool: DriverPool) -> Result<()>;

    /// `cuMemPoolSetAttribute`.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn mem_pool_set(&self, pool: DriverPool, attribute: PoolAttribute, value: u64) -> Result<()>;

    /// `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn mem_pool_get(&self, pool: DriverPool, attribute: PoolAttribute) -> Result<u64>;

    /// `cuMemPoolTrimTo`: gives memory back until at most `keep` bytes are reserved or nothing is free.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn mem_pool_trim_to(&self, pool: DriverPool, keep: u64) -> Result<()>;

    /// `cuMemAllocFromPoolAsync`: usable by work that `stream` gets after this call.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`, `INVALID_VALUE`.
    fn mem_alloc_async(&self, pool: DriverPool, bytes: u64, stream: Stream) -> Result<u64>;

    /// `cuMemFreeAsync`: free once `stream` gets here.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn mem_free_async(&self, addr: u64, stream: Stream) -> Result<()>;

    /// `cuMemPoolSetAccess`: lets `peer` read and write the pool's memory, or takes that away.
    ///
    /// # Errors
    /// `INVALID_VALUE`, `INVALID_DEVICE`.
    fn mem_pool_set_access(&self, pool: DriverPool, peer: Device, allow: bool) -> Result<()>;
}
