//! Calling the driver: from its answer to a result.

use std::ffi::CStr;

use millpond_driver::{Code, DriverError, Result};

use crate::cuda::Cuda;
use crate::sys::CUresult;

/// Calls a function of the table and gives its error the function's name.
///
/// `call!(self, cuMemAlloc_v2, "cuMemAlloc", &mut addr, bytes)`
macro_rules! call {
    ($cuda:expr, $function:ident as $name:literal, $($argument:expr),* $(,)?) => {
        // SAFETY: the table holds the function under its own signature, so the compiler has checked the arguments;
        // pointers among them are to live variables of this frame, numbers are handles and addresses that the driver
        // checks itself.
        $cuda.check($name, unsafe { ($cuda.functions.$function)($($argument),*) })
    };
}

/// The same for a function that this driver may lack: then `NOT_SUPPORTED`.
macro_rules! call_optional {
    ($cuda:expr, $function:ident as $name:literal, $($argument:expr),* $(,)?) => {
        match $cuda.functions.$function {
            // SAFETY: as for `call!`.
            Some(function) => $cuda.check($name, unsafe { function($($argument),*) }),
            None => Err(millpond_driver::DriverError::with(
                millpond_driver::Code::ERROR_NOT_SUPPORTED,
                $name,
                "this driver does not have the function",
            )),
        }
    };
}

impl Cuda {
    /// The driver's answer to `call` as a result.
    pub(crate) fn check(&self, call: &'static str, answer: CUresult) -> Result<()> {
        if answer == CUresult::SUCCESS { Ok(()) } else { Err(self.explain(call, answer)) }
    }

    #[cold]
    fn explain(&self, call: &'static str, answer: CUresult) -> DriverError {
        let code = Code(answer.0);
        if code.name().is_some() {
            return DriverError::new(code, call);
        }
        // A code that our table lacks: a newer driver has a text for it.
        let mut text = std::ptr::null();
        // SAFETY: `text` is a live variable; the driver points it at a string of its own or at nothing.
        let known = unsafe { (self.functions.cuGetErrorString)(answer, &mut text) } == CUresult::SUCCESS;
        let detail = if known && !text.is_null() {
            // SAFETY: a string of the driver's lives as long as the driver, which is never unloaded.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        } else {
            String::new()
        };
        DriverError::with(code, call, detail)
    }
}
