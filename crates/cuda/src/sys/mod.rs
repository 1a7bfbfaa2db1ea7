//! The part of CUDA's driver interface that Millpond speaks: types, constants, structs and functions.
//!
//! Written by hand. A C enum is a number with named values (`types`), never a Rust enum, so a value that only a newer
//! driver knows stays what it is. Every definition brings its own test against `cudarc::driver::sys`: constants by
//! value, structs by size, alignment and the offset of each field, functions by the number and sizes of what they take.
//! Names are CUDA's own, so that the vendor's documentation can be searched for them.
#![allow(non_camel_case_types, non_snake_case, missing_docs)]

#[macro_use]
mod define;

mod attributes;
mod functions;
pub mod load;
pub mod nvml;
#[cfg(test)]
mod signature;
mod structs;
mod types;

pub use attributes::*;
pub use functions::Functions;
pub use structs::*;
pub use types::*;
