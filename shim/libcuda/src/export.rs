//! How a function is exported: caught, logged, listed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond_cuda::sys::CUresult;
use millpond_driver::{Code, DriverError};

/// What a function's body answers: the code of its error, if there is one.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

/// An error, of which C programs see the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub Code);

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

/// An exported function: what `cuGetProcAddress` finds by name and version.
pub(crate) struct Entry {
    /// The name without a suffix.
    pub name: &'static str,
    /// The CUDA version in which this form appeared.
    pub version: i32,
    pub address: *const (),
}

// SAFETY: the address of a function is the same, and may be called, in every thread.
unsafe impl Sync for Entry {}

/// Runs a function's body. No panic leaves it, and the log has a line of it.
pub(crate) fn answer(function: &'static str, body: impl FnOnce() -> Answer) -> CUresult {
    // A panic is a bug in here; the state is behind locks that survive one.
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(Failure(code))) => code.0,
        Err(_) => Code::ERROR_UNKNOWN.0,
    };
    crate::log::called(function, code);
    CUresult(code)
}

/// Exports functions, and lists them in `TABLE`.
///
/// `fn symbol("name" version, argument: type, …) { body }`: the body answers with [`Answer`]. Pointers that a C program passes come as
/// [`Out`](crate::arguments::Out), [`In`](crate::arguments::In) and [`Text`](crate::arguments::Text).
macro_rules! exports {
    ($(fn $symbol:ident($name:literal $version:literal $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $symbol($($argument: $type),*) -> millpond_cuda::sys::CUresult {
                crate::export::answer(stringify!($symbol), move || -> crate::export::Answer { $body })
            }
        )*

        /// The functions of this file.
        pub(crate) const TABLE: &[crate::export::Entry] = &[
            $(crate::export::Entry { name: $name, version: $version, address: $symbol as *const () },)*
        ];
    };
}
