//! Streams and events.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex};

use millpond_cuda::sys::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUcontext, CUdevice, CUevent, CUresult, CUstream};
use millpond_driver::{Capture, CaptureStatus, Code, Order, Status, Stream};

use crate::context::{context_of, current_device};
use crate::export::{Answer, Failure};
use crate::handles::{event, handle_of, stream};
use crate::machine::{lock, machine, sim};
use millpond_shim::Out;

/// What programs ask of streams and events that the simulation does not keep.
#[derive(Default)]
struct Notes {
    /// (flags, priority) of each stream.
    streams: HashMap<Stream, (c_uint, c_int)>,
    /// When each event was last recorded, microseconds on the virtual clock; absent for those without timing.
    recorded: HashMap<CUevent, Option<u64>>,
}

static NOTES: LazyLock<Mutex<Notes>> = LazyLock::new(Mutex::default);

const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;

exports! {
    fn cuStreamCreate("cuStreamCreate" 2000, made: Out<CUstream>, flags: c_uint) { create(made, flags, 0) }

    fn cuStreamCreateWithPriority("cuStreamCreateWithPriority" 5050, made: Out<CUstream>, flags: c_uint, priority: c_int) {
        create(made, flags, priority)
    }

    fn cuStreamDestroy_v2("cuStreamDestroy" 4000, which: CUstream) {
        if matches!(which, CUstream(0) | CU_STREAM_LEGACY | CU_STREAM_PER_THREAD) {
            return Err(Code::ERROR_INVALID_HANDLE.into());
        }
        let which = stream(which)?;
        sim()?.stream_destroy(which)?;
        lock(&NOTES).streams.remove(&which);
        Ok(())
    }

    fn cuStreamSynchronize("cuStreamSynchronize" 2000, which: CUstream) {
        Ok(sim()?.stream_synchronize(stream(which)?)?)
    }

    fn cuStreamQuery("cuStreamQuery" 2000, which: CUstream) {
        if sim()?.stream_query(stream(which)?)? { Ok(()) } else { Err(Code::ERROR_NOT_READY.into()) }
    }

    fn cuStreamWaitEvent("cuStreamWaitEvent" 3020, which: CUstream, until: CUevent, _flags: c_uint) {
        Ok(sim()?.stream_wait_event(stream(which)?, event(until))?)
    }

    fn cuStreamGetFlags("cuStreamGetFlags" 5050, which: CUstream, flags: Out<c_uint>) { flags.set(note(which)?.0) }
    fn cuStreamGetPriority("cuStreamGetPriority" 5050, which: CUstream, priority: Out<c_int>) {
        priority.set(note(which)?.1)
    }

    fn cuStreamGetId("cuStreamGetId" 12000, which: CUstream, id: Out<u64>) {
        let which = stream(which)?;
        id.set(if which.raw == 0 { u64::from(which.device.0) + 1 } else { handle_of(which).0 as u64 })
    }

    fn cuStreamGetCtx("cuStreamGetCtx" 9020, which: CUstream, context: Out<CUcontext>) {
        context.set(context_of(stream(which)?.device))
    }

    fn cuStreamGetDevice("cuStreamGetDevice" 12080, which: CUstream, ordinal: Out<CUdevice>) {
        ordinal.set(stream(which)?.device.0 as CUdevice)
    }

    fn cuStreamAddCallback("cuStreamAddCallback" 5000,
        which: CUstream, callback: Option<extern "C" fn(CUstream, CUresult, *mut c_void)>, data: *mut c_void, _flags: c_uint) {
        let callback = callback.ok_or(Failure(Code::ERROR_INVALID_VALUE))?;
        // What came before is done as far as the program can see: the simulated clock is ahead of it.
        if host_work(which)? {
            callback(which, CUresult::SUCCESS, data);
        }
        Ok(())
    }

    fn cuLaunchHostFunc("cuLaunchHostFunc" 10000,
        which: CUstream, function: Option<extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let function = function.ok_or(Failure(Code::ERROR_INVALID_VALUE))?;
        if host_work(which)? {
            function(data);
        }
        Ok(())
    }

    fn cuEventCreate("cuEventCreate" 2000, made: Out<CUevent>, flags: c_uint) {
        if flags & INTERPROCESS != 0 {
            return Err(Code::ERROR_NOT_SUPPORTED.into());
        }
        let new = CUevent(sim()?.event_create(current_device()?)?.0 as usize);
        if flags & DISABLE_TIMING == 0 {
            lock(&NOTES).recorded.insert(new, None);
        }
        made.set(new)
    }

    fn cuEventDestroy_v2("cuEventDestroy" 4000, which: CUevent) {
        sim()?.event_destroy(event(which))?;
        lock(&NOTES).recorded.remove(&which);
        Ok(())
    }

    fn cuEventRecord("cuEventRecord" 2000, which: CUevent, on: CUstream) { record(which, on) }
    fn cuEventRecordWithFlags("cuEventRecordWithFlags" 11010, which: CUevent, on: CUstream, _flags: c_uint) {
        record(which, on)
    }

    fn cuEventQuery("cuEventQuery" 2000, which: CUevent) {
        if sim()?.event_query(event(which))? { Ok(()) } else { Err(Code::ERROR_NOT_READY.into()) }
    }

    fn cuEventSynchronize("cuEventSynchronize" 2000, which: CUevent) {
        Ok(sim()?.event_synchronize(event(which))?)
    }

    fn cuEventElapsedTime("cuEventElapsedTime" 2000, ms: Out<f32>, start: CUevent, end: CUevent) {
        elapsed(ms, start, end)
    }

    fn cuEventElapsedTime_v2("cuEventElapsedTime" 12080, ms: Out<f32>, start: CUevent, end: CUevent) {
        elapsed(ms, start, end)
    }
}

fn create(made: Out<CUstream>, flags: c_uint, priority: c_int) -> Answer {
    let new = sim()?.stream_create(current_device()?)?;
    lock(&NOTES).streams.insert(new, (flags, priority.clamp(-5, 0)));
    made.set(handle_of(new))
}

fn note(which: CUstream) -> Answer<(c_uint, c_int)> {
    let which = stream(which)?;
    Ok(lock(&NOTES).streams.get(&which).copied().unwrap_or_default())
}

fn record(which: CUevent, on: CUstream) -> Answer {
    let sim = sim()?;
    sim.event_record(event(which), stream(on)?)?;
    if let Some(time) = lock(&NOTES).recorded.get_mut(&which) {
        *time = Some(sim.now_us());
    }
    Ok(())
}

fn elapsed(ms: Out<f32>, start: CUevent, end: CUevent) -> Answer {
    let sim = sim()?;
    for each in [start, end] {
        if !sim.event_query(event(each))? {
            return Err(Code::ERROR_NOT_READY.into());
        }
    }
    let notes = lock(&NOTES);
    let time = |each| notes.recorded.get(&each).copied().flatten().ok_or(Failure(Code::ERROR_INVALID_HANDLE));
    ms.set((time(end)? as f64 - time(start)? as f64) as f32 / 1e3)
}

/// A function of the program's as work of a stream: false if it is only recorded. A graph has its place in the order, but
/// does not call it.
fn host_work(which: CUstream) -> Answer<bool> {
    let which = stream(which)?;
    let machine = machine()?;
    let captured = machine.sim.capture_status(which)? != CaptureStatus::None;
    machine.sim.launch_as("host function", which, 0, &[], &[])?;
    Ok(!captured)
}
