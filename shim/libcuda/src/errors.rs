//! Names and texts of error codes.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::{LazyLock, Mutex};

use millpond_cuda::sys::CUresult;
use millpond_driver::Code;

use crate::export::Answer;
use crate::machine::lock;
use millpond_shim::Out;

/// The strings handed out so far. They live as long as the process, as programs expect.
static STRINGS: LazyLock<Mutex<HashMap<String, &'static CString>>> = LazyLock::new(Mutex::default);

exports! {
    fn cuGetErrorName("cuGetErrorName" 6000, code: CUresult, text: Out<*const c_char>) {
        let name = match code {
            CUresult(0) => Some("CUDA_SUCCESS".to_owned()),
            CUresult(code) => Code(code).name().map(|name| format!("CUDA_{name}")),
        };
        give(text, name)
    }

    fn cuGetErrorString("cuGetErrorString" 6000, code: CUresult, text: Out<*const c_char>) {
        let known = match code {
            CUresult(0) => Some("no error"),
            CUresult(code) => Code(code).name().map(|_| Code(code).text()),
        };
        give(text, known.map(str::to_owned))
    }
}

fn give(to: Out<*const c_char>, text: Option<String>) -> Answer {
    let Some(text) = text else {
        to.set(std::ptr::null())?;
        return Err(Code::ERROR_INVALID_VALUE.into());
    };
    let mut strings = lock(&STRINGS);
    let string = strings.entry(text).or_insert_with_key(|text| {
        // Bounded: there are as many texts as codes.
        Box::leak(Box::new(CString::new(text.as_str()).unwrap_or_default()))
    });
    to.set(string.as_ptr())
}
