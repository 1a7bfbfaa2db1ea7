//! `cuGetProcAddress`: a function by its name and the CUDA version that a program was built for.

use std::ffi::{c_int, c_void};

use millpond_cuda::sys::CUdriverProcAddressQueryResult as Found;
use millpond_driver::Code;

use crate::export::{Answer, Entry};
use millpond_shim::{Out, Text};

/// All functions.
const TABLES: &[&[Entry]] = &[
    crate::capture::TABLE,
    crate::context::TABLE,
    crate::control::TABLE,
    crate::copies::TABLE,
    crate::device::TABLE,
    crate::errors::TABLE,
    crate::graphs::TABLE,
    crate::host::TABLE,
    crate::ipc::TABLE,
    crate::memory::TABLE,
    crate::modules::TABLE,
    crate::order::TABLE,
    crate::pointers::TABLE,
    crate::pools::TABLE,
    crate::unsupported::TABLE,
    crate::virtual_memory::TABLE,
    TABLE,
];

exports! {
    fn cuGetProcAddress("cuGetProcAddress" 11030, name: Text, to: Out<*const c_void>, version: c_int, _flags: u64) {
        find(&name.get()?, version, to).map(drop)
    }

    fn cuGetProcAddress_v2("cuGetProcAddress" 12000,
        name: Text, to: Out<*const c_void>, version: c_int, _flags: u64, outcome: Out<Found>) {
        outcome.offer(Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        let found = find(&name.get()?, version, to);
        outcome.offer(match found {
            Ok(()) => Found::CU_GET_PROC_ADDRESS_SUCCESS,
            Err(_) if TABLES.iter().any(|table| table.iter().any(|entry| name.get().is_ok_and(|name| name == entry.name))) => {
                Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
            }
            Err(_) => Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
        });
        found
    }
}

/// The newest form of the function that a program of `version` knows.
fn find(name: &str, version: c_int, to: Out<*const c_void>) -> Answer {
    let forms = TABLES.iter().copied().flatten().filter(|entry| entry.name == name && entry.version <= version);
    match forms.max_by_key(|entry| entry.version) {
        Some(entry) => to.set(entry.address.cast()),
        None => {
            to.set(std::ptr::null())?;
            Err(Code::ERROR_NOT_FOUND.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_function_is_listed_twice() {
        let mut seen = std::collections::HashSet::new();
        for entry in TABLES.iter().copied().flatten() {
            assert!(seen.insert((entry.name, entry.version)), "{} {}", entry.name, entry.version);
        }
        assert!(seen.len() > 250, "{}", seen.len());
    }
}
