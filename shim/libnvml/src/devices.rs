//! Devices and what processes hold on them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use millpond_cuda::sys::nvml::{nvmlDevice_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t};
use millpond_driver::Code;
use millpond_shim::{Answer, Failure, Out, Text, driver};

/// Device handles lie from here ("MN").
const DEVICES: usize = 0x4d4e_0000_0000;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlGpuFabricInfo_v2_t` up to what its versions have in common. All 0: not part of a fabric.
#[repr(C)]
#[derive(Clone, Copy)]
struct FabricInfo {
    version: c_uint,
    cluster: [u8; 16],
    status: c_uint,
    clique: c_uint,
    state: u8,
}

crate::exports! {
    fn nvmlDeviceGetCount_v2(count: Out<c_uint>) { count.set(crate::device_count()? as c_uint) }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: Out<nvmlDevice_t>) {
        if index >= crate::device_count()? as c_uint {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        to.set(nvmlDevice_t(DEVICES + index as usize))
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(id: Text, to: Out<nvmlDevice_t>) {
        crate::device_count()?;
        let mut ordinal = 0;
        let found = &raw mut ordinal;
        driver!(cuDeviceGetByPCIBusId(found: *mut c_int, id: Text))?;
        to.set(nvmlDevice_t(DEVICES + ordinal as usize))
    }

    fn nvmlDeviceGetIndex(which: nvmlDevice_t, index: Out<c_uint>) { index.set(ordinal(which)? as c_uint) }

    fn nvmlDeviceGetName(which: nvmlDevice_t, name: *mut c_char, len: c_uint) {
        let (of, len) = (ordinal(which)?, len as c_int);
        driver!(cuDeviceGetName(name: *mut c_char, len: c_int, of: c_int))
    }

    fn nvmlDeviceGetMemoryInfo(which: nvmlDevice_t, to: Out<Memory>) {
        let of = ordinal(which)?;
        let (mut total, mut free) = (0, 0);
        let (all, left) = (&raw mut total, &raw mut free);
        driver!(mpSimMemoryInfo(of: c_int, left: *mut u64, all: *mut u64))?;
        to.set(Memory { total, free, used: total - free })
    }

    fn nvmlDeviceGetComputeRunningProcesses(
        which: nvmlDevice_t, count: Out<c_uint>, to: Out<nvmlProcessInfo_v1_t>,
    ) {
        processes(which, count, to, |pid, usedGpuMemory| nvmlProcessInfo_v1_t { pid, usedGpuMemory })
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2(which: nvmlDevice_t, count: Out<c_uint>, to: Out<nvmlProcessInfo_t>) {
        processes(which, count, to, whole)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(which: nvmlDevice_t, count: Out<c_uint>, to: Out<nvmlProcessInfo_t>) {
        processes(which, count, to, whole)
    }

    // Devices are connected to each other, but by no links that have names.
    fn nvmlDeviceGetNvLinkRemoteDeviceType(_which: nvmlDevice_t, _link: c_uint, _to: *mut c_void) {
        Err(Code::ERROR_NOT_SUPPORTED.into())
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(_which: nvmlDevice_t, _link: c_uint, _to: *mut c_void) {
        Err(Code::ERROR_NOT_SUPPORTED.into())
    }

    fn nvmlDeviceGetGpuFabricInfoV(which: nvmlDevice_t, to: Out<FabricInfo>) {
        ordinal(which)?;
        let version = to.now()?.version;
        to.set(FabricInfo { version, cluster: [0; 16], status: 0, clique: 0, state: 0 })
    }
}

fn ordinal(which: nvmlDevice_t) -> Answer<c_int> {
    let count = crate::device_count()? as usize;
    let index = which.0.checked_sub(DEVICES).filter(|&index| index < count);
    index.map(|index| index as c_int).ok_or(Failure(Code::ERROR_INVALID_VALUE))
}

/// This process is the only one: a simulated device belongs to one.
fn processes<T>(which: nvmlDevice_t, count: Out<c_uint>, to: Out<T>, entry: impl Fn(c_uint, u64) -> T) -> Answer {
    let of = ordinal(which)?;
    let room = count.now()?;
    count.set(1)?;
    if room == 0 {
        return Err(crate::INSUFFICIENT_SIZE.into());
    }
    let mut used = 0;
    let bytes = &raw mut used;
    driver!(mpSimDeviceUse(of: c_int, bytes: *mut u64))?;
    to.set(entry(std::process::id(), used))
}

/// The whole device: no partition of it.
fn whole(pid: c_uint, usedGpuMemory: u64) -> nvmlProcessInfo_t {
    nvmlProcessInfo_t { pid, usedGpuMemory, gpuInstanceId: c_uint::MAX, computeInstanceId: c_uint::MAX }
}
