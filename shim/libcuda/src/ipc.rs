//! Plain memory of other processes that run on the simulated device too.

use std::ffi::{c_char, c_uint};

use millpond_cuda::sys::{CUdeviceptr, CUipcMem_flags, CUipcMemHandle};
use millpond_driver::{Code, Ipc};

use crate::context::current_device;
use crate::export::Failure;
use crate::machine::sim;
use millpond_shim::Out;

const INVALID: Failure = Failure(Code::ERROR_INVALID_VALUE);

exports! {
    fn cuIpcGetMemHandle("cuIpcGetMemHandle" 4010, to: Out<CUipcMemHandle>, addr: CUdeviceptr) {
        let reserved = sim()?.ipc_handle(addr)?.map(|byte| byte as c_char);
        to.set(CUipcMemHandle { reserved })
    }

    fn cuIpcOpenMemHandle_v2("cuIpcOpenMemHandle" 11000,
        addr: Out<CUdeviceptr>, handle: CUipcMemHandle, flags: c_uint) {
        if addr.is_null() || flags != CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.0 {
            return Err(INVALID);
        }
        addr.set(sim()?.ipc_open(current_device()?, &handle.reserved.map(|byte| byte as u8))?)
    }

    fn cuIpcCloseMemHandle("cuIpcCloseMemHandle" 4010, addr: CUdeviceptr) {
        Ok(sim()?.ipc_close(current_device()?, addr)?)
    }
}
