//! A simulated CUDA device: CUDA's memory model without a GPU.
//!
//! [`Sim`] implements all parts of [`Driver`](millpond_driver::Driver) and enforces what CUDA enforces, with its error
//! codes: physical memory in granules of 2 MiB, one space of addresses, the rules of virtual memory management, streams
//! and events, graph capture, page-locked memory, driver pools, peers. [`SimConfig`] says what the machine is like.
//! Time is virtual, so a run is deterministic to the last byte.
//!
//! - Events complete when recorded, when a test says so ([`Sim::advance`]), or by a clock ([`EventMode`]).
//! - [`Sim::take_log`] lists the memory calls; [`Sim::driver_time_us`] is what they cost by a table ([`CostTable`]).
//! - [`Sim::fail`] makes any call fail with any code.
//! - [`Sim::launch`] checks that a kernel's addresses are mapped and accessible and, with [`SimConfig::hazards`], that
//!   its uses of memory are ordered ([`Sim::hazards`]); [`Sim::read`] shows the bytes with [`SimConfig::backing`].
//!
//! ```
//! use millpond_driver::{Bytes, Device, Memory, Order, Stream};
//! use millpond_sim::{EventMode, Sim, SimConfig};
//!
//! let config = SimConfig { events: EventMode::Manual, ..SimConfig::with_capacity(Bytes(1 << 30)) };
//! let sim = Sim::new(config);
//! let (device, stream) = (Device(0), Stream::new(Device(0), 1));
//!
//! let addr = sim.mem_alloc(device, 20 << 20)?;
//! sim.launch(stream, 100, &[], &[(addr, 512)])?;
//! let event = sim.event_create(device)?;
//! sim.event_record(event, stream)?;
//! assert!(!sim.event_query(event)?);
//! sim.advance(1);
//! assert!(sim.event_query(event)?);
//! assert!(sim.mem_alloc(device, 1 << 30).unwrap_err().is_out_of_memory());
//! # Ok::<(), millpond_driver::DriverError>(())
//! ```
#![forbid(unsafe_code)]

mod address_space;
mod backing;
mod calls;
mod capture;
mod clocks;
mod config;
mod cost;
mod environment;
mod events;
mod faults;
mod hazards;
mod host;
mod ipc;
mod log;
mod mappings;
mod memory;
mod meter;
mod peers;
mod physical;
mod pools;
mod process;
mod sim;
mod slab;
mod status;
mod streams;
mod virtual_memory;
mod work;

pub use calls::CallKind;
pub use config::{DeviceConfig, EventMode, Placement, RecordedRange, SimConfig};
pub use cost::{CallCost, CostError, CostTable};
pub use environment::{Environment, EnvironmentError, MARK, PREFIX, parse_faults};
pub use faults::{FaultCalls, FaultRule, FaultWhen};
pub use hazards::{Block, Hazard, HazardKind, Hint, Use};
pub use log::Call;
pub use process::ProcessMemory;
pub use sim::Sim;
