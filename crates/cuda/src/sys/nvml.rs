//! The few functions of the management library (NVML) that say what processes hold.

use std::ffi::{c_char, c_int, c_uint};

use super::load::{Library, Symbol};

/// What NVML's functions answer.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct nvmlReturn_t(pub c_int);

impl nvmlReturn_t {
    pub const NVML_SUCCESS: Self = Self(0);
    pub const NVML_ERROR_UNINITIALIZED: Self = Self(1);
    pub const NVML_ERROR_INVALID_ARGUMENT: Self = Self(2);
    pub const NVML_ERROR_NOT_SUPPORTED: Self = Self(3);
    pub const NVML_ERROR_NOT_FOUND: Self = Self(6);
    pub const NVML_ERROR_INSUFFICIENT_SIZE: Self = Self(7);
    pub const NVML_ERROR_DRIVER_NOT_LOADED: Self = Self(9);
    pub const NVML_ERROR_UNKNOWN: Self = Self(999);
}

/// A device.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct nvmlDevice_t(pub usize);

/// What one process holds; the second form, which `nvmlDeviceGetComputeRunningProcesses_v2` and `_v3` fill in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nvmlProcessInfo_t {
    pub pid: c_uint,
    pub usedGpuMemory: u64,
    pub gpuInstanceId: c_uint,
    pub computeInstanceId: c_uint,
}

/// The first form, of `nvmlDeviceGetComputeRunningProcesses`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nvmlProcessInfo_v1_t {
    pub pid: c_uint,
    pub usedGpuMemory: u64,
}

/// `usedGpuMemory` when it is not known.
pub const NVML_VALUE_NOT_AVAILABLE: u64 = u64::MAX;

/// The functions of a loaded NVML.
#[derive(Clone, Copy, Debug)]
pub struct Nvml {
    pub device_by_bus_id: unsafe extern "C" fn(*const c_char, *mut nvmlDevice_t) -> nvmlReturn_t,
    pub running_processes: unsafe extern "C" fn(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_t) -> nvmlReturn_t,
}

impl Nvml {
    /// Loads and starts the library; `None` if it is not there or does not start.
    pub fn load() -> Option<Self> {
        let library = Library::first_of(&["libnvidia-ml.so.1"]).ok()?;
        let symbol = |export| Symbol { export, name: export, version: 0 };
        // SAFETY: the types are those of NVML's header for these names.
        unsafe {
            let start: unsafe extern "C" fn() -> nvmlReturn_t = library.symbol(symbol("nvmlInit_v2"))?;
            let nvml = Nvml {
                device_by_bus_id: library.symbol(symbol("nvmlDeviceGetHandleByPciBusId_v2"))?,
                running_processes: library
                    .symbol(symbol("nvmlDeviceGetComputeRunningProcesses_v3"))
                    .or_else(|| library.symbol(symbol("nvmlDeviceGetComputeRunningProcesses_v2")))?,
            };
            (start() == nvmlReturn_t::NVML_SUCCESS).then_some(nvml)
        }
    }
}
