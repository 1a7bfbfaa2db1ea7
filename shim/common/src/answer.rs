//! What an exported function's body answers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond_cuda::sys::CUresult;
use millpond_driver::{Code, DriverError};

/// A value, or the code of an error.
pub type Answer<T = ()> = Result<T, Failure>;

/// An error, of which C programs see the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure(pub Code);

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Failure(error.code)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure(code)
    }
}

impl Failure {
    /// What the driver answered, as an answer.
    ///
    /// # Errors
    /// For every code but that of success.
    pub fn check(answer: CUresult) -> Answer {
        if answer == CUresult::SUCCESS { Ok(()) } else { Err(Failure(Code(answer.0))) }
    }
}

/// Runs the body of an exported function: its code, 0 for success. No panic leaves it, as none may cross into C.
pub fn caught(body: impl FnOnce() -> Answer) -> i32 {
    // A panic is a bug in here; what is shared lies behind locks that survive one.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(Failure(code))) => code.0,
        Err(_) => Code::ERROR_UNKNOWN.0,
    }
}
