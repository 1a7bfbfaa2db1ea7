//! Modules, libraries and kernels: accepted whatever they are, and launched for the length of their time.
//!
//! Every name is a kernel, and every kernel has the same modest needs. Nothing is computed.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex};

use millpond_cuda::sys::{CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUstream};
use millpond_driver::{Code, Memory};

use crate::context::current_device;
use crate::export::{Answer, Failure};
use crate::handles::stream;
use crate::machine::{lock, machine, sim};
use millpond_shim::{In, Out, Text};

/// Modules and functions lie from here ("MF").
const FIRST: usize = 0x4d46_0000_0000;

#[derive(Default)]
struct Loaded {
    last: usize,
    /// The functions by module and name.
    functions: HashMap<(usize, String), usize>,
    /// The variables by module and name: address and bytes.
    globals: HashMap<(usize, String), (u64, u64)>,
}

static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Mutex::default);

/// `CUlaunchConfig`, of which only the stream matters here.
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: CUstream,
    attributes: *const c_void,
    count: c_uint,
}

/// A variable of a module has this size, whatever the program declared: the image is not read.
const GLOBAL: u64 = 2 << 20;

exports! {
    fn cuModuleLoad("cuModuleLoad" 2000, made: Out<CUmodule>, _file: Text) { made.set(CUmodule(load()?)) }
    fn cuModuleLoadData("cuModuleLoadData" 2000, made: Out<CUmodule>, _image: *const c_void) {
        made.set(CUmodule(load()?))
    }

    fn cuModuleLoadDataEx("cuModuleLoadDataEx" 2010,
        made: Out<CUmodule>, _image: *const c_void, _count: c_uint, _options: *const c_uint, _values: *const c_void) {
        made.set(CUmodule(load()?))
    }

    fn cuModuleLoadFatBinary("cuModuleLoadFatBinary" 2000, made: Out<CUmodule>, _image: *const c_void) {
        made.set(CUmodule(load()?))
    }

    fn cuModuleUnload("cuModuleUnload" 2000, module: CUmodule) { unload(module.0) }

    fn cuModuleGetFunction("cuModuleGetFunction" 2000, made: Out<CUfunction>, module: CUmodule, name: Text) {
        made.set(CUfunction(function(module.0, name.get()?)?))
    }

    fn cuModuleGetGlobal_v2("cuModuleGetGlobal" 3020,
        addr: Out<CUdeviceptr>, bytes: Out<usize>, module: CUmodule, name: Text) {
        global(addr, bytes, module.0, name.get()?)
    }

    fn cuModuleGetLoadingMode("cuModuleGetLoadingMode" 11070, mode: Out<c_uint>) {
        // Lazy.
        mode.set(2)
    }

    fn cuLibraryLoadData("cuLibraryLoadData" 12000,
        made: Out<CUlibrary>, _code: *const c_void, _jit: *const c_uint, _jit_values: *const c_void, _jit_count: c_uint,
        _options: *const c_uint, _values: *const c_void, _count: c_uint) {
        made.set(CUlibrary(load()?))
    }

    fn cuLibraryUnload("cuLibraryUnload" 12000, library: CUlibrary) { unload(library.0) }

    fn cuLibraryGetKernel("cuLibraryGetKernel" 12000, made: Out<CUkernel>, library: CUlibrary, name: Text) {
        made.set(CUkernel(function(library.0, name.get()?)?))
    }

    fn cuLibraryGetModule("cuLibraryGetModule" 12000, made: Out<CUmodule>, library: CUlibrary) {
        made.set(CUmodule(library.0))
    }

    fn cuLibraryGetGlobal("cuLibraryGetGlobal" 12000,
        addr: Out<CUdeviceptr>, bytes: Out<usize>, library: CUlibrary, name: Text) {
        global(addr, bytes, library.0, name.get()?)
    }

    fn cuKernelGetFunction("cuKernelGetFunction" 12000, made: Out<CUfunction>, kernel: CUkernel) {
        made.set(CUfunction(kernel.0))
    }

    fn cuKernelSetAttribute("cuKernelSetAttribute" 12000,
        _attribute: c_uint, _value: c_int, _kernel: CUkernel, _device: CUdevice) { Ok(()) }

    fn cuKernelGetAttribute("cuKernelGetAttribute" 12000,
        value: Out<c_int>, attribute: c_uint, _kernel: CUkernel, _device: CUdevice) { value.set(need(attribute)) }

    fn cuFuncGetAttribute("cuFuncGetAttribute" 2020, value: Out<c_int>, attribute: c_uint, _function: CUfunction) {
        value.set(need(attribute))
    }

    fn cuFuncSetAttribute("cuFuncSetAttribute" 9000, _function: CUfunction, _attribute: c_uint, _value: c_int) { Ok(()) }
    fn cuFuncSetCacheConfig("cuFuncSetCacheConfig" 3000, _function: CUfunction, _config: c_uint) { Ok(()) }
    fn cuFuncLoad("cuFuncLoad" 12040, _function: CUfunction) { Ok(()) }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor("cuOccupancyMaxActiveBlocksPerMultiprocessor" 6050,
        blocks: Out<c_int>, _function: CUfunction, threads: c_int, _shared: usize) { occupancy(blocks, threads) }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" 7000,
        blocks: Out<c_int>, _function: CUfunction, threads: c_int, _shared: usize, _flags: c_uint) {
        occupancy(blocks, threads)
    }

    fn cuLaunchKernel("cuLaunchKernel" 4000,
        _function: CUfunction, _gx: c_uint, _gy: c_uint, _gz: c_uint, _bx: c_uint, _by: c_uint, _bz: c_uint,
        _shared: c_uint, on: CUstream, _arguments: *const c_void, _extra: *const c_void) { launch(on) }

    fn cuLaunchKernelEx("cuLaunchKernelEx" 11060,
        config: In<LaunchConfig>, _function: CUfunction, _arguments: *const c_void, _extra: *const c_void) {
        launch(config.get()?.stream)
    }

    fn cuLaunchCooperativeKernel("cuLaunchCooperativeKernel" 9000,
        _function: CUfunction, _gx: c_uint, _gy: c_uint, _gz: c_uint, _bx: c_uint, _by: c_uint, _bz: c_uint,
        _shared: c_uint, on: CUstream, _arguments: *const c_void) { launch(on) }
}

fn load() -> Answer<usize> {
    sim()?;
    let mut loaded = lock(&LOADED);
    loaded.last += 16;
    Ok(FIRST + loaded.last)
}

/// Function handles stay valid, like the code of a program; the memory of variables goes back.
fn unload(module: usize) -> Answer {
    let mut loaded = lock(&LOADED);
    loaded.functions.retain(|(of, _), _| *of != module);
    let gone: Vec<u64> = loaded.globals.extract_if(|(of, _), _| *of == module).map(|(_, (addr, _))| addr).collect();
    drop(loaded);
    let sim = sim()?;
    for addr in gone {
        let device = sim.device_of(addr).unwrap_or_default();
        sim.mem_free(device, addr)?;
    }
    Ok(())
}

fn function(module: usize, name: String) -> Answer<usize> {
    sim()?;
    let mut loaded = lock(&LOADED);
    let fresh = FIRST + loaded.last + 16;
    let found = *loaded.functions.entry((module, name)).or_insert(fresh);
    if found == fresh {
        loaded.last += 16;
    }
    Ok(found)
}

fn global(addr: Out<CUdeviceptr>, bytes: Out<usize>, module: usize, name: String) -> Answer {
    let device = current_device()?;
    let mut loaded = lock(&LOADED);
    let (at, len) = match loaded.globals.get(&(module, name.clone())) {
        Some(&found) => found,
        None => {
            let made = (sim()?.mem_alloc(device, GLOBAL)?, GLOBAL);
            loaded.globals.insert((module, name), made);
            made
        }
    };
    addr.offer(at);
    bytes.offer(len as usize);
    Ok(())
}

/// What every kernel needs: 1024 threads at most, 32 registers, the architecture of the device.
fn need(attribute: c_uint) -> c_int {
    match attribute {
        0 => 1024,
        4 => 32,
        5 | 6 => 90,
        8 => 227 << 10,
        _ => 0,
    }
}

fn occupancy(blocks: Out<c_int>, threads: c_int) -> Answer {
    if !(1..=1024).contains(&threads) {
        return Err(Failure(Code::ERROR_INVALID_VALUE));
    }
    blocks.set((2048 / threads).min(32))
}

fn launch(on: CUstream) -> Answer {
    let machine = machine()?;
    Ok(machine.sim.launch(stream(on)?, machine.kernel_us, &[], &[])?)
}
