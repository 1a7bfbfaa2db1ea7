//! The world of the process: the one that the functions for PyTorch's plugs use, as those take no handle.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::allocator::mp_allocator;
use crate::pointer;
use crate::status::{Answer, caught, mp_status};
use crate::world::mp_world;

static WORLD: OnceLock<mp_world> = OnceLock::new();
static MAKING: Mutex<()> = Mutex::new(());

/// The world, made when it is first asked for; a failure is tried again.
pub(crate) fn world() -> Answer<&'static mp_world> {
    if let Some(world) = WORLD.get() {
        return Ok(world);
    }
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    match WORLD.get() {
        Some(world) => Ok(world),
        None => mp_world::new(None).map(|(made, _)| WORLD.get_or_init(|| made)),
    }
}

/// The world of the process, with the settings of the environment, made when it is first asked for. It lives as long as the
/// process and is never destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_process_world(out: *mut *const mp_world) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        pointer::put(out, std::ptr::null(), "out")?;
        pointer::put(out, world()?, "out")
    })
}

/// The allocator of a device in the world of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_process_allocator(device: i32, out: *mut *mut mp_allocator) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        pointer::put(out, std::ptr::null_mut(), "out")?;
        pointer::put(out, world()?.allocator(device)?, "out")
    })
}
