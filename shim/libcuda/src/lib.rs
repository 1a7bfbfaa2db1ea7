//! `libcuda.so.1` over Millpond's simulated device.
//!
//! A program that is started by `millpond sim` finds this library in place of the vendor's driver. It is one device of
//! [`millpond_sim`] behind CUDA's driver interface: memory, virtual memory, streams, events, captures, graphs, pools and
//! page-locked memory behave as on a device, and kernels are accepted, take time, and compute nothing. What it does not
//! have answers `CUDA_ERROR_NOT_SUPPORTED`. It says its own name wherever a name is asked for, starts only for
//! `millpond sim`, and never beside a real driver (`refuse`).
//!
//! The machine is described by environment variables ([`millpond_sim::Environment`]). Each file below is one family of
//! functions; `export` makes the table of them from which `cuGetProcAddress` answers.
#![allow(non_snake_case, non_camel_case_types)]

#[macro_use]
mod export;

mod attributes;
mod capture;
mod context;
mod control;
mod copies;
mod device;
mod errors;
mod graphs;
mod handles;
mod host;
mod ipc;
mod log;
mod machine;
mod memory;
mod modules;
mod order;
mod pointers;
mod pools;
mod process;
mod refuse;
mod table;
mod unsupported;
mod virtual_memory;
