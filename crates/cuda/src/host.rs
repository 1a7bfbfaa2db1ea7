//! Page-locked host memory, and pageable memory that is to be locked.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use millpond_driver::{Code, DriverError, Host, HostFlags, Result};
use rustix::mm::{MapFlags, ProtFlags};

use crate::cuda::Cuda;
use crate::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE,
};

/// The smallest page of any host that the driver runs on; touching every one makes all pages exist.
const PAGE: u64 = 4096;

/// The pageable memory that [`Host::host_malloc`] made: address → bytes.
#[derive(Debug, Default)]
pub(crate) struct Pageable(Mutex<BTreeMap<u64, u64>>);

impl Host for Cuda {
    fn host_alloc(&self, bytes: u64, flags: HostFlags) -> Result<u64> {
        self.remember(|| {
            let _entered = self.enter_any("cuMemHostAlloc")?;
            let flags =
                either(flags.portable, CU_MEMHOSTALLOC_PORTABLE) | either(flags.device_map, CU_MEMHOSTALLOC_DEVICEMAP);
            let mut addr = std::ptr::null_mut();
            call!(self, cuMemHostAlloc as "cuMemHostAlloc", &mut addr, bytes as usize, flags)?;
            Ok(addr.expose_provenance() as u64)
        })
    }

    fn host_free(&self, addr: u64) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter_any("cuMemFreeHost")?;
            call!(self, cuMemFreeHost as "cuMemFreeHost", pointer(addr))
        })
    }

    fn host_register(&self, addr: u64, bytes: u64, flags: HostFlags) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter_any("cuMemHostRegister")?;
            let flags = either(flags.portable, CU_MEMHOSTREGISTER_PORTABLE)
                | either(flags.device_map, CU_MEMHOSTREGISTER_DEVICEMAP);
            call!(self, cuMemHostRegister_v2 as "cuMemHostRegister", pointer(addr), bytes as usize, flags)
        })
    }

    fn host_unregister(&self, addr: u64) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter_any("cuMemHostUnregister")?;
            call!(self, cuMemHostUnregister as "cuMemHostUnregister", pointer(addr))
        })
    }

    fn host_malloc(&self, bytes: u64) -> Result<u64> {
        let length = usize::try_from(bytes).ok().filter(|&length| length != 0);
        let Some(length) = length else { return refuse("malloc", format!("{bytes} bytes")) };
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the system's choice touches no memory of anybody's.
        match unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, flags) } {
            Ok(addr) => {
                let addr = addr.expose_provenance() as u64;
                self.pageable.lock().insert(addr, bytes);
                Ok(addr)
            }
            Err(error) => Err(DriverError::with(Code::ERROR_OUT_OF_MEMORY, "malloc", error.to_string())),
        }
    }

    fn host_malloc_free(&self, addr: u64) -> Result<()> {
        let Some(bytes) = self.pageable.lock().remove(&addr) else {
            return refuse("free", format!("no memory that host_malloc made starts at {addr:#x}"));
        };
        // SAFETY: exactly the mapping that `host_malloc` made, given back once: it has just left the list.
        match unsafe { rustix::mm::munmap(pointer(addr), bytes as usize) } {
            Ok(()) => Ok(()),
            Err(error) => refuse("free", error.to_string()),
        }
    }

    fn host_touch(&self, addr: u64, bytes: u64) -> Result<()> {
        let inside = self
            .pageable
            .lock()
            .range(..=addr)
            .next_back()
            .is_some_and(|(&base, &whole)| addr.checked_add(bytes).is_some_and(|end| end <= base + whole));
        if !inside {
            return refuse("touch", format!("{bytes} bytes at {addr:#x} are not memory that host_malloc made"));
        }
        for at in (addr..addr + bytes).step_by(PAGE as usize) {
            let byte = pointer(at).cast::<u8>();
            // SAFETY: inside of a live mapping of this process, as was just checked; the byte keeps its value, and
            // volatile so that the access is not left out. Whoever owns the memory lets nobody else write meanwhile.
            unsafe { byte.write_volatile(byte.read_volatile()) };
        }
        Ok(())
    }
}

impl Pageable {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
        // Nothing that runs under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn either(on: bool, flag: u32) -> u32 {
    if on { flag } else { 0 }
}

fn pointer(addr: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

fn refuse<T>(call: &'static str, why: String) -> Result<T> {
    Err(DriverError::with(Code::ERROR_INVALID_VALUE, call, why))
}
