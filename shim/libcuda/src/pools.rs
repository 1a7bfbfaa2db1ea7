//! The driver's own pools.

use std::ffi::{c_int, c_void};

use millpond_cuda::sys::{
    CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemPool_attribute as Attribute,
    CUmemPoolProps, CUmemoryPool, CUstream,
};
use millpond_driver::{Async, Code, DriverPool, Location, PoolAttribute};

use crate::export::{Answer, Failure};
use crate::handles::stream;
use crate::machine::{device, sim};
use crate::virtual_memory::location;
use millpond_shim::{In, Out};

const INVALID: Failure = Failure(Code::ERROR_INVALID_VALUE);

exports! {
    fn cuDeviceGetDefaultMemPool("cuDeviceGetDefaultMemPool" 11020, pool: Out<CUmemoryPool>, of: CUdevice) {
        pool.set(CUmemoryPool(sim()?.default_mem_pool(device(of)?)?.0 as usize))
    }

    fn cuDeviceGetMemPool("cuDeviceGetMemPool" 11020, pool: Out<CUmemoryPool>, of: CUdevice) {
        pool.set(CUmemoryPool(sim()?.default_mem_pool(device(of)?)?.0 as usize))
    }

    fn cuMemPoolCreate("cuMemPoolCreate" 11020, pool: Out<CUmemoryPool>, props: In<CUmemPoolProps>) {
        let props = props.get()?;
        let Location::Device(on) = location(props.location)? else { return Err(Code::ERROR_NOT_SUPPORTED.into()) };
        if props.handleTypes.0 != 0 {
            return Err(Code::ERROR_NOT_SUPPORTED.into());
        }
        pool.set(CUmemoryPool(sim()?.mem_pool_create(on)?.0 as usize))
    }

    fn cuMemPoolDestroy("cuMemPoolDestroy" 11020, pool: CUmemoryPool) {
        Ok(sim()?.mem_pool_destroy(DriverPool(pool.0 as u64))?)
    }

    fn cuMemPoolSetAttribute("cuMemPoolSetAttribute" 11020, pool: CUmemoryPool, attribute: Attribute, value: In<c_void>) {
        let (attribute, is_switch) = known(attribute)?;
        let value = if is_switch { value.of::<c_int>().get()? as u64 } else { value.of::<u64>().get()? };
        Ok(sim()?.mem_pool_set(DriverPool(pool.0 as u64), attribute, value)?)
    }

    fn cuMemPoolGetAttribute("cuMemPoolGetAttribute" 11020, pool: CUmemoryPool, attribute: Attribute, value: Out<c_void>) {
        let (attribute, is_switch) = known(attribute)?;
        let found = sim()?.mem_pool_get(DriverPool(pool.0 as u64), attribute)?;
        if is_switch { value.of::<c_int>().set(found as c_int) } else { value.of::<u64>().set(found) }
    }

    fn cuMemPoolTrimTo("cuMemPoolTrimTo" 11020, pool: CUmemoryPool, keep: usize) {
        Ok(sim()?.mem_pool_trim_to(DriverPool(pool.0 as u64), keep as u64)?)
    }

    fn cuMemPoolSetAccess("cuMemPoolSetAccess" 11020, pool: CUmemoryPool, wishes: In<CUmemAccessDesc>, count: usize) {
        for wish in wishes.list(count)? {
            let Location::Device(peer) = location(wish.location)? else { return Err(INVALID) };
            let allow = wish.flags != CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
            sim()?.mem_pool_set_access(DriverPool(pool.0 as u64), peer, allow)?;
        }
        Ok(())
    }

    fn cuMemPoolGetAccess("cuMemPoolGetAccess" 11020, flags: Out<u32>, pool: CUmemoryPool, of: In<CUmemLocation>) {
        let (Location::Device(peer), pool) = (location(of.get()?)?, DriverPool(pool.0 as u64)) else { return Err(INVALID) };
        let owner = sim()?.pool_location(pool).ok_or(INVALID)?;
        // Read and write for the owner, which always has it.
        flags.set(if owner == Location::Device(peer) { 3 } else { 0 })
    }

    fn cuMemAllocAsync("cuMemAllocAsync" 11020, addr: Out<CUdeviceptr>, bytes: usize, on: CUstream) {
        let (sim, on) = (sim()?, stream(on)?);
        addr.set(sim.mem_alloc_async(sim.default_mem_pool(on.device)?, bytes as u64, on)?)
    }

    fn cuMemAllocFromPoolAsync("cuMemAllocFromPoolAsync" 11020,
        addr: Out<CUdeviceptr>, bytes: usize, pool: CUmemoryPool, on: CUstream) {
        addr.set(sim()?.mem_alloc_async(DriverPool(pool.0 as u64), bytes as u64, stream(on)?)?)
    }

    fn cuMemFreeAsync("cuMemFreeAsync" 11020, addr: CUdeviceptr, on: CUstream) {
        Ok(sim()?.mem_free_async(addr, stream(on)?)?)
    }
}

/// The attribute, and whether its value is an `int` (all others are 64 bits wide).
fn known(attribute: Attribute) -> Answer<(PoolAttribute, bool)> {
    Ok(match attribute {
        Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES => {
            (PoolAttribute::ReuseFollowEventDependencies, true)
        }
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC => (PoolAttribute::ReuseAllowOpportunistic, true),
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            (PoolAttribute::ReuseAllowInternalDependencies, true)
        }
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => (PoolAttribute::ReleaseThreshold, false),
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => (PoolAttribute::ReservedMemCurrent, false),
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => (PoolAttribute::ReservedMemHigh, false),
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => (PoolAttribute::UsedMemCurrent, false),
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => (PoolAttribute::UsedMemHigh, false),
        _ => return Err(INVALID),
    })
}
