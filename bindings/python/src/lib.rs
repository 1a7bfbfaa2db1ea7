//! The extension module `millpond._native`: `libmillpond.so`, as Python sees it.
//!
//! The library is loaded at run time and not linked, so that this module, PyTorch's plugs and the C++ shim all talk to one
//! allocator. What the functions mean is in `millpond.h`; the package `millpond` gives them their Python faces.

mod library;
mod table;

use pyo3::prelude::*;

/// `libmillpond.so`, as Python sees it.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::library::{Library, MillpondError, OutOfMemoryError};
}
