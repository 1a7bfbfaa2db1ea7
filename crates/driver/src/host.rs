//! Page-locked host memory.

use crate::Result;

/// Flags of a host allocation or registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFlags {
    /// Usable from every context (`CU_MEMHOSTALLOC_PORTABLE`).
    pub portable: bool,
    /// Mapped into the device's address space (`CU_MEMHOSTALLOC_DEVICEMAP`).
    pub device_map: bool,
}

/// Page-locked host memory. Needs some device to have a context, as on a real driver.
pub trait Host {
    /// `cuMemHostAlloc`: `bytes` of page-locked host memory.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`; `INVALID_VALUE` for 0 bytes.
    fn host_alloc(&self, bytes: u64, flags: HostFlags) -> Result<u64>;

    /// `cuMemFreeHost`.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn host_free(&self, addr: u64) -> Result<()>;

    /// `cuMemHostRegister`: page-locks memory that the caller owns.
    ///
    /// # Errors
    /// `HOST_MEMORY_ALREADY_REGISTERED`, `OUT_OF_MEMORY`.
    fn host_register(&self, addr: u64, bytes: u64, flags: HostFlags) -> Result<()>;

    /// `cuMemHostUnregister`.
    ///
    /// # Errors
    /// `HOST_MEMORY_NOT_REGISTERED`.
    fn host_unregister(&self, addr: u64) -> Result<()>;

    /// Pageable host memory for a later [`Host::host_register`] (the C library's `malloc`, page-aligned).
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`.
    fn host_malloc(&self, bytes: u64) -> Result<u64>;

    /// Gives back what [`Host::host_malloc`] made.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn host_malloc_free(&self, addr: u64) -> Result<()>;

    /// Writes to one byte of each page of the range, so that the pages exist before they are locked.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn host_touch(&self, addr: u64, bytes: u64) -> Result<()>;
}
