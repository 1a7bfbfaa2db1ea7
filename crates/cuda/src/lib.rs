//! A CUDA device through the vendor's driver.
//!
//! [`Cuda`] implements all parts of [`Driver`](millpond_driver::Driver) on `libcuda`, which is loaded at run time: nothing
//! of CUDA is needed to build, and a machine without a driver gets an error that says what was tried. Each device's
//! primary context is used, the one that the runtime and every framework share, so addresses, streams and events can
//! be passed to and fro. A call makes that context current in its thread and leaves the thread as it was.
//!
//! A [`Stream`](millpond_driver::Stream)'s raw handle is a `CUstream`: 0 and 1 are the legacy default stream, 2 the
//! default stream of the calling thread. [`sys`] has the definitions of the driver's interface that this is built on.
//!
//! ```no_run
//! use millpond_cuda::Cuda;
//! use millpond_driver::{Device, Memory, Status};
//!
//! let cuda = Cuda::load()?;
//! println!("{}: {}", cuda.caps(Device(0))?.name, cuda.caps(Device(0))?.total);
//! let addr = cuda.mem_alloc(Device(0), 20 << 20)?;
//! cuda.mem_free(Device(0), addr)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod sys;

#[macro_use]
mod call;

mod asynchronous;
mod capture;
mod context;
mod cuda;
mod host;
mod ipc;
mod kernel;
mod memory;
mod order;
mod peers;
mod presence;
mod status;
mod virtual_memory;

pub use cuda::Cuda;
pub use kernel::Kernel;
pub use presence::trace_of_driver;
pub use sys::load::LoadError;
