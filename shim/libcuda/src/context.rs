//! Contexts: a device's primary one and others, all with the same memory, and each thread's stack of them.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Mutex;

use millpond_cuda::sys::{CUcontext, CUdevice};
use millpond_driver::{Code, Device, Order, Peers};

use crate::export::{Answer, Failure};
use crate::machine::{device, lock, sim};
use millpond_shim::Out;

/// Contexts lie from here ("MC"): first the primary one of each device, then those that programs create.
const CONTEXTS: usize = 0x4d43_0000_0000;
const STEP: usize = 16;
const PRIMARY: usize = 64;

thread_local! {
    static STACK: RefCell<Vec<CUcontext>> = const { RefCell::new(Vec::new()) };
}

struct Contexts {
    /// How often each device's primary context is retained.
    retained: [u32; PRIMARY],
    /// The device of each context that a program created; `None` once destroyed.
    created: Vec<Option<Device>>,
}

static CONTEXTS_MADE: Mutex<Contexts> = Mutex::new(Contexts { retained: [0; PRIMARY], created: Vec::new() });

fn primary(device: Device) -> CUcontext {
    CUcontext(CONTEXTS + device.0 as usize * STEP)
}

/// The device of a context that exists.
pub(crate) fn device_of(context: CUcontext) -> Answer<Device> {
    let index =
        context.0.checked_sub(CONTEXTS).filter(|offset| offset.is_multiple_of(STEP)).map(|offset| offset / STEP);
    let contexts = lock(&CONTEXTS_MADE);
    let found = index.and_then(|index| match index.checked_sub(PRIMARY) {
        None => device(index as i32).ok().filter(|_| contexts.retained[index] != 0),
        Some(index) => contexts.created.get(index).copied().flatten(),
    });
    found.ok_or(Failure(Code::ERROR_INVALID_CONTEXT))
}

/// The device of the context that is current in this thread.
pub(crate) fn current_device() -> Answer<Device> {
    device_of(current().ok_or(Failure(Code::ERROR_INVALID_CONTEXT))?)
}

pub(crate) fn current() -> Option<CUcontext> {
    STACK.with_borrow(|stack| stack.last().copied())
}

/// The primary context of a device, for those who ask where something belongs.
pub(crate) fn context_of(device: Device) -> CUcontext {
    primary(device)
}

exports! {
    fn cuDevicePrimaryCtxRetain("cuDevicePrimaryCtxRetain" 7000, context: Out<CUcontext>, ordinal: CUdevice) {
        let device = device(ordinal)?;
        lock(&CONTEXTS_MADE).retained[device.0 as usize] += 1;
        context.set(primary(device))
    }

    fn cuDevicePrimaryCtxRelease_v2("cuDevicePrimaryCtxRelease" 11000, ordinal: CUdevice) {
        let device = device(ordinal)?;
        let retained = &mut lock(&CONTEXTS_MADE).retained[device.0 as usize];
        *retained = retained.checked_sub(1).ok_or(Failure(Code::ERROR_INVALID_CONTEXT))?;
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState("cuDevicePrimaryCtxGetState" 7000,
        ordinal: CUdevice, flags: Out<c_uint>, active: Out<c_int>) {
        let device = device(ordinal)?;
        flags.offer(0);
        active.offer((lock(&CONTEXTS_MADE).retained[device.0 as usize] != 0).into());
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2("cuDevicePrimaryCtxSetFlags" 11000, ordinal: CUdevice, _flags: c_uint) {
        device(ordinal).map(drop)
    }

    fn cuCtxCreate_v2("cuCtxCreate" 3020, context: Out<CUcontext>, _flags: c_uint, ordinal: CUdevice) {
        create(context, ordinal)
    }

    fn cuCtxCreate_v4("cuCtxCreate" 12050,
        context: Out<CUcontext>, _params: *const c_void, _flags: c_uint, ordinal: CUdevice) {
        create(context, ordinal)
    }

    fn cuCtxDestroy_v2("cuCtxDestroy" 4000, context: CUcontext) {
        device_of(context)?;
        let index = (context.0 - CONTEXTS) / STEP;
        let index = index.checked_sub(PRIMARY).ok_or(Failure(Code::ERROR_INVALID_CONTEXT))?;
        lock(&CONTEXTS_MADE).created[index] = None;
        STACK.with_borrow_mut(|stack| {
            if stack.last() == Some(&context) {
                stack.pop();
            }
        });
        Ok(())
    }

    fn cuCtxGetCurrent("cuCtxGetCurrent" 4000, context: Out<CUcontext>) {
        sim()?;
        context.set(current().unwrap_or(CUcontext(0)))
    }

    fn cuCtxSetCurrent("cuCtxSetCurrent" 4000, context: CUcontext) {
        if context.0 != 0 {
            device_of(context)?;
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if context.0 != 0 {
                stack.push(context);
            }
        });
        Ok(())
    }

    fn cuCtxPushCurrent_v2("cuCtxPushCurrent" 4000, context: CUcontext) {
        device_of(context)?;
        STACK.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2("cuCtxPopCurrent" 4000, context: Out<CUcontext>) {
        let popped = STACK.with_borrow_mut(Vec::pop).ok_or(Failure(Code::ERROR_INVALID_CONTEXT))?;
        context.offer(popped);
        Ok(())
    }

    fn cuCtxGetDevice("cuCtxGetDevice" 2000, ordinal: Out<CUdevice>) {
        ordinal.set(current_device()?.0 as c_int)
    }

    fn cuCtxGetFlags("cuCtxGetFlags" 7000, flags: Out<c_uint>) {
        current_device()?;
        flags.set(0)
    }

    fn cuCtxGetApiVersion("cuCtxGetApiVersion" 3020, context: CUcontext, version: Out<c_uint>) {
        device_of(context)?;
        version.set(3020)
    }

    fn cuCtxGetId("cuCtxGetId" 12000, context: CUcontext, id: Out<u64>) {
        let context = if context.0 == 0 { current().ok_or(Failure(Code::ERROR_INVALID_CONTEXT))? } else { context };
        device_of(context)?;
        id.set(((context.0 - CONTEXTS) / STEP) as u64 + 1)
    }

    fn cuCtxGetStreamPriorityRange("cuCtxGetStreamPriorityRange" 5050, least: Out<c_int>, greatest: Out<c_int>) {
        current_device()?;
        least.offer(0);
        greatest.offer(-5);
        Ok(())
    }

    fn cuCtxSetLimit("cuCtxSetLimit" 3010, _limit: c_uint, _value: usize) {
        current_device().map(drop)
    }

    fn cuCtxGetLimit("cuCtxGetLimit" 3010, value: Out<usize>, _limit: c_uint) {
        current_device()?;
        value.set(0)
    }

    fn cuCtxSetCacheConfig("cuCtxSetCacheConfig" 3020, _config: c_uint) {
        current_device().map(drop)
    }

    fn cuCtxSynchronize("cuCtxSynchronize" 2000) {
        Ok(sim()?.device_synchronize(current_device()?)?)
    }

    fn cuCtxSynchronize_v2("cuCtxSynchronize" 13000, context: CUcontext) {
        Ok(sim()?.device_synchronize(device_of(context)?)?)
    }

    fn cuCtxEnablePeerAccess("cuCtxEnablePeerAccess" 4000, peer: CUcontext, _flags: c_uint) {
        Ok(sim()?.enable_peer_access(current_device()?, device_of(peer)?)?)
    }

    fn cuDeviceCanAccessPeer("cuDeviceCanAccessPeer" 4000, can: Out<c_int>, of: CUdevice, peer: CUdevice) {
        can.set(sim()?.can_access_peer(device(of)?, device(peer)?)?.into())
    }

    fn cuDeviceGetP2PAttribute("cuDeviceGetP2PAttribute" 8000,
        value: Out<c_int>, attribute: c_uint, of: CUdevice, peer: CUdevice) {
        let can = sim()?.can_access_peer(device(of)?, device(peer)?)?;
        // Performance rank, then: access, atomics, arrays. Arrays there are none.
        value.set(match attribute { 1 => 0, 2 | 3 => can.into(), _ => 0 })
    }
}

fn create(context: Out<CUcontext>, ordinal: CUdevice) -> Answer {
    let device = device(ordinal)?;
    let index = {
        let created = &mut lock(&CONTEXTS_MADE).created;
        created.push(Some(device));
        created.len() - 1
    };
    let made = CUcontext(CONTEXTS + (PRIMARY + index) * STEP);
    STACK.with_borrow_mut(|stack| stack.push(made));
    context.set(made)
}
