//! A world: the driver, the settings, one allocator a device.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond::config::{Backend, Settings, Warning, caching_disabled_from_env};
use millpond::{Allocator, World};
use millpond_cuda::Cuda;
use millpond_driver::{Device, Driver, Status};

use crate::allocator::mp_allocator;
use crate::pointer;
use crate::stacks::Stacks;
use crate::status::{Answer, Failure, caught, mp_status};
use crate::text::give_string;

/// What the allocators of a process share.
pub struct mp_world {
    pub(crate) driver: Arc<Cuda>,
    pub(crate) world: Arc<World>,
    pub(crate) stacks: Arc<Stacks>,
    /// By device; never moved or dropped before the world is.
    allocators: Mutex<Vec<Option<Box<mp_allocator>>>>,
    /// The environment turned caching off (R10.40).
    uncached: bool,
}

impl mp_world {
    /// A world with the settings of a string, or without one of the environment, and what PyTorch would warn of.
    pub(crate) fn new(conf: Option<&str>) -> Answer<(Self, Vec<Warning>)> {
        let env = |name: &str| std::env::var(name).ok();
        let (settings, mut warnings) = match conf {
            Some(text) => Settings::written(text)?,
            None => Settings::from_env(&env).map(|read| (read.settings, read.warnings))?,
        };
        if settings.backend != Backend::Native {
            let text = format!("backend:{} has no C interface; use backend:native", settings.backend.name());
            return Err(Failure::Settings(text));
        }
        let (uncached, more) = if conf.is_none() { caching_disabled_from_env(&env) } else { (false, Vec::new()) };
        warnings.extend(more);
        let driver = Cuda::load()?;
        let allocators = Mutex::new((0..driver.device_count()).map(|_| None).collect());
        let world = mp_world { driver, world: World::new(settings), stacks: Arc::default(), allocators, uncached };
        Ok((world, warnings))
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Option<Box<mp_allocator>>>> {
        self.allocators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The allocator of a device, made when it is first asked for.
    pub(crate) fn allocator(&self, device: i32) -> Answer<*mut mp_allocator> {
        let mut allocators = self.locked();
        let place = usize::try_from(device).ok().and_then(|index| allocators.get_mut(index));
        let place = place.ok_or(Failure::Argument { argument: "device", why: "is not the index of a device" })?;
        let made = match place {
            Some(made) => made,
            None => {
                let driver: Arc<dyn Driver> = Arc::clone(&self.driver) as _;
                let allocator = Allocator::new(driver, Device(device as u32), Arc::clone(&self.world))?;
                if self.uncached {
                    allocator.enable_caching(false);
                }
                place.insert(Box::new(mp_allocator { allocator, stacks: Arc::clone(&self.stacks) }))
            }
        };
        Ok(std::ptr::from_mut(&mut **made))
    }

    /// The allocators there are.
    pub(crate) fn all(&self) -> Vec<Allocator> {
        self.locked().iter().flatten().map(|made| made.allocator.clone()).collect()
    }
}

/// Writes warnings, one a line, if they are wanted; NULL if there are none.
///
/// # Safety
/// Null, or a place for a pointer.
pub(crate) unsafe fn put_warnings(to: *mut *mut c_char, warnings: &[Warning]) -> Answer {
    if to.is_null() {
        return Ok(());
    }
    let lines: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    let text = if lines.is_empty() { std::ptr::null_mut() } else { give_string(lines.join("\n")) };
    // SAFETY: the caller's promise.
    unsafe { pointer::put(to, text, "warnings") }
}

/// Loads the driver and makes a world.
///
/// @param conf settings in Millpond's grammar ("expandable_segments:True,max_split_size_mb:128"); NULL for those of the
///   environment: PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF by PyTorch's rules, then MILLPOND_CONF over them.
/// @param warnings what PyTorch would warn of, one a line, for mp_string_destroy, or NULL; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_world_create(
    conf: *const c_char,
    out: *mut *mut mp_world,
    warnings: *mut *mut c_char,
) -> mp_status {
    caught(|| {
        // SAFETY: as the header documents.
        unsafe {
            pointer::put(out, std::ptr::null_mut(), "out")?;
            let conf = if conf.is_null() { None } else { Some(pointer::string(conf, "conf")?) };
            let (world, warned) = mp_world::new(conf.as_deref())?;
            put_warnings(warnings, &warned)?;
            pointer::put(out, pointer::give(world), "out")
        }
    })
}

/// Destroys a world and its allocators; their cached memory goes back to the driver. Live blocks keep theirs until the
/// process ends. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_world_destroy(world: *mut mp_world) {
    caught(|| {
        // SAFETY: as the header documents.
        unsafe { pointer::take_back(world) };
        Ok(())
    });
}

/// How many devices there are; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_world_device_count(world: *const mp_world) -> i32 {
    // SAFETY: as the header documents.
    unsafe { world.as_ref() }.map_or(0, |world| world.driver.device_count() as i32)
}

/// The allocator of a device, made when it is first asked for. It belongs to the world and lives as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_world_allocator(
    world: *const mp_world,
    device: i32,
    out: *mut *mut mp_allocator,
) -> mp_status {
    caught(|| {
        // SAFETY: as the header documents.
        unsafe {
            pointer::put(out, std::ptr::null_mut(), "out")?;
            pointer::put(out, pointer::at(world, "world")?.allocator(device)?, "out")
        }
    })
}
