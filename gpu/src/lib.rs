//! What a machine with a real GPU can check and this project's own tests cannot. `check.sh` runs all of it, by way of
//! `examples/device_check.rs`; over the simulated driver it runs too, which tries the checks themselves.
//!
//! - [`suite`]: the behavioural suite that the simulated device passes;
//! - [`costs`]: the median of each call that an allocator makes, as a cost table that the simulated device reads;
//! - [`parity`]: the same requests on this device and on the simulated one, and every size and offset compared;
//! - [`integrity`]: what is written through one mapping is read through another, and other ranges are mapped and unmapped while
//!   kernels run.

pub mod costs;
mod host;
pub mod integrity;
mod kernel;
pub mod parity;
pub mod suite;

use millpond_cuda::Cuda;
use millpond_driver::{Device, Status};

/// The device that is checked.
const D: Device = Device(0);
const MIB: u64 = 1 << 20;

/// Whether the device is the simulated one, whose kernels compute nothing and whose times are this machine's.
///
/// # Errors
/// There is no device.
pub fn is_simulated(cuda: &Cuda) -> anyhow::Result<bool> {
    Ok(cuda.caps(D)?.name.contains("Millpond simulated"))
}

/// One line: the device, and whether it is simulated.
///
/// # Errors
/// There is no device.
pub fn about(cuda: &Cuda) -> anyhow::Result<String> {
    let caps = cuda.caps(D)?;
    let version = cuda.driver_version();
    let simulated =
        if is_simulated(cuda)? { "SIMULATED: its times are no device's, its kernels compute nothing" } else { "real" };
    Ok(format!("{}, {}, CUDA {}.{} ({simulated})", caps.name, caps.total, version / 1000, version % 1000 / 10))
}
