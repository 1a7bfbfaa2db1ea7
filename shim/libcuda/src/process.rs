//! The process's own memory, which is the simulated machine's host memory.

use std::ffi::c_void;

use millpond_sim::ProcessMemory;
use rustix::mm::{MapFlags, ProtFlags};

/// This process.
#[derive(Debug)]
pub(crate) struct ThisProcess;

impl ProcessMemory for ThisProcess {
    fn alloc(&self, bytes: u64) -> Option<u64> {
        let length = usize::try_from(bytes).ok()?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the system's choice touches no memory of anybody's.
        let addr = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, flags) }.ok()?;
        Some(addr.expose_provenance() as u64)
    }

    fn free(&self, addr: u64, bytes: u64) {
        let addr: *mut c_void = std::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: the simulation gives back exactly what `alloc` made, once.
        let given = unsafe { rustix::mm::munmap(addr, bytes as usize) };
        debug_assert!(given.is_ok());
    }

    fn read(&self, addr: u64, to: &mut [u8]) {
        let from: *const u8 = std::ptr::with_exposed_provenance(addr as usize);
        // SAFETY: by CUDA's contract for copies the program vouches for the memory that it names and lets nobody write to
        // it meanwhile; it cannot overlap `to`, which the program has never seen.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    fn write(&self, addr: u64, from: &[u8]) {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: as for `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
}
