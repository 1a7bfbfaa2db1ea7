//! What a CUDA device is, as far as memory is concerned.
//!
//! [`Driver`] is the sum of small, object-safe traits, one file each: [`Memory`], [`Virtual`], [`Order`], [`Capture`],
//! [`Host`], [`Async`], [`Peers`] and [`Status`]. Method names follow CUDA's (`cuMemMap` is [`Virtual::mem_map`]), so
//! whoever knows the driver API knows this crate. Two implementations exist: the simulated device (`millpond-sim`) and
//! the real one (`millpond-cuda`, which loads libcuda at run time). The allocator holds an `Arc<dyn Driver>` and never
//! knows which it has.
//!
//! An address is a number here: nothing in this crate dereferences one, and nothing is `unsafe`.
//!
//! ```
//! use millpond_driver::{Bytes, Device, Stream};
//!
//! let limit: Bytes = "1.5GiB".parse().unwrap();
//! assert_eq!(limit, Bytes(1_610_612_736));
//! assert_eq!(limit.to_string(), "1.5GiB");
//! assert_eq!(Stream::default_of(Device(0)).raw, 0);
//! ```
#![forbid(unsafe_code)]

mod asynchronous;
mod bytes;
mod capture;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod host;
mod ids;
mod ipc;
mod memory;
mod order;
mod peers;
mod status;
mod virtual_memory;

pub use asynchronous::{Async, DriverPool, PoolAttribute};
pub use bytes::{Bytes, ParseBytesError};
pub use capture::{Capture, CaptureInfo, CaptureMode, CaptureStatus, Graph, Node};
pub use clock::Reading;
pub use error::{Code, DriverError, Result};
pub use host::{Host, HostFlags};
pub use ids::{Device, Event, Stream};
pub use ipc::{Ipc, IpcMemHandle};
pub use memory::{Memory, ProcessUse};
pub use order::Order;
pub use peers::Peers;
pub use status::{Caps, Status};
pub use virtual_memory::{Access, Granularity, Handle, HandleProps, HandleType, Location, Shareable, Virtual};

/// A CUDA device driver: everything the allocator may ask of a device.
///
/// Implemented for every type that has all the parts.
pub trait Driver:
    Memory + Ipc + Virtual + Order + Capture + Host + Async + Peers + Status + std::fmt::Debug + Send + Sync
{
}

impl<T> Driver for T where
    T: Memory + Ipc + Virtual + Order + Capture + Host + Async + Peers + Status + std::fmt::Debug + Send + Sync
{
}
