//! Plain allocations (`cuMemAlloc`) between processes: kind 'c' of the IPC string (R4.34).

use std::sync::{Arc, Mutex, PoisonError};

use millpond_driver::{Code, Device, Driver, IpcMemHandle};

use super::handle::IpcHandle;
use crate::error::{At, Result, Step};
use crate::undo::{Done, Undo};

/// A place in a plain allocation, for other processes. The allocation must live until they have closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPlain {
    /// CUDA's handle of the allocation.
    pub handle: IpcMemHandle,
    /// Where the place lies in the allocation, bytes; PyTorch sends it beside the handle.
    pub offset: u64,
    /// Bytes of the allocation.
    pub bytes: u64,
}

impl SharedPlain {
    /// Shares the allocation that holds `addr`.
    ///
    /// # Errors
    /// The driver's: memory that is not of `cuMemAlloc` has no such handle.
    pub fn of(driver: &dyn Driver, addr: u64) -> Result<Self> {
        let (base, bytes) = driver.mem_address_range(addr).at(Step::Ask)?;
        let handle = driver.ipc_handle(base).at(Step::Export)?;
        Ok(SharedPlain { handle, offset: addr - base, bytes })
    }

    /// The handle as bytes, in PyTorch's format.
    pub fn ipc_handle(&self) -> IpcHandle {
        IpcHandle::Plain(self.handle)
    }
}

/// A plain allocation of another process, open here.
#[derive(Debug)]
pub(super) struct Plain {
    pub driver: Arc<dyn Driver>,
    pub device: Device,
    addr: u64,
    /// Devices with access, the first one included.
    accessors: Mutex<Vec<Device>>,
}

impl Plain {
    /// Opens a handle: the memory, its address and its bytes.
    pub fn open(driver: Arc<dyn Driver>, device: Device, handle: &IpcMemHandle) -> Result<(Plain, u64, u64)> {
        let addr = driver.ipc_open(device, handle).at(Step::Import)?;
        let mut undo = Undo::new(&*driver);
        undo.push(Done::Opened(device, addr));
        let (_, bytes) = driver.mem_address_range(addr).at(Step::Ask)?;
        undo.keep();
        let accessors = Mutex::new(vec![device]);
        Ok((Plain { driver, device, addr, accessors }, addr, bytes))
    }

    /// Lets another device use the memory. Access to plain memory is a matter of whole devices: it stays.
    pub fn allow(&self, peer: Device) -> Result<()> {
        let mut accessors = self.accessors.lock().unwrap_or_else(PoisonError::into_inner);
        if accessors.contains(&peer) {
            return Ok(());
        }
        match self.driver.enable_peer_access(peer, self.device) {
            Err(error) if error.code == Code::ERROR_PEER_ACCESS_ALREADY_ENABLED => {
                // Not an error here, and none for the program to find later.
                self.driver.take_last_error();
            }
            other => other.at(Step::PeerAccess)?,
        }
        accessors.push(peer);
        Ok(())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.driver.ipc_close(self.device, self.addr);
    }
}
