//! What a device is able to do, its clock, and the sticky error.

use crate::{Bytes, Code, Device, Reading, Result};

/// What a device is and is able to do; fixed from the start, so that "unsupported" is known before it hurts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The device's name.
    pub name: String,
    /// All of its memory.
    pub total: Bytes,
    /// Compute capability (major, minor).
    pub compute: (u32, u32),
    /// Virtual memory management.
    pub vmm: bool,
    /// GPUDirect RDMA together with virtual memory management.
    pub rdma_with_vmm: bool,
    /// Export as a POSIX file descriptor.
    pub posix_fd: bool,
    /// Export as a fabric handle.
    pub fabric: bool,
    /// Driver pools (`cuMemAllocAsync`).
    pub pools: bool,
    /// The NUMA node of the host that is nearest; `None` if unknown.
    pub host_numa: Option<u32>,
    /// Physical memory on a NUMA node of the host.
    pub host_numa_vmm: bool,
    /// Managed memory.
    pub managed: bool,
    /// Whether a range may be mapped while kernels of the device run; where not, the host must wait.
    pub map_beside_kernels: bool,
}

/// Devices, their abilities, the clock and the sticky error.
pub trait Status {
    /// `cuDeviceGetCount`.
    fn device_count(&self) -> u32;

    /// What `device` is able to do.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    fn caps(&self, device: Device) -> Result<Caps>;

    /// `cuDriverGetVersion`: 1000 × major + 10 × minor.
    fn driver_version(&self) -> i32;

    /// Microseconds on the driver's clock; a simulated one is virtual, so that a run is deterministic to the last byte.
    fn now_us(&self) -> u64;

    /// The same clock for somebody who reads it again and again: moments that follow each other closely may share a reading,
    /// as [`Reading`] says, which the caller keeps for the next time.
    fn now_us_again(&self, last: &mut Reading) -> u64 {
        let _ = last;
        self.now_us()
    }

    /// The error left behind by an earlier asynchronous failure, if one is pending (`cudaPeekAtLastError`).
    fn peek_last_error(&self) -> Option<Code>;

    /// Returns and clears the pending error (`cudaGetLastError`). A fatal one stays.
    fn take_last_error(&self) -> Option<Code>;

    /// How often each kind of call was made and what the calls cost, where the driver counts; names are CUDA's.
    fn call_counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
