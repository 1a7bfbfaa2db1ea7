//! The machine: one simulation in a process, started by `cuInit`.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use millpond_driver::{Code, Device};
use millpond_sim::{Environment, Sim};

use crate::export::{Answer, Failure};
use crate::process::ThisProcess;

/// The machine of this process.
#[derive(Debug)]
pub(crate) struct Machine {
    pub sim: Arc<Sim>,
    pub kernel_us: u64,
}

static MACHINE: OnceLock<Result<Machine, Failure>> = OnceLock::new();

/// Starts the machine, or says why there is none: once on stderr, to each call by its code.
pub(crate) fn start() -> Answer<&'static Machine> {
    MACHINE.get_or_init(build).as_ref().map_err(|&failure| failure)
}

/// The machine, once `cuInit` has started it.
pub(crate) fn machine() -> Answer<&'static Machine> {
    match MACHINE.get() {
        Some(machine) => machine.as_ref().map_err(|&failure| failure),
        None => Err(Code::ERROR_NOT_INITIALIZED.into()),
    }
}

/// The simulation, once `cuInit` has started it.
pub(crate) fn sim() -> Answer<&'static Sim> {
    Ok(&machine()?.sim)
}

/// The device with this ordinal.
pub(crate) fn device(ordinal: i32) -> Answer<Device> {
    let count = sim()?.config().devices.len();
    let found = u32::try_from(ordinal).ok().filter(|&ordinal| (ordinal as usize) < count);
    found.map(Device).ok_or(Failure(Code::ERROR_INVALID_DEVICE))
}

fn build() -> Answer<Machine> {
    let say = |why: &dyn std::fmt::Display| eprintln!("millpond: the simulated libcuda does not start: {why}");
    if let Some(why) = crate::refuse::reason() {
        say(&why);
        return Err(Code::ERROR_NOT_PERMITTED.into());
    }
    let wish = Environment::of_process().map_err(|error| {
        say(&error);
        Failure(Code::ERROR_INVALID_VALUE)
    })?;
    if let Some(path) = &wish.log
        && let Err(error) = crate::log::open(path)
    {
        say(&format!("{}: {error}", path.display()));
        return Err(Code::ERROR_INVALID_VALUE.into());
    }
    if wish.config.devices.is_empty() {
        return Err(Code::ERROR_NO_DEVICE.into());
    }
    Ok(Machine { sim: Sim::with_process(wish.config, Arc::new(ThisProcess)), kernel_us: wish.kernel_us })
}

/// A lock that survives a panic: what is behind it is changed by single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
