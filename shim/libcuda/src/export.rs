//! How a function is exported: caught, logged, listed.

use millpond_cuda::sys::CUresult;
pub(crate) use millpond_shim::{Answer, Failure};

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
    let code = millpond_shim::caught(body);
    crate::log::called(function, code);
    CUresult(code)
}

/// Exports functions, and lists them in `TABLE`.
///
/// `fn symbol("name" version, argument: type, …) { body }`: the body answers with [`Answer`]. Pointers that a C program passes come as
/// [`Out`](millpond_shim::Out), [`In`](millpond_shim::In) and [`Text`](millpond_shim::Text).
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
