//! Copies and fills. The kind of a copy is not looked at: addresses say what they are.

use std::ffi::{c_int, c_uchar, c_uint, c_void};

use millpond_cuda::sys::{CUcontext, CUstream};
use millpond_driver::Code;
use millpond_shim::driver;

use crate::thread::{entered, primary};

/// `CUDA_MEMCPY2D` with both sides as addresses of the unified space.
#[repr(C)]
struct Copy2D {
    src: Side,
    dst: Side,
    width: usize,
    height: usize,
}

#[repr(C)]
struct Side {
    x: usize,
    y: usize,
    memory: c_uint,
    host: u64,
    device: u64,
    array: usize,
    pitch: usize,
}

/// `CU_MEMORYTYPE_UNIFIED`.
const UNIFIED: c_uint = 4;

fn side(addr: u64, pitch: usize) -> Side {
    Side { x: 0, y: 0, memory: UNIFIED, host: 0, device: addr, array: 0, pitch }
}

exports! {
    fn cudaMemcpy(dst: u64, src: u64, bytes: usize, _kind: c_uint) {
        entered()?;
        if bytes == 0 { Ok(()) } else { driver!(cuMemcpy(dst: u64, src: u64, bytes: usize)) }
    }

    fn cudaMemcpyAsync(dst: u64, src: u64, bytes: usize, _kind: c_uint, on: CUstream) {
        entered()?;
        if bytes == 0 { Ok(()) } else { driver!(cuMemcpyAsync(dst: u64, src: u64, bytes: usize, on: CUstream)) }
    }

    fn cudaMemcpyPeer(dst: u64, to: c_int, src: u64, from: c_int, bytes: usize) {
        entered()?;
        let (to, from) = (primary(to)?, primary(from)?);
        driver!(cuMemcpyPeer(dst: u64, to: CUcontext, src: u64, from: CUcontext, bytes: usize))
    }

    fn cudaMemcpyPeerAsync(dst: u64, to: c_int, src: u64, from: c_int, bytes: usize, on: CUstream) {
        entered()?;
        let (to, from) = (primary(to)?, primary(from)?);
        driver!(cuMemcpyPeerAsync(dst: u64, to: CUcontext, src: u64, from: CUcontext, bytes: usize, on: CUstream))
    }

    fn cudaMemcpy2D(
        dst: u64, dst_pitch: usize, src: u64, src_pitch: usize, width: usize, height: usize, _kind: c_uint,
    ) {
        entered()?;
        let what = Copy2D { src: side(src, src_pitch), dst: side(dst, dst_pitch), width, height };
        let what = &raw const what;
        driver!(cuMemcpy2D_v2(what: *const Copy2D))
    }

    fn cudaMemcpy2DAsync(
        dst: u64, dst_pitch: usize, src: u64, src_pitch: usize, width: usize, height: usize, _kind: c_uint,
        on: CUstream,
    ) {
        entered()?;
        let what = Copy2D { src: side(src, src_pitch), dst: side(dst, dst_pitch), width, height };
        let what = &raw const what;
        driver!(cuMemcpy2DAsync_v2(what: *const Copy2D, on: CUstream))
    }

    fn cudaMemset(dst: u64, value: c_int, bytes: usize) {
        entered()?;
        let value = value as c_uchar;
        if bytes == 0 { Ok(()) } else { driver!(cuMemsetD8_v2(dst: u64, value: c_uchar, bytes: usize)) }
    }

    fn cudaMemsetAsync(dst: u64, value: c_int, bytes: usize, on: CUstream) {
        entered()?;
        let value = value as c_uchar;
        if bytes == 0 { Ok(()) } else { driver!(cuMemsetD8Async(dst: u64, value: c_uchar, bytes: usize, on: CUstream)) }
    }

    fn cudaMemset2DAsync(dst: u64, pitch: usize, value: c_int, width: usize, height: usize, on: CUstream) {
        entered()?;
        let value = value as c_uchar;
        (0..height).try_for_each(|row| {
            let offset = row.checked_mul(pitch).ok_or(Code::ERROR_INVALID_VALUE)?;
            let dst = dst.checked_add(offset as u64).ok_or(Code::ERROR_INVALID_VALUE)?;
            driver!(cuMemsetD8Async(dst: u64, value: c_uchar, width: usize, on: CUstream))
        })
    }

    fn cudaMemcpyToSymbol(symbol: usize, _src: *const c_void, _bytes: usize, _offset: usize, _kind: c_uint) {
        // Kernels do not run, so nothing reads what a program puts into their variables.
        crate::registration::bytes_of_variable(symbol).map(drop)
    }
}
