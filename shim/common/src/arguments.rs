//! Pointers that C programs pass.
//!
//! As on any C interface, the caller vouches that a pointer is null or points at what the function's documentation
//! says, for as long as the call lasts. That trust is placed here, once; a null pointer is `INVALID_VALUE`.

use std::ffi::{CStr, c_char};

use millpond_driver::Code;

use crate::answer::Answer;

/// Where an answer goes.
#[repr(transparent)]
pub struct Out<T>(*mut T);

// A pointer, whatever it points at.
impl<T> Copy for Out<T> {}
impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Out<T> {
    /// Writes the answer.
    pub fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        // SAFETY: not null, so by the interface's contract a place for a `T`, not necessarily aligned or filled.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the answer if it is wanted.
    pub fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as above.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes as many of `values` as there are, one after the other.
    pub fn fill(self, values: impl IntoIterator<Item = T>) -> Answer {
        if self.0.is_null() {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the interface's contract for an array, whose length the caller of this function has kept to.
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }

    /// The same place, for a value of another type.
    pub fn of<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Whether the caller wants no answer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> Out<T> {
    /// What is there now.
    pub fn now(self) -> Answer<T> {
        In(self.0.cast_const()).get()
    }
}

/// Where an argument lies.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Copy for In<T> {}
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> In<T> {
    /// The same place, as a value of another type.
    pub fn of<U>(self) -> In<U> {
        In(self.0.cast())
    }

    /// The place as a number, for arguments that are numbers in a pointer's place.
    pub fn number(self) -> usize {
        self.0.addr()
    }
}

impl<T: Copy> In<T> {
    /// The argument.
    pub fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        // SAFETY: not null, so by the interface's contract a `T`, not necessarily aligned.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// An array of arguments.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        if self.0.is_null() && count != 0 {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        // SAFETY: the interface's contract for an array of `count`.
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

/// A string.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// The string; what is not UTF-8 is replaced.
    pub fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        // SAFETY: not null, so by the interface's contract a string with its end.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Copies `text` and its end into a buffer of `len` bytes, cut off if need be.
pub fn copy_text(to: Out<c_char>, len: i32, text: &str) -> Answer {
    let Some(room) = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)) else {
        return Err(Code::ERROR_INVALID_VALUE.into());
    };
    to.fill(text.bytes().take(room).chain([0]).map(|byte| byte as c_char))
}
