//! `libcudart.so.13` over the simulated driver, and `libcudart.so.12` for the programs that still ask for that.
//!
//! The vendor's runtime library asks a driver to prove that it is the vendor's. Millpond's simulated driver is not, and
//! neither claims nor forges that; so programs that use the runtime get this layer of our own, written from its
//! documented interface. It owns no device: it keeps what the runtime keeps for each thread (the current device, the
//! last error) and calls the simulated `libcuda.so.1` for the rest. It refuses any other driver.
//!
//! Most functions are one line of a list (`forward!`). Kernels are accepted by their address and do nothing.
#![allow(non_snake_case, non_camel_case_types)]

#[macro_use]
mod export;

mod copies;
mod device;
mod entry_points;
mod errors;
mod forms;
mod graphs;
mod kernels;
mod memory;
mod order;
mod pointers;
mod pools;
mod properties;
mod registration;
mod thread;
mod unsupported;
