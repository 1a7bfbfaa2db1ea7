//! Pointers that C programs pass.
//!
//! As on any C interface, the caller vouches that a pointer is null or points at what the function's documentation says, for
//! as long as the call lasts. That trust is placed here, once.

use std::ffi::{CStr, c_char};

use crate::status::{Answer, Failure};

/// What a pointer points at.
///
/// # Safety
/// Null, or valid for reads while `'a` lasts.
#[inline]
pub(crate) unsafe fn at<'a, T>(pointer: *const T, argument: &'static str) -> Answer<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(Failure::Argument { argument, why: "is a null pointer" })
}

/// Writes an answer.
///
/// # Safety
/// Null, or a place for a `T`.
#[inline]
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T, argument: &'static str) -> Answer {
    if pointer.is_null() {
        return Err(Failure::null(argument));
    }
    // SAFETY: the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// A string; what is not UTF-8 is replaced.
///
/// # Safety
/// Null, or a string with its end.
pub(crate) unsafe fn string(pointer: *const c_char, argument: &'static str) -> Answer<String> {
    if pointer.is_null() {
        return Err(Failure::null(argument));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// An array.
///
/// # Safety
/// Null with a count of 0, or `count` values.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, count: usize, argument: &'static str) -> Answer<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::null(argument));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Hands a value over to C.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes such a value back and drops it; null is fine.
///
/// # Safety
/// Null, or what [`give`] returned, once.
pub(crate) unsafe fn take_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(pointer) });
    }
}
