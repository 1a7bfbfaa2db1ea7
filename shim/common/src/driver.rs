//! Calling the simulated `libcuda.so.1`, for the libraries that own no device.

use std::sync::LazyLock;

use libloading::Library;
use millpond_driver::Code;

use crate::answer::{Answer, Failure};

/// The library, if it is there and ours: a function of our own proves that.
static LIBRARY: LazyLock<Option<Library>> = LazyLock::new(|| {
    // SAFETY: loading our own library runs no code but the loader's; if another one has its name, then its
    // initialisers, which may run at any time.
    let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
    // SAFETY: the symbol is only looked for, not used.
    unsafe { library.get::<*const ()>("mpSimVersion") }.is_ok().then_some(library)
});

/// A function of the library by its symbol.
///
/// # Errors
/// `cudaErrorInsufficientDriver` without the library or the function.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn function<F: Copy>(symbol: &str) -> Answer<F> {
    let library = LIBRARY.as_ref().ok_or(Failure(Code(35)))?;
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<F>(symbol) }.map(|found| *found).map_err(|_| Failure(Code(35)))
}

/// Calls a function of the simulated driver: `driver!(cuMemFree_v2(addr: u64))`, with the variables and their C types.
#[macro_export]
macro_rules! driver {
    ($name:ident($($argument:ident: $type:ty),* $(,)?)) => {{
        type Function = unsafe extern "C" fn($($type),*) -> millpond_cuda::sys::CUresult;
        static FOUND: std::sync::OnceLock<$crate::Answer<Function>> = std::sync::OnceLock::new();
        // SAFETY: the simulated library exports the function with this type.
        let function = FOUND.get_or_init(|| unsafe { $crate::driver::function(stringify!($name)) });
        match *function {
            // SAFETY: pointers among the arguments are to live variables of the caller's, or come from a C program that
            // vouches for them.
            Ok(function) => $crate::Failure::check(unsafe { function($($argument),*) }),
            Err(failure) => Err(failure),
        }
    }};
}
