//! Plain memory of another process: `cuIpcGetMemHandle` and what belongs to it.

use crate::{Code, Device, DriverError, Result};

/// A `CUipcMemHandle`: 64 bytes that only the driver reads.
pub type IpcMemHandle = [u8; 64];

/// Plain memory between processes. A driver that implements nothing shares none and says so.
pub trait Ipc {
    /// `cuIpcGetMemHandle`: a handle of the allocation that begins at `addr`, for other processes. It is good while the
    /// allocation lives.
    ///
    /// # Errors
    /// `INVALID_VALUE` for memory that is not `mem_alloc`'s; `NOT_SUPPORTED`.
    fn ipc_handle(&self, addr: u64) -> Result<IpcMemHandle> {
        let _ = addr;
        not_supported("cuIpcGetMemHandle")
    }

    /// `cuIpcOpenMemHandle`: the base address at which `device` sees the allocation. A handle that is open already gives
    /// the same address once more; each opening is closed by itself.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` in the process that made the memory; `INVALID_HANDLE` for a handle of no memory, or of memory
    /// that is gone; `OUT_OF_MEMORY` without addresses; `NOT_SUPPORTED`.
    fn ipc_open(&self, device: Device, handle: &IpcMemHandle) -> Result<u64> {
        let _ = (device, handle);
        not_supported("cuIpcOpenMemHandle")
    }

    /// `cuIpcCloseMemHandle`: takes back one opening on `device`. The memory itself stays with the process that made it.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an address that `ipc_open` did not return; `NOT_SUPPORTED`.
    fn ipc_close(&self, device: Device, addr: u64) -> Result<()> {
        let _ = (device, addr);
        not_supported("cuIpcCloseMemHandle")
    }
}

fn not_supported<T>(call: &'static str) -> Result<T> {
    let detail = "this driver shares no plain memory between processes";
    Err(DriverError::with(Code::ERROR_NOT_SUPPORTED, call, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_it_says_so() {
        struct Without;
        impl Ipc for Without {}
        let error = Without.ipc_open(Device(0), &[0; 64]).unwrap_err();
        assert_eq!((error.code, error.call), (Code::ERROR_NOT_SUPPORTED, "cuIpcOpenMemHandle"));
        assert!(error.to_string().contains("shares no plain memory"), "{error}");
        assert!(Without.ipc_handle(1).is_err() && Without.ipc_close(Device(0), 1).is_err());
    }
}
