//! The last error, names and texts.

use std::ffi::{CStr, c_char, c_int};

use millpond_cuda::sys::CUresult;
use millpond_shim::driver;

use crate::thread::{clear_error, last_error};

/// The runtime's names of the codes, which it shares with the driver.
const NAMES: &[(c_int, &CStr)] = &[
    (0, c"cudaSuccess"),
    (1, c"cudaErrorInvalidValue"),
    (2, c"cudaErrorMemoryAllocation"),
    (3, c"cudaErrorInitializationError"),
    (4, c"cudaErrorCudartUnloading"),
    (9, c"cudaErrorInvalidConfiguration"),
    (13, c"cudaErrorInvalidSymbol"),
    (35, c"cudaErrorInsufficientDriver"),
    (52, c"cudaErrorMissingConfiguration"),
    (100, c"cudaErrorNoDevice"),
    (101, c"cudaErrorInvalidDevice"),
    (201, c"cudaErrorDeviceUninitialized"),
    (205, c"cudaErrorMapBufferObjectFailed"),
    (208, c"cudaErrorAlreadyMapped"),
    (211, c"cudaErrorNotMapped"),
    (304, c"cudaErrorOperatingSystem"),
    (400, c"cudaErrorInvalidResourceHandle"),
    (401, c"cudaErrorIllegalState"),
    (500, c"cudaErrorSymbolNotFound"),
    (600, c"cudaErrorNotReady"),
    (700, c"cudaErrorIllegalAddress"),
    (704, c"cudaErrorPeerAccessAlreadyEnabled"),
    (705, c"cudaErrorPeerAccessNotEnabled"),
    (712, c"cudaErrorHostMemoryAlreadyRegistered"),
    (713, c"cudaErrorHostMemoryNotRegistered"),
    (719, c"cudaErrorLaunchFailure"),
    (800, c"cudaErrorNotPermitted"),
    (801, c"cudaErrorNotSupported"),
    (900, c"cudaErrorStreamCaptureUnsupported"),
    (901, c"cudaErrorStreamCaptureInvalidated"),
    (902, c"cudaErrorStreamCaptureMerge"),
    (903, c"cudaErrorStreamCaptureUnmatched"),
    (904, c"cudaErrorStreamCaptureUnjoined"),
    (905, c"cudaErrorStreamCaptureIsolation"),
    (906, c"cudaErrorStreamCaptureImplicit"),
    (907, c"cudaErrorCapturedEvent"),
    (908, c"cudaErrorStreamCaptureWrongThread"),
    (999, c"cudaErrorUnknown"),
];

/// Texts for the codes that only the runtime has.
const TEXTS: &[(c_int, &CStr)] = &[
    (9, c"invalid configuration argument"),
    (13, c"invalid device symbol"),
    (35, c"the simulated driver is not there: programs use this library by way of `millpond sim`"),
    (52, c"a launch without a configuration"),
    (304, c"OS call failed or operation not supported on this OS"),
    (401, c"the operation cannot be performed in the present state"),
];

const UNRECOGNISED: &CStr = c"unrecognized error code";

extern "C" fn cudaGetLastError() -> c_int {
    let code = last_error();
    clear_error();
    code
}
symbol!(cudaGetLastError, cudaGetLastError);

extern "C" fn cudaPeekAtLastError() -> c_int {
    last_error()
}
symbol!(cudaPeekAtLastError, cudaPeekAtLastError);

extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    find(NAMES, code).unwrap_or(UNRECOGNISED).as_ptr()
}
symbol!(cudaGetErrorName, cudaGetErrorName);

extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    if let Some(text) = find(TEXTS, code) {
        return text.as_ptr();
    }
    let (mut text, answer) = (std::ptr::null(), CUresult(code));
    let to = &raw mut text;
    match driver!(cuGetErrorString(answer: CUresult, to: *mut *const c_char)) {
        Ok(()) => text,
        Err(_) => UNRECOGNISED.as_ptr(),
    }
}
symbol!(cudaGetErrorString, cudaGetErrorString);

fn find(table: &[(c_int, &'static CStr)], code: c_int) -> Option<&'static CStr> {
    table.iter().find(|(each, _)| *each == code).map(|(_, text)| *text)
}
