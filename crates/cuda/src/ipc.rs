//! Plain memory of other processes.

use std::ffi::c_char;

use millpond_driver::{Device, Ipc, IpcMemHandle, Result};

use crate::cuda::Cuda;
use crate::sys::{CUipcMem_flags, CUipcMemHandle};

impl Ipc for Cuda {
    fn ipc_handle(&self, addr: u64) -> Result<IpcMemHandle> {
        let _entered = self.enter_any("cuIpcGetMemHandle")?;
        let mut handle = CUipcMemHandle::zeroed();
        call_optional!(self, cuIpcGetMemHandle as "cuIpcGetMemHandle", &mut handle, addr)?;
        Ok(handle.reserved.map(|byte| byte as u8))
    }

    fn ipc_open(&self, device: Device, handle: &IpcMemHandle) -> Result<u64> {
        self.remember(|| {
            let _entered = self.enter(device, "cuIpcOpenMemHandle")?;
            let handle = CUipcMemHandle { reserved: handle.map(|byte| byte as c_char) };
            // The only flag there is, and the driver demands it.
            let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.0;
            let mut addr = 0;
            call_optional!(self, cuIpcOpenMemHandle_v2 as "cuIpcOpenMemHandle", &mut addr, handle, flags)?;
            Ok(addr)
        })
    }

    fn ipc_close(&self, device: Device, addr: u64) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(device, "cuIpcCloseMemHandle")?;
            call_optional!(self, cuIpcCloseMemHandle as "cuIpcCloseMemHandle", addr)
        })
    }
}
