//! Starting and stopping, versions, texts.

use std::ffi::{CStr, c_char, c_int, c_uint};

use millpond_cuda::sys::nvml::nvmlReturn_t;
use millpond_shim::{Out, copy_text, driver};

/// Our name, wherever a version is asked for as a text.
const VERSION: &str = concat!("Millpond simulated NVML ", env!("CARGO_PKG_VERSION"));

crate::exports! {
    fn nvmlInit_v2() { crate::device_count().map(drop) }
    fn nvmlInit() { crate::device_count().map(drop) }
    fn nvmlInitWithFlags(_flags: c_uint) { crate::device_count().map(drop) }
    fn nvmlShutdown() { Ok(()) }

    fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) { driver!(cuDriverGetVersion(version: *mut c_int)) }
    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) { driver!(cuDriverGetVersion(version: *mut c_int)) }
    fn nvmlSystemGetDriverVersion(text: Out<c_char>, len: c_uint) { copy_text(text, len as c_int, VERSION) }
    fn nvmlSystemGetNVMLVersion(text: Out<c_char>, len: c_uint) { copy_text(text, len as c_int, VERSION) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: nvmlReturn_t) -> *const c_char {
    let text: &CStr = match code {
        nvmlReturn_t::NVML_SUCCESS => c"Success",
        nvmlReturn_t::NVML_ERROR_UNINITIALIZED => c"Uninitialized",
        nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT => c"Invalid Argument",
        nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED => c"Not Supported",
        nvmlReturn_t::NVML_ERROR_NOT_FOUND => c"Not Found",
        nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE => c"Insufficient Size",
        nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED => c"Driver Not Loaded",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
