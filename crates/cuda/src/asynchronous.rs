//! The driver's own pools.

use std::ffi::c_int;

use millpond_driver::{Async, Device, DriverPool, Location, PoolAttribute, Result, Stream};

use crate::cuda::Cuda;
use crate::order::handle;
use crate::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemPool_attribute as Attribute, CUmemPoolProps,
    CUmemoryPool,
};
use crate::virtual_memory::location;

impl Async for Cuda {
    fn default_mem_pool(&self, device: Device) -> Result<DriverPool> {
        self.remember(|| {
            let ordinal = self.device(device, "cuDeviceGetDefaultMemPool")?.ordinal;
            let mut pool = CUmemoryPool(0);
            call_optional!(self, cuDeviceGetDefaultMemPool as "cuDeviceGetDefaultMemPool", &mut pool, ordinal)?;
            Ok(DriverPool(pool.0 as u64))
        })
    }

    fn mem_pool_create(&self, device: Device) -> Result<DriverPool> {
        self.remember(|| {
            let _entered = self.enter(device, "cuMemPoolCreate")?;
            let mut wish = CUmemPoolProps::zeroed();
            wish.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            wish.location = location(Location::Device(device));
            let mut pool = CUmemoryPool(0);
            call_optional!(self, cuMemPoolCreate as "cuMemPoolCreate", &mut pool, &wish)?;
            Ok(DriverPool(pool.0 as u64))
        })
    }

    fn mem_pool_destroy(&self, pool: DriverPool) -> Result<()> {
        self.remember(|| call_optional!(self, cuMemPoolDestroy as "cuMemPoolDestroy", to_driver(pool)))
    }

    fn mem_pool_set(&self, pool: DriverPool, attribute: PoolAttribute, value: u64) -> Result<()> {
        self.remember(|| {
            let (attribute, is_switch) = number(attribute);
            let mut switch = (value != 0) as c_int;
            let mut value = value;
            let from = if is_switch { (&raw mut switch).cast() } else { (&raw mut value).cast() };
            call_optional!(self, cuMemPoolSetAttribute as "cuMemPoolSetAttribute", to_driver(pool), attribute, from)
        })
    }

    fn mem_pool_get(&self, pool: DriverPool, attribute: PoolAttribute) -> Result<u64> {
        self.remember(|| {
            let (attribute, is_switch) = number(attribute);
            let (mut switch, mut value): (c_int, u64) = (0, 0);
            let to = if is_switch { (&raw mut switch).cast() } else { (&raw mut value).cast() };
            call_optional!(self, cuMemPoolGetAttribute as "cuMemPoolGetAttribute", to_driver(pool), attribute, to)?;
            Ok(if is_switch { u64::from(switch != 0) } else { value })
        })
    }

    fn mem_pool_trim_to(&self, pool: DriverPool, keep: u64) -> Result<()> {
        self.remember(|| call_optional!(self, cuMemPoolTrimTo as "cuMemPoolTrimTo", to_driver(pool), keep as usize))
    }

    fn mem_alloc_async(&self, pool: DriverPool, bytes: u64, stream: Stream) -> Result<u64> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuMemAllocFromPoolAsync")?;
            let (pool, bytes, mut addr) = (to_driver(pool), bytes as usize, 0);
            let stream = handle(stream);
            call_optional!(
                self,
                cuMemAllocFromPoolAsync as "cuMemAllocFromPoolAsync",
                &mut addr,
                bytes,
                pool,
                stream
            )?;
            Ok(addr)
        })
    }

    fn mem_free_async(&self, addr: u64, stream: Stream) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuMemFreeAsync")?;
            call_optional!(self, cuMemFreeAsync as "cuMemFreeAsync", addr, handle(stream))
        })
    }

    fn mem_pool_set_access(&self, pool: DriverPool, peer: Device, allow: bool) -> Result<()> {
        self.remember(|| {
            self.device(peer, "cuMemPoolSetAccess")?;
            let flags = match allow {
                true => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                false => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            };
            let wish = CUmemAccessDesc { location: location(Location::Device(peer)), flags };
            call_optional!(self, cuMemPoolSetAccess as "cuMemPoolSetAccess", to_driver(pool), &wish, 1)
        })
    }
}

impl Cuda {
    /// Whether the library has all functions of pools.
    pub(crate) fn has_pools(&self) -> bool {
        let f = &self.functions;
        f.cuDeviceGetDefaultMemPool.is_some()
            && f.cuMemPoolSetAttribute.is_some()
            && f.cuMemPoolGetAttribute.is_some()
            && f.cuMemAllocFromPoolAsync.is_some()
            && f.cuMemFreeAsync.is_some()
    }
}

fn to_driver(pool: DriverPool) -> CUmemoryPool {
    CUmemoryPool(pool.0 as usize)
}

/// The attribute's number, and whether its value is an `int` (all others are 64 bits wide).
fn number(attribute: PoolAttribute) -> (Attribute, bool) {
    use PoolAttribute::*;
    match attribute {
        ReleaseThreshold => (Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, false),
        ReuseFollowEventDependencies => (Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, true),
        ReuseAllowOpportunistic => (Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, true),
        ReuseAllowInternalDependencies => (Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, true),
        ReservedMemCurrent => (Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, false),
        ReservedMemHigh => (Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, false),
        UsedMemCurrent => (Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, false),
        UsedMemHigh => (Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, false),
    }
}
