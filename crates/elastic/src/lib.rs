//! Elastic device memory: buffers that grow in place, reach into the host's memory, cross process borders and sleep.
//!
//! All of it rests on virtual memory management: addresses are reserved once, for the largest size, and physical pages come
//! and go under them. So an address that was handed out never changes.
//!
//! - [`Growable`]: a buffer that grows and shrinks, at the end or anywhere.
//! - [`Elastic`]: one range of addresses, its front on the device, its tail on the host, and pages that move between both.
//! - [`share`]: memory for other processes, over a socket or as PyTorch's IPC string.
//! - [`Sleeper`]: tagged allocations and memory pools that give their memory back and keep their addresses.
//!
//! A call that fails leaves everything as it was, and its error says at which [`Step`] it failed.
//!
//! ```
//! use millpond_driver::{Bytes, Device};
//! use millpond_elastic::{GrowOptions, Growable};
//! use millpond_sim::{Sim, SimConfig};
//!
//! let sim = Sim::new(SimConfig::with_capacity(Bytes(1 << 30)));
//! // Addresses for 64 GiB on a device of 1 GiB cost nothing.
//! let mut cache = Growable::new(sim, Device(0), &GrowOptions::up_to(64 << 30))?;
//! let addr = cache.addr();
//! cache.grow_to(100 << 20)?;
//! cache.grow_to(300 << 20)?;
//! assert_eq!((cache.addr(), cache.committed()), (addr, 300 << 20));
//! assert!(cache.grow_to(2 << 30).unwrap_err().is_out_of_memory());
//! assert_eq!(cache.committed(), 300 << 20);
//! # Ok::<(), millpond_elastic::Error>(())
//! ```
#![forbid(unsafe_code)]

mod elastic;
mod error;
mod growable;
mod moving;
pub mod share;
mod sharing;
mod sleep;
mod space;
mod undo;

pub use elastic::{Elastic, ElasticOptions, Part};
pub use error::{Error, Result, Step};
pub use growable::{GrowOptions, Growable};
pub use sharing::Sharing;
pub use sleep::{Keep, Registration, Sleeper};
