//! `libnvidia-ml.so.1` over the simulated driver: what the devices are and what this process holds on them.
//!
//! It owns no device and calls the simulated `libcuda.so.1`. PyTorch needs it: it names the process's share in the text
//! of an out-of-memory error, and with expandable segments it does not survive without.
#![allow(non_snake_case, non_camel_case_types)]

mod devices;
mod system;

use std::ffi::c_int;

use millpond_cuda::sys::nvml::nvmlReturn_t;
use millpond_driver::Code;
use millpond_shim::Answer;

/// Runs a function's body; no panic leaves it. Answers are NVML's.
pub(crate) fn answer(body: impl FnOnce() -> Answer) -> nvmlReturn_t {
    match Code(millpond_shim::caught(body)) {
        Code(0) => nvmlReturn_t::NVML_SUCCESS,
        Code::ERROR_INVALID_VALUE => nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT,
        Code::ERROR_NOT_INITIALIZED => nvmlReturn_t::NVML_ERROR_UNINITIALIZED,
        Code::ERROR_NOT_SUPPORTED => nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED,
        Code::ERROR_INVALID_DEVICE | Code::ERROR_NOT_FOUND => nvmlReturn_t::NVML_ERROR_NOT_FOUND,
        INSUFFICIENT_SIZE => nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE,
        // Without the simulated driver, or with one that does not start, there is nothing to ask.
        Code(_) => nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED,
    }
}

/// A buffer is too small; CUDA has no code for that, so a number that it does not use.
pub(crate) const INSUFFICIENT_SIZE: Code = Code(-7);

/// Exports functions whose bodies answer with [`Answer`].
macro_rules! exports {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) -> millpond_cuda::sys::nvml::nvmlReturn_t {
                crate::answer(move || -> millpond_shim::Answer { $body })
            }
        )*
    };
}
pub(crate) use exports;

/// How many devices there are, once the driver runs.
pub(crate) fn device_count() -> Answer<c_int> {
    let (mut count, flags) = (0, 0);
    let to = &raw mut count;
    millpond_shim::driver!(cuInit(flags: u32))?;
    millpond_shim::driver!(cuDeviceGetCount(to: *mut c_int))?;
    Ok(count)
}
