//! How a function is exported.
//!
//! Its symbol must carry the version `libcudart.so.13`. A symbol that Rust exports gets none, as the compiler's own list
//! of exports wins over the version script. So the exported symbol is a jump that the compiler knows nothing about.

use millpond_shim::Answer;

/// The instruction that goes on at a symbol.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {}"
    };
}

/// Exports one function under a name, which has one form in CUDA 12 and 13.
macro_rules! symbol {
    ($name:ident, $function:path) => {
        symbol_of_13!($name, $function);
        symbol_of_12!($name, $function);
    };
}

/// Exports one function as CUDA 13 knows it.
macro_rules! symbol_of_13 {
    ($name:ident, $function:path) => {
        std::arch::global_asm!(
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ", @function"),
            concat!(stringify!($name), ":"),
            jump!(),
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            sym $function
        );
    };
}

/// Exports one function as CUDA 12 knows it: the assembler is told of the version, as the version script knows a name only once.
macro_rules! symbol_of_12 {
    ($name:ident, $function:path) => {
        std::arch::global_asm!(
            concat!(".globl ", stringify!($name), "_of_12"),
            concat!(".type ", stringify!($name), "_of_12, @function"),
            concat!(stringify!($name), "_of_12:"),
            jump!(),
            concat!(".size ", stringify!($name), "_of_12, . - ", stringify!($name), "_of_12"),
            concat!(".symver ", stringify!($name), "_of_12, ", stringify!($name), "@libcudart.so.12, remove"),
            sym $function
        );
    };
}

/// Exports functions whose bodies answer with [`Answer`]; a failure stays behind as the thread's last error.
macro_rules! exports {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
                crate::export::answer(move || -> millpond_shim::Answer { $body })
            }
            symbol!($name, $name);
        )*
    };
}

/// Exports functions that are functions of the driver by another name, once the thread has a context.
macro_rules! forward {
    ($($name:ident => $driver:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        exports! {
            $(fn $name($($argument: $type),*) {
                crate::thread::entered()?;
                millpond_shim::driver!($driver($($argument: $type),*))
            })*
        }
    };
}

/// Runs a body. No panic leaves it.
pub(crate) fn answer(body: impl FnOnce() -> Answer) -> std::ffi::c_int {
    let code = millpond_shim::caught(body);
    if code != 0 {
        crate::thread::failed(code);
    }
    code
}
