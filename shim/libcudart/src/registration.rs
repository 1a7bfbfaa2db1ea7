//! What programs that the vendor's compiler made register at their start: images of code, kernels, variables.
//!
//! Images are not read. A kernel is known by the address of its stub, which is all that a launch names; a variable gets
//! memory on the device when somebody asks for its address.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use millpond_cuda::sys::{CUkernel, CUmodule, CUstream};
use millpond_driver::Code;
use millpond_shim::{Answer, Failure, Out, driver};

use crate::kernels::Dim3;

/// The bytes of each variable, by the address of its shadow in the program.
static VARIABLES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// The launches that the thread prepares with `<<<…>>>`.
    static LAUNCHES: RefCell<Vec<Launch>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy)]
struct Launch {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: CUstream,
}

/// A handle for every image: programs only pass it back.
extern "C" fn __cudaRegisterFatBinary(image: *mut c_void) -> *mut *mut c_void {
    image.cast()
}
symbol!(__cudaRegisterFatBinary, __cudaRegisterFatBinary);

extern "C" fn __cudaRegisterFatBinaryEnd(_image: *mut *mut c_void) {}
symbol!(__cudaRegisterFatBinaryEnd, __cudaRegisterFatBinaryEnd);

extern "C" fn __cudaUnregisterFatBinary(_image: *mut *mut c_void) {}
symbol!(__cudaUnregisterFatBinary, __cudaUnregisterFatBinary);

extern "C" fn __cudaRegisterFunction(_image: *mut *mut c_void, _stub: usize) {}
symbol!(__cudaRegisterFunction, __cudaRegisterFunction);

extern "C" fn __cudaRegisterVar(
    _image: *mut *mut c_void,
    shadow: usize,
    _address: *mut c_char,
    _name: *const c_char,
    _external: c_int,
    bytes: usize,
) {
    VARIABLES.lock().unwrap_or_else(PoisonError::into_inner).insert(shadow, bytes);
}
symbol!(__cudaRegisterVar, __cudaRegisterVar);

extern "C" fn __cudaInitModule(_image: *mut *mut c_void) -> c_char {
    1
}
symbol!(__cudaInitModule, __cudaInitModule);

extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: CUstream) -> c_uint {
    LAUNCHES.with_borrow_mut(|launches| launches.push(Launch { grid, block, shared, stream }));
    0
}
symbol!(__cudaPushCallConfiguration, __cudaPushCallConfiguration);

exports! {
    fn __cudaPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<CUstream>) {
        let launch = LAUNCHES.with_borrow_mut(Vec::pop).ok_or(Failure(Code(52)))?;
        grid.set(launch.grid)?;
        block.set(launch.block)?;
        shared.set(launch.shared)?;
        stream.set(launch.stream)
    }

    fn __cudaGetKernel(to: Out<CUkernel>, stub: usize) { to.set(CUkernel(stub)) }

    fn cudaGetKernel(to: Out<CUkernel>, stub: usize) { to.set(CUkernel(stub)) }

    fn cudaGetFuncBySymbol(to: Out<usize>, stub: usize) { to.set(stub) }

    fn cudaGetSymbolSize(to: Out<usize>, symbol: usize) { to.set(bytes_of_variable(symbol)?) }

    fn cudaGetSymbolAddress(to: *mut u64, symbol: usize) {
        bytes_of_variable(symbol)?;
        crate::thread::entered()?;
        // The driver keeps variables by module and name: one module for all, the address of the shadow as the name.
        let (bytes, module) = (std::ptr::null_mut(), CUmodule(1));
        let name = CString::new(format!("{symbol:#x}")).map_err(|_| Failure(Code::ERROR_INVALID_VALUE))?;
        let name = name.as_ptr();
        driver!(cuModuleGetGlobal_v2(to: *mut u64, bytes: *mut usize, module: CUmodule, name: *const c_char))
    }
}

/// The size of a variable that was registered.
pub(crate) fn bytes_of_variable(symbol: usize) -> Answer<usize> {
    let variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    variables.get(&symbol).copied().ok_or(Failure(Code(13)))
}
