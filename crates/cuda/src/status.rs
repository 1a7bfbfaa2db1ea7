//! What the devices are, the clock and the last error.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

#[cfg(target_os = "linux")]
use millpond_driver::Reading;
use millpond_driver::{Bytes, Caps, Code, Device, Result, Status};

use crate::cuda::{Cuda, DeviceState};
use crate::sys::CUdevice_attribute as A;

/// Errors that leave the context unusable: every later call answers them too.
const FATAL: std::ops::RangeInclusive<i32> = 700..=799;

impl Status for Cuda {
    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    fn caps(&self, device: Device) -> Result<Caps> {
        Ok(self.device(device, "cuDeviceGetAttribute")?.caps.clone())
    }

    fn driver_version(&self) -> i32 {
        self.version
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    #[cfg(target_os = "linux")]
    fn now_us_again(&self, last: &mut Reading) -> u64 {
        last.shared(tick(), || self.now_us())
    }

    fn peek_last_error(&self) -> Option<Code> {
        match self.last_error.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Code(code)),
        }
    }

    fn take_last_error(&self) -> Option<Code> {
        let code = self.peek_last_error()?;
        if !is_fatal(code) {
            self.last_error.store(0, Ordering::Relaxed);
        }
        Some(code)
    }
}

/// The kernel's own count of time, which it advances every millisecond or few: reading it takes a few loads and no counter of
/// the processor.
#[cfg(target_os = "linux")]
fn tick() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    (time.tv_sec as u64) << 32 | time.tv_nsec as u64
}

/// Peer access that is or is not enabled, and host memory that is or is not registered, are no faults of the device.
fn is_fatal(code: Code) -> bool {
    let refusals = [
        Code::ERROR_PEER_ACCESS_ALREADY_ENABLED,
        Code::ERROR_PEER_ACCESS_NOT_ENABLED,
        Code::ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        Code::ERROR_HOST_MEMORY_NOT_REGISTERED,
    ];
    FATAL.contains(&code.0) && !refusals.contains(&code)
}

impl Cuda {
    /// Runs a call whose failure stays behind as the last error, as with the runtime's calls.
    pub(crate) fn remember<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        call().inspect_err(|error| {
            let pending = Code(self.last_error.load(Ordering::Relaxed));
            if !is_fatal(pending) {
                self.last_error.store(error.code.0, Ordering::Relaxed);
            }
        })
    }

    /// What the driver says about the device with this ordinal.
    pub(crate) fn discover(&self, ordinal: i32) -> Result<DeviceState> {
        let (mut name, mut bus_id) = ([0; 256], [0; 32]);
        let mut total = 0;
        call!(self, cuDeviceGetName as "cuDeviceGetName", name.as_mut_ptr(), name.len() as i32 - 1, ordinal)?;
        call!(
            self,
            cuDeviceGetPCIBusId as "cuDeviceGetPCIBusId",
            bus_id.as_mut_ptr(),
            bus_id.len() as i32 - 1,
            ordinal
        )?;
        call!(self, cuDeviceTotalMem_v2 as "cuDeviceTotalMem", &mut total, ordinal)?;
        // SAFETY: both arrays end with a 0 that the driver was not allowed to overwrite.
        let [name, bus_id] = unsafe { [CStr::from_ptr(name.as_ptr()), CStr::from_ptr(bus_id.as_ptr())] };
        // An attribute that an older driver does not know is an ability that it does not have.
        let number = |attribute: A| {
            let mut value = 0;
            call!(self, cuDeviceGetAttribute as "cuDeviceGetAttribute", &mut value, attribute, ordinal).ok()?;
            Some(value)
        };
        let able = |attribute| number(attribute) == Some(1);
        let major = number(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).unwrap_or(0) as u32;
        let minor = number(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).unwrap_or(0) as u32;
        let vmm = able(A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) && self.has_virtual_memory();
        let caps = Caps {
            name: name.to_string_lossy().into_owned(),
            total: Bytes(total as u64),
            compute: (major, minor),
            vmm,
            rdma_with_vmm: vmm && able(A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
            posix_fd: vmm && able(A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
            fabric: vmm && able(A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED),
            pools: able(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) && self.has_pools(),
            host_numa: number(A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID).and_then(|node| u32::try_from(node).ok()),
            host_numa_vmm: vmm && able(A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
            managed: able(A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
            // cuMemMap and cuMemSetAccess do not wait for the device's work; cuMemUnmap and cuMemFree do.
            map_beside_kernels: true,
        };
        Ok(DeviceState { ordinal, bus_id: bus_id.to_owned(), caps, context: OnceLock::new() })
    }
}
