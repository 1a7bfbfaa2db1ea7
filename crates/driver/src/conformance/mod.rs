//! What every driver must do: one behavioural suite, run on the simulated device, on the real one's code path over the
//! simulated libraries, and on hardware.
//!
//! Checks ask only for what CUDA promises. What is a driver's own choice (addresses, sizes above the granularity, when
//! work ends before somebody waits for it) is not asked for, and what a device is not able to do is passed over, by its
//! [`Caps`](crate::Caps). A check that fails panics with the reason.

mod capture;
mod host;
mod memory;
mod order;
mod peers;
mod pools;
mod status;
mod virtual_memory;

use crate::{Code, Device, Driver, Result};

/// The first device, on which most checks run.
const D: Device = Device(0);
/// Enough for every granularity.
const MIB: u64 = 1 << 20;

/// A driver under test, with the host's side of its memory.
pub struct Subject<'a> {
    /// The driver.
    pub driver: &'a dyn Driver,
    /// Reads host memory that the driver made: `len` bytes at an address.
    pub read: &'a dyn Fn(u64, usize) -> Vec<u8>,
    /// Writes host memory that the driver made.
    pub write: &'a dyn Fn(u64, &[u8]),
}

/// One check.
#[derive(Clone, Copy)]
pub struct Check {
    /// What holds, as a sentence.
    pub name: &'static str,
    run: fn(&Subject<'_>),
}

/// All checks.
pub fn checks() -> impl Iterator<Item = Check> {
    let families: [&'static [Check]; 8] = [
        status::CHECKS,
        memory::CHECKS,
        virtual_memory::CHECKS,
        order::CHECKS,
        capture::CHECKS,
        host::CHECKS,
        pools::CHECKS,
        peers::CHECKS,
    ];
    families.into_iter().flatten().copied()
}

impl Check {
    /// Runs the check.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn run(self, subject: &Subject<'_>) {
        (self.run)(subject);
    }
}

/// Runs all checks, one after the other; answers how many there were.
///
/// # Panics
/// At the first that does not hold, with its name and reason.
pub fn suite(subject: &Subject<'_>) -> usize {
    checks().map(|check| check.run(subject)).count()
}

/// Lists checks by the names of their functions.
macro_rules! listed {
    ($($name:ident),* $(,)?) => {
        pub(super) const CHECKS: &[super::Check] =
            &[$(super::Check { name: stringify!($name), run: $name }),*];
    };
}
use listed;

impl Subject<'_> {
    /// The bytes at a device address, by way of page-locked memory.
    fn device_bytes(&self, addr: u64, len: u64) -> Vec<u8> {
        let stream = self.driver.stream_create(D).unwrap();
        let host = self.driver.host_alloc(len, crate::HostFlags::default()).unwrap();
        self.driver.memcpy_async(host, addr, len, stream).unwrap();
        self.driver.stream_synchronize(stream).unwrap();
        let bytes = (self.read)(host, len as usize);
        self.driver.host_free(host).unwrap();
        self.driver.stream_destroy(stream).unwrap();
        bytes
    }

    /// Fills device memory and waits.
    fn fill(&self, addr: u64, value: u8, len: u64) {
        let stream = self.driver.stream_create(D).unwrap();
        self.driver.memset_async(addr, value, len, stream).unwrap();
        self.driver.stream_synchronize(stream).unwrap();
        self.driver.stream_destroy(stream).unwrap();
    }
}

/// The code of a call that must fail. The error that it leaves behind is taken.
#[track_caller]
fn code<T: std::fmt::Debug>(subject: &Subject<'_>, result: Result<T>) -> Code {
    let code = result.expect_err("the call must fail").code;
    subject.driver.take_last_error();
    code
}
