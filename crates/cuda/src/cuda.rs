//! The driver, loaded and started.

use std::sync::atomic::AtomicI32;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use millpond_driver::{Caps, Code, Device, DriverError, Result};

use crate::context::Context;
use crate::host::Pageable;
use crate::sys::Functions;
use crate::sys::load::{Library, LoadError};
use crate::sys::nvml::Nvml;

/// The vendor's driver and its devices.
pub struct Cuda {
    pub(crate) functions: Functions,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) version: i32,
    pub(crate) started: Instant,
    /// The pending error's code; 0 for none.
    pub(crate) last_error: AtomicI32,
    pub(crate) pageable: Pageable,
    nvml: OnceLock<Option<Nvml>>,
    library: Library,
}

/// What is known about a device from the start, and its primary context once somebody needs it.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub ordinal: i32,
    pub bus_id: std::ffi::CString,
    pub caps: Caps,
    pub context: OnceLock<Context>,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda")
            .field("library", &self.library.name())
            .field("version", &self.version)
            .field("devices", &self.devices.len())
            .finish_non_exhaustive()
    }
}

impl Cuda {
    /// Loads and starts the driver: the library that `MILLPOND_LIBCUDA` names, else `libcuda.so.1`, else `libcuda.so`.
    ///
    /// # Errors
    /// [`LoadError`]: no library, with all names tried; a library that lacks functions, with their names; a driver that
    /// does not start (`NO_DEVICE` among the reasons).
    pub fn load() -> std::result::Result<Arc<Self>, LoadError> {
        Self::from_library(Library::cuda()?)
    }

    /// Starts the driver in `library`.
    ///
    /// # Errors
    /// As [`Cuda::load`].
    pub fn from_library(library: Library) -> std::result::Result<Arc<Self>, LoadError> {
        let functions = Functions::find(&library)?;
        let mut cuda = Cuda {
            functions,
            devices: Vec::new(),
            version: 0,
            started: Instant::now(),
            last_error: AtomicI32::new(0),
            pageable: Pageable::default(),
            nvml: OnceLock::new(),
            library,
        };
        call!(cuda, cuInit as "cuInit", 0)?;
        let (mut version, mut count) = (0, 0);
        call!(cuda, cuDriverGetVersion as "cuDriverGetVersion", &mut version)?;
        call!(cuda, cuDeviceGetCount as "cuDeviceGetCount", &mut count)?;
        cuda.version = version;
        cuda.devices = (0..count).map(|ordinal| cuda.discover(ordinal)).collect::<Result<_>>()?;
        Ok(Arc::new(cuda))
    }

    /// The library's name, as it was found.
    pub fn library(&self) -> &str {
        self.library.name()
    }

    pub(crate) fn device(&self, device: Device, call: &'static str) -> Result<&DeviceState> {
        self.devices.get(device.0 as usize).ok_or_else(|| {
            let detail = format!("there is no {device}; this machine has {} devices", self.devices.len());
            DriverError::with(Code::ERROR_INVALID_DEVICE, call, detail)
        })
    }

    /// The management library, loaded when first asked for.
    pub(crate) fn nvml(&self) -> Option<&Nvml> {
        self.nvml.get_or_init(Nvml::load).as_ref()
    }
}
