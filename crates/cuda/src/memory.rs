//! Plain device memory.

use millpond_driver::{Bytes, Device, Memory, ProcessUse, Result, Stream};

use crate::cuda::Cuda;
use crate::order::handle;
use crate::sys::CUmemAttach_flags;
use crate::sys::nvml::{NVML_VALUE_NOT_AVAILABLE, nvmlDevice_t, nvmlProcessInfo_t, nvmlReturn_t};

impl Memory for Cuda {
    fn mem_alloc(&self, device: Device, bytes: u64) -> Result<u64> {
        self.remember(|| {
            let _entered = self.enter(device, "cuMemAlloc")?;
            let mut addr = 0;
            call!(self, cuMemAlloc_v2 as "cuMemAlloc", &mut addr, bytes as usize)?;
            Ok(addr)
        })
    }

    fn mem_free(&self, device: Device, addr: u64) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(device, "cuMemFree")?;
            call!(self, cuMemFree_v2 as "cuMemFree", addr)
        })
    }

    fn mem_info(&self, device: Device) -> Result<(u64, u64)> {
        self.remember(|| {
            let _entered = self.enter(device, "cuMemGetInfo")?;
            let (mut free, mut total) = (0, 0);
            call!(self, cuMemGetInfo_v2 as "cuMemGetInfo", &mut free, &mut total)?;
            Ok((free as u64, total as u64))
        })
    }

    fn mem_alloc_managed(&self, device: Device, bytes: u64) -> Result<u64> {
        self.remember(|| {
            let _entered = self.enter(device, "cuMemAllocManaged")?;
            let mut addr = 0;
            let attach = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
            call!(self, cuMemAllocManaged as "cuMemAllocManaged", &mut addr, bytes as usize, attach)?;
            Ok(addr)
        })
    }

    fn mem_address_range(&self, addr: u64) -> Result<(u64, u64)> {
        let _entered = self.enter_any("cuMemGetAddressRange")?;
        let (mut base, mut bytes) = (0, 0);
        call!(self, cuMemGetAddressRange_v2 as "cuMemGetAddressRange", &mut base, &mut bytes, addr)?;
        Ok((base, bytes as u64))
    }

    fn memcpy_async(&self, dst: u64, src: u64, bytes: u64, stream: Stream) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuMemcpyAsync")?;
            call!(self, cuMemcpyAsync as "cuMemcpyAsync", dst, src, bytes as usize, handle(stream))
        })
    }

    fn memset_async(&self, dst: u64, value: u8, bytes: u64, stream: Stream) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuMemsetD8Async")?;
            call!(self, cuMemsetD8Async as "cuMemsetD8Async", dst, value, bytes as usize, handle(stream))
        })
    }

    fn process_use(&self, device: Device) -> Option<Vec<ProcessUse>> {
        let nvml = self.nvml()?;
        let state = self.devices.get(device.0 as usize)?;
        let mut handle = nvmlDevice_t(0);
        // SAFETY: a string with its end and a live variable.
        let answer = unsafe { (nvml.device_by_bus_id)(state.bus_id.as_ptr(), &mut handle) };
        (answer == nvmlReturn_t::NVML_SUCCESS).then_some(())?;
        let mut processes = vec![nvmlProcessInfo_t::default(); 64];
        loop {
            let mut count = processes.len() as u32;
            // SAFETY: `count` says how many entries the buffer has.
            match unsafe { (nvml.running_processes)(handle, &mut count, processes.as_mut_ptr()) } {
                nvmlReturn_t::NVML_SUCCESS => processes.truncate(count as usize),
                // Processes come and go between two calls: some room to spare.
                nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE if count as usize > processes.len() => {
                    processes.resize(count as usize + 16, nvmlProcessInfo_t::default());
                    continue;
                }
                _ => return None,
            }
            break;
        }
        let own = std::process::id();
        processes.sort_by_key(|process| process.pid != own);
        let known = processes.iter().filter(|process| process.usedGpuMemory != NVML_VALUE_NOT_AVAILABLE);
        Some(known.map(|process| ProcessUse { pid: process.pid, used: Bytes(process.usedGpuMemory) }).collect())
    }
}
