//! Kernels: launched for the length of their time; what they need; libraries of them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use millpond_cuda::sys::{CUfunction, CUkernel, CUlibrary, CUstream};
use millpond_driver::Code;
use millpond_shim::{Answer, Failure, In, Out, Text, driver};

use crate::thread::entered;

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

impl Dim3 {
    fn count(self) -> u64 {
        u64::from(self.x).saturating_mul(self.y.into()).saturating_mul(self.z.into())
    }
}

/// `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: CUstream,
    attributes: *const c_void,
    count: c_uint,
}

/// `cudaFuncAttributes`: what every kernel needs here.
#[repr(C)]
#[derive(Clone, Copy)]
struct FunctionAttributes {
    shared_bytes: usize,
    constant_bytes: usize,
    local_bytes: usize,
    max_threads: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    max_dynamic_shared: c_int,
    carveout: c_int,
    rest: [c_int; 23],
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<FunctionAttributes>() == 144);

/// The most threads of a block.
const MAX_THREADS: u64 = 1024;

exports! {
    fn cudaLaunchKernel(stub: usize, grid: Dim3, block: Dim3, _arguments: *const c_void, shared: usize, on: CUstream) {
        launch(stub, grid, block, shared, on)
    }

    fn __cudaLaunchKernel(
        kernel: CUkernel, grid: Dim3, block: Dim3, _arguments: *const c_void, shared: usize, on: CUstream,
    ) {
        launch(kernel.0, grid, block, shared, on)
    }

    fn cudaLaunchCooperativeKernel(
        stub: usize, grid: Dim3, block: Dim3, _arguments: *const c_void, shared: usize, on: CUstream,
    ) {
        launch(stub, grid, block, shared, on)
    }

    fn cudaLaunchKernelExC(config: In<LaunchConfig>, stub: usize, _arguments: *const c_void) {
        let config = config.get()?;
        launch(stub, config.grid, config.block, config.shared, config.stream)
    }

    fn cudaFuncGetAttributes(to: Out<FunctionAttributes>, _stub: usize) {
        to.set(FunctionAttributes {
            shared_bytes: 0,
            constant_bytes: 0,
            local_bytes: 0,
            max_threads: MAX_THREADS as c_int,
            registers: 32,
            ptx_version: 90,
            binary_version: 90,
            cache_mode: 0,
            max_dynamic_shared: 227 << 10,
            carveout: -1,
            rest: [0; 23],
        })
    }

    fn cudaFuncSetAttribute(_stub: usize, _attribute: c_uint, _value: c_int) { Ok(()) }

    fn cudaFuncSetCacheConfig(_stub: usize, _config: c_uint) { Ok(()) }

    fn cudaKernelSetAttributeForDevice(_kernel: CUkernel, _attribute: c_uint, _value: c_int, _device: c_int) { Ok(()) }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, stub: usize, threads: c_int, shared: usize) {
        occupancy(blocks, stub, threads, shared)
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, stub: usize, threads: c_int, shared: usize, _flags: c_uint,
    ) {
        occupancy(blocks, stub, threads, shared)
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, _stub: usize, _blocks: c_int, _threads: c_int) {
        bytes.set(48 << 10)
    }

    fn cudaLibraryLoadFromFile(
        made: *mut CUlibrary, _file: Text, jit: *const c_uint, jit_values: *const c_void, jit_count: c_uint,
        options: *const c_uint, values: *const c_void, count: c_uint,
    ) {
        entered()?;
        let code = std::ptr::null();
        driver!(cuLibraryLoadData(
            made: *mut CUlibrary, code: *const c_void, jit: *const c_uint, jit_values: *const c_void, jit_count: c_uint,
            options: *const c_uint, values: *const c_void, count: c_uint))
    }
}

forward! {
    cudaLibraryLoadData => cuLibraryLoadData(
        made: *mut CUlibrary, code: *const c_void, jit: *const c_uint, jit_values: *const c_void, jit_count: c_uint,
        options: *const c_uint, values: *const c_void, count: c_uint);
    cudaLibraryUnload => cuLibraryUnload(library: CUlibrary);
    cudaLibraryGetKernel => cuLibraryGetKernel(made: *mut CUkernel, library: CUlibrary, name: *const c_char);
    cudaLibraryGetGlobal => cuLibraryGetGlobal(
        addr: *mut u64, bytes: *mut usize, library: CUlibrary, name: *const c_char);
}

/// A launch with a shape that no device could run is refused, as on a real one.
fn launch(stub: usize, grid: Dim3, block: Dim3, shared: usize, on: CUstream) -> Answer {
    entered()?;
    if grid.count() == 0 || !(1..=MAX_THREADS).contains(&block.count()) {
        return Err(Failure(Code(9)));
    }
    let (function, shared) = (CUfunction(stub), shared as c_uint);
    let (gx, gy, gz, bx, by, bz) = (grid.x, grid.y, grid.z, block.x, block.y, block.z);
    let (arguments, extra) = (std::ptr::null(), std::ptr::null());
    driver!(cuLaunchKernel(
        function: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        on: CUstream, arguments: *const c_void, extra: *const c_void))
}

fn occupancy(blocks: *mut c_int, stub: usize, threads: c_int, shared: usize) -> Answer {
    entered()?;
    let function = CUfunction(stub);
    driver!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize))
}
