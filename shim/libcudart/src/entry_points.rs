//! Functions of the driver, by name.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use millpond_cuda::sys::CUdriverProcAddressQueryResult as Found;
use millpond_shim::{Answer, Out, Text, driver};

exports! {
    fn cudaGetDriverEntryPointByVersion(
        name: Text, to: *mut *mut c_void, version: c_uint, flags: c_ulonglong, outcome: Out<Found>,
    ) {
        find(name, to, version, flags, outcome)
    }
}

/// That there is no such function is an answer, not a failure, if the program asked for the outcome.
pub(crate) fn find(
    name: Text,
    to: *mut *mut c_void,
    version: c_uint,
    flags: c_ulonglong,
    outcome: Out<Found>,
) -> Answer {
    let mut found = Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    let (version, of) = (version as c_int, &raw mut found);
    let answer = driver!(cuGetProcAddress_v2(
        name: Text, to: *mut *mut c_void, version: c_int, flags: c_ulonglong, of: *mut Found));
    outcome.offer(found);
    if outcome.is_null() { answer } else { Ok(()) }
}
