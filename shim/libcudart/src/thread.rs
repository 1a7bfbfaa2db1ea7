//! What the runtime keeps for each thread: its device and its last error; and the contexts of all.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millpond_cuda::sys::CUcontext;
use millpond_driver::Code;
use millpond_shim::{Answer, driver};

/// No device of any machine.
const NONE: c_int = -1;

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    /// The device whose context this thread has entered.
    static ENTERED: Cell<c_int> = const { Cell::new(NONE) };
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
}

/// The primary contexts that the runtime has taken, by device; it takes each once.
static CONTEXTS: Mutex<Vec<(c_int, CUcontext)>> = Mutex::new(Vec::new());

fn contexts() -> MutexGuard<'static, Vec<(c_int, CUcontext)>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn device() -> c_int {
    DEVICE.get()
}

/// Starts the driver.
pub(crate) fn started() -> Answer {
    let flags = 0;
    driver!(cuInit(flags: u32))
}

/// Makes sure that the thread's device has a context and that it is current.
pub(crate) fn entered() -> Answer {
    if ENTERED.get() == DEVICE.get() { Ok(()) } else { enter(DEVICE.get()) }
}

/// Makes a device the thread's.
pub(crate) fn choose(device: c_int) -> Answer {
    if ENTERED.get() != device {
        enter(device)?;
    }
    DEVICE.set(device);
    Ok(())
}

#[cold]
fn enter(device: c_int) -> Answer {
    let context = primary(device)?;
    driver!(cuCtxSetCurrent(context: CUcontext))?;
    ENTERED.set(device);
    Ok(())
}

/// The primary context of a device.
pub(crate) fn primary(device: c_int) -> Answer<CUcontext> {
    started()?;
    let mut contexts = contexts();
    if let Some(&(_, context)) = contexts.iter().find(|(of, _)| *of == device) {
        return Ok(context);
    }
    let mut context = CUcontext(0);
    let to = &raw mut context;
    driver!(cuDevicePrimaryCtxRetain(to: *mut CUcontext, device: c_int))?;
    contexts.push((device, context));
    Ok(context)
}

/// A call has failed; an error that leaves the device unusable is not overwritten.
pub(crate) fn failed(code: c_int) {
    if !is_fatal(LAST_ERROR.get()) {
        LAST_ERROR.set(code);
    }
}

pub(crate) fn last_error() -> c_int {
    LAST_ERROR.get()
}

pub(crate) fn clear_error() {
    if !is_fatal(LAST_ERROR.get()) {
        LAST_ERROR.set(0);
    }
}

fn is_fatal(code: c_int) -> bool {
    code == Code::ERROR_ILLEGAL_ADDRESS.0 || code == Code::ERROR_LAUNCH_FAILED.0
}
