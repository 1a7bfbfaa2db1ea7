//! Driver pools (`cuMemAllocAsync`).

use millpond_driver::{Async, Code, Device, DriverPool, PoolAttribute, Result, Stream};

use crate::calls::CallKind;
use crate::sim::{Sim, State, refuse};

impl Async for Sim {
    fn default_mem_pool(&self, _device: Device) -> Result<DriverPool> {
        refuse(CallKind::DefaultMemPool, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_pool_create(&self, _device: Device) -> Result<DriverPool> {
        refuse(CallKind::PoolCreate, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_pool_destroy(&self, _pool: DriverPool) -> Result<()> {
        refuse(CallKind::PoolDestroy, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_pool_set(&self, _pool: DriverPool, _attribute: PoolAttribute, _value: u64) -> Result<()> {
        refuse(CallKind::PoolSet, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_pool_get(&self, _pool: DriverPool, _attribute: PoolAttribute) -> Result<u64> {
        refuse(CallKind::PoolGet, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_pool_trim_to(&self, _pool: DriverPool, _keep: u64) -> Result<()> {
        refuse(CallKind::PoolTrim, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_alloc_async(&self, _pool: DriverPool, _bytes: u64, _stream: Stream) -> Result<u64> {
        refuse(CallKind::PoolAlloc, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_free_async(&self, _addr: u64, _stream: Stream) -> Result<()> {
        refuse(CallKind::PoolFree, Code::ERROR_NOT_SUPPORTED, "")
    }
    fn mem_pool_set_access(&self, _pool: DriverPool, _peer: Device, _allow: bool) -> Result<()> {
        refuse(CallKind::PoolSetAccess, Code::ERROR_NOT_SUPPORTED, "")
    }
}

impl State {
    pub fn pool_allocation_at(&self, addr: u64) -> Result<(u64, u64)> {
        refuse(CallKind::AddressRange, Code::ERROR_NOT_FOUND, format!("{addr:#x} is not in any allocation"))
    }
    pub fn free_pool_memory(&mut self, _device: Device, addr: u64) -> Result<()> {
        refuse(CallKind::Free, Code::ERROR_INVALID_VALUE, format!("no allocation starts at {addr:#x}"))
    }
    pub fn pools_at_synchronisation(&mut self) {}
    pub fn pool_access(&self, _pool: u64, _device: Device) -> bool {
        false
    }
}
