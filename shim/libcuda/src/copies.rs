//! Copies and fills. The simulation moves the bytes where the machine has them; host memory is the process's.

use std::ffi::{c_uchar, c_uint, c_ushort, c_void};

use millpond_cuda::sys::{CUcontext, CUdeviceptr, CUstream};
use millpond_driver::{Capture, CaptureStatus, Code, Memory, Order, Peers, Stream};

use crate::context::device_of;
use crate::export::{Answer, Failure};
use crate::handles::stream;
use crate::machine::sim;
use millpond_shim::In;

/// `CUDA_MEMCPY2D`: a rectangle of bytes from one place to another.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    src: Side,
    dst: Side,
    width: usize,
    height: usize,
}

/// One side of it; which of the addresses counts, the memory type says.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side {
    x: usize,
    y: usize,
    memory: c_uint,
    host: u64,
    device: CUdeviceptr,
    array: usize,
    pitch: usize,
}

impl Side {
    fn row(&self, row: usize) -> Answer<u64> {
        let base = match self.memory {
            1 => self.host,
            2 | 4 => self.device,
            // Arrays are not memory that this device has.
            _ => return Err(Code::ERROR_NOT_SUPPORTED.into()),
        };
        let offset = (self.y + row).checked_mul(self.pitch).and_then(|offset| offset.checked_add(self.x));
        let addr = offset.and_then(|offset| base.checked_add(offset as u64));
        addr.ok_or(Failure(Code::ERROR_INVALID_VALUE))
    }
}

exports! {
    fn cuMemcpy("cuMemcpy" 4000, dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) { now(dst, src, bytes) }
    fn cuMemcpyHtoD_v2("cuMemcpyHtoD" 3020, dst: CUdeviceptr, src: u64, bytes: usize) { now(dst, src, bytes) }
    fn cuMemcpyDtoH_v2("cuMemcpyDtoH" 3020, dst: u64, src: CUdeviceptr, bytes: usize) { now(dst, src, bytes) }
    fn cuMemcpyDtoD_v2("cuMemcpyDtoD" 3020, dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) { now(dst, src, bytes) }

    fn cuMemcpyAsync("cuMemcpyAsync" 4000, dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, on: CUstream) {
        copy(dst, src, bytes, stream(on)?)
    }

    fn cuMemcpyHtoDAsync_v2("cuMemcpyHtoDAsync" 3020, dst: CUdeviceptr, src: u64, bytes: usize, on: CUstream) {
        copy(dst, src, bytes, stream(on)?)
    }

    fn cuMemcpyDtoHAsync_v2("cuMemcpyDtoHAsync" 3020, dst: u64, src: CUdeviceptr, bytes: usize, on: CUstream) {
        copy(dst, src, bytes, stream(on)?)
    }

    fn cuMemcpyDtoDAsync_v2("cuMemcpyDtoDAsync" 3020, dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, on: CUstream) {
        copy(dst, src, bytes, stream(on)?)
    }

    fn cuMemcpyPeerAsync("cuMemcpyPeerAsync" 4000,
        dst: CUdeviceptr, to: CUcontext, src: CUdeviceptr, from: CUcontext, bytes: usize, on: CUstream) {
        let (to, from) = (device_of(to)?, device_of(from)?);
        Ok(sim()?.memcpy_peer_async(dst, to, src, from, bytes as u64, stream(on)?)?)
    }

    fn cuMemcpyPeer("cuMemcpyPeer" 4000,
        dst: CUdeviceptr, to: CUcontext, src: CUdeviceptr, from: CUcontext, bytes: usize) {
        let (to, from) = (device_of(to)?, device_of(from)?);
        Ok(sim()?.memcpy_peer_async(dst, to, src, from, bytes as u64, stream(CUstream(0))?)?)
    }

    fn cuMemcpy2D_v2("cuMemcpy2D" 3020, what: In<Copy2D>) { copy_2d(what.get()?, CUstream(0)) }
    fn cuMemcpy2DUnaligned_v2("cuMemcpy2DUnaligned" 3020, what: In<Copy2D>) { copy_2d(what.get()?, CUstream(0)) }
    fn cuMemcpy2DAsync_v2("cuMemcpy2DAsync" 3020, what: In<Copy2D>, on: CUstream) { copy_2d(what.get()?, on) }

    fn cuMemsetD8_v2("cuMemsetD8" 3020, dst: CUdeviceptr, value: c_uchar, count: usize) {
        fill(dst, &[value], count, CUstream(0))
    }

    fn cuMemsetD16_v2("cuMemsetD16" 3020, dst: CUdeviceptr, value: c_ushort, count: usize) {
        fill(dst, &value.to_ne_bytes(), count, CUstream(0))
    }

    fn cuMemsetD32_v2("cuMemsetD32" 3020, dst: CUdeviceptr, value: c_uint, count: usize) {
        fill(dst, &value.to_ne_bytes(), count, CUstream(0))
    }

    fn cuMemsetD8Async("cuMemsetD8Async" 3020, dst: CUdeviceptr, value: c_uchar, count: usize, on: CUstream) {
        fill(dst, &[value], count, on)
    }

    fn cuMemsetD16Async("cuMemsetD16Async" 3020, dst: CUdeviceptr, value: c_ushort, count: usize, on: CUstream) {
        fill(dst, &value.to_ne_bytes(), count, on)
    }

    fn cuMemsetD32Async("cuMemsetD32Async" 3020, dst: CUdeviceptr, value: c_uint, count: usize, on: CUstream) {
        fill(dst, &value.to_ne_bytes(), count, on)
    }

    fn cuMemPrefetchAsync_v2("cuMemPrefetchAsync" 12020,
        _addr: CUdeviceptr, _bytes: usize, _to: *const c_void, _flags: c_uint, _on: CUstream) {
        Err(Code::ERROR_NOT_SUPPORTED.into())
    }
}

fn copy(dst: u64, src: u64, bytes: usize, on: Stream) -> Answer {
    Ok(sim()?.memcpy_async(dst, src, bytes as u64, on)?)
}

/// A copy for which the host waits.
fn now(dst: u64, src: u64, bytes: usize) -> Answer {
    let on = stream(CUstream(0))?;
    copy(dst, src, bytes, on)?;
    Ok(sim()?.stream_synchronize(on)?)
}

fn copy_2d(what: Copy2D, on: CUstream) -> Answer {
    let on = stream(on)?;
    if what.width == what.src.pitch && what.width == what.dst.pitch && what.src.x == 0 && what.dst.x == 0 {
        return copy(what.dst.row(0)?, what.src.row(0)?, what.width * what.height, on);
    }
    (0..what.height).try_for_each(|row| copy(what.dst.row(row)?, what.src.row(row)?, what.width, on))
}

/// Fills with a pattern of one, two or four bytes.
fn fill(dst: u64, pattern: &[u8], count: usize, on: CUstream) -> Answer {
    let (sim, on) = (sim()?, stream(on)?);
    let bytes = count.checked_mul(pattern.len()).ok_or(Failure(Code::ERROR_INVALID_VALUE))?;
    sim.memset_async(dst, pattern[0], bytes as u64, on)?;
    let uniform = pattern.iter().all(|&byte| byte == pattern[0]);
    // The simulation fills with one byte; the rest of the pattern is written behind it, where there are bytes and the
    // work is not only recorded.
    if uniform || !sim.config().backing || sim.capture_status(on)? != CaptureStatus::None {
        return Ok(());
    }
    Ok(sim.write(dst, &pattern.repeat(count))?)
}
