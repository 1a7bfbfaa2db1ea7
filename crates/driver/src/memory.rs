//! Plain device memory: `cuMemAlloc` and what belongs to it.

use crate::{Bytes, Device, Result, Stream};

/// What one process holds on a device (`nvmlDeviceGetComputeRunningProcesses`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// The process id.
    pub pid: u32,
    /// Bytes of device memory in use by the process.
    pub used: Bytes,
}

/// Plain device memory.
pub trait Memory {
    /// `cuMemAlloc`: `bytes` of memory on `device`.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when neither the device nor the address space has room; `INVALID_VALUE` for 0 bytes.
    fn mem_alloc(&self, device: Device, bytes: u64) -> Result<u64>;

    /// `cuMemFree`. On a real device it waits for the device's work.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an address that `mem_alloc` did not return.
    fn mem_free(&self, device: Device, addr: u64) -> Result<()>;

    /// `cuMemGetInfo`: (free, total) bytes.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    fn mem_info(&self, device: Device) -> Result<(u64, u64)>;

    /// `cuMemAllocManaged`: memory that migrates between host and device.
    ///
    /// # Errors
    /// As [`Memory::mem_alloc`]; `NOT_SUPPORTED`.
    fn mem_alloc_managed(&self, device: Device, bytes: u64) -> Result<u64>;

    /// `cuMemGetAddressRange`: (base, size) of the allocation that holds `addr`.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    fn mem_address_range(&self, addr: u64) -> Result<(u64, u64)>;

    /// `cuMemcpyAsync` on `stream`: host or device memory on either side.
    ///
    /// # Errors
    /// `INVALID_VALUE` or `ILLEGAL_ADDRESS` for memory that is not there.
    fn memcpy_async(&self, dst: u64, src: u64, bytes: u64, stream: Stream) -> Result<()>;

    /// `cuMemsetD8Async` on `stream`.
    ///
    /// # Errors
    /// As [`Memory::memcpy_async`].
    fn memset_async(&self, dst: u64, value: u8, bytes: u64, stream: Stream) -> Result<()>;

    /// What the processes on the device hold, this one first; `None` when nobody can tell (no NVML).
    fn process_use(&self, device: Device) -> Option<Vec<ProcessUse>>;
}
