//! Streams, events and captures.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use millpond_cuda::sys::{CUevent, CUgraph, CUstream};
use millpond_shim::driver;

/// `void (*)(cudaStream_t, cudaError_t, void *)`.
type StreamCallback = Option<extern "C" fn(CUstream, c_int, *mut c_void)>;

exports! {
    fn cudaStreamCreate(made: *mut CUstream) {
        crate::thread::entered()?;
        let flags = 0;
        driver!(cuStreamCreate(made: *mut CUstream, flags: c_uint))
    }

    fn cudaEventCreate(made: *mut CUevent) {
        crate::thread::entered()?;
        let flags = 0;
        driver!(cuEventCreate(made: *mut CUevent, flags: c_uint))
    }
}

forward! {
    cudaStreamCreateWithFlags => cuStreamCreate(made: *mut CUstream, flags: c_uint);
    cudaStreamCreateWithPriority => cuStreamCreateWithPriority(made: *mut CUstream, flags: c_uint, priority: c_int);
    cudaStreamDestroy => cuStreamDestroy_v2(which: CUstream);
    cudaStreamSynchronize => cuStreamSynchronize(which: CUstream);
    cudaStreamQuery => cuStreamQuery(which: CUstream);
    cudaStreamWaitEvent => cuStreamWaitEvent(which: CUstream, until: CUevent, flags: c_uint);
    cudaStreamGetFlags => cuStreamGetFlags(which: CUstream, flags: *mut c_uint);
    cudaStreamGetPriority => cuStreamGetPriority(which: CUstream, priority: *mut c_int);
    cudaStreamGetId => cuStreamGetId(which: CUstream, id: *mut c_ulonglong);
    cudaStreamGetDevice => cuStreamGetDevice(which: CUstream, device: *mut c_int);
    cudaStreamAddCallback => cuStreamAddCallback(
        which: CUstream, callback: StreamCallback, data: *mut c_void, flags: c_uint);
    cudaLaunchHostFunc => cuLaunchHostFunc(
        which: CUstream, function: Option<extern "C" fn(*mut c_void)>, data: *mut c_void);

    cudaEventCreateWithFlags => cuEventCreate(made: *mut CUevent, flags: c_uint);
    cudaEventDestroy => cuEventDestroy_v2(which: CUevent);
    cudaEventRecord => cuEventRecord(which: CUevent, on: CUstream);
    cudaEventRecordWithFlags => cuEventRecordWithFlags(which: CUevent, on: CUstream, flags: c_uint);
    cudaEventQuery => cuEventQuery(which: CUevent);
    cudaEventSynchronize => cuEventSynchronize(which: CUevent);
    cudaEventElapsedTime => cuEventElapsedTime_v2(ms: *mut f32, start: CUevent, end: CUevent);

    cudaStreamBeginCapture => cuStreamBeginCapture_v2(which: CUstream, mode: c_uint);
    cudaStreamEndCapture => cuStreamEndCapture(which: CUstream, graph: *mut CUgraph);
    cudaStreamIsCapturing => cuStreamIsCapturing(which: CUstream, status: *mut c_uint);
    cudaThreadExchangeStreamCaptureMode => cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
}
