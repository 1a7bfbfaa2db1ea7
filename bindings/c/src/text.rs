//! Strings that cross the interface.

use std::ffi::{CString, c_char};
use std::sync::Arc;

use crate::pointer;
use crate::status::{caught, mp_status};

/// A shared string, for what every call of a thread carries (mp_caller).
pub struct mp_text(pub(crate) Arc<str>);

/// Makes a shared string. Destroy it with mp_text_destroy when no call uses it any more; what was recorded keeps its own
/// share.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_text_create(text: *const c_char, out: *mut *mut mp_text) -> mp_status {
    caught(|| {
        // SAFETY: as the header documents.
        unsafe {
            let text = pointer::string(text, "text")?;
            pointer::put(out, std::ptr::null_mut(), "out")?;
            pointer::put(out, pointer::give(mp_text(text.into())), "out")
        }
    })
}

/// Destroys a shared string; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_text_destroy(text: *mut mp_text) {
    // SAFETY: as the header documents.
    unsafe { pointer::take_back(text) };
}

/// Destroys a string that a function of this library gave; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_string_destroy(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it came from `give_string`.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// A C string; it ends where a zero byte is.
pub(crate) fn c_string(text: impl Into<String>) -> CString {
    let mut bytes = text.into().into_bytes();
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    CString::new(bytes).unwrap_or_default()
}

/// Hands a string over to C, which gives it back to [`mp_string_destroy`].
pub(crate) fn give_string(text: impl Into<String>) -> *mut c_char {
    c_string(text).into_raw()
}
