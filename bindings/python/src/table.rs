//! The functions of `millpond.h` that are used here, found by name in a loaded library.

use std::ffi::{c_char, c_void};

use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};

/// An opaque object of the library.
pub(crate) type Handle = *mut c_void;
type Status = i32;

/// `mp_history_options`.
#[repr(C)]
pub(crate) struct HistoryOptions {
    pub level: u32,
    pub max_entries: usize,
    pub clear: bool,
    pub compile_context: bool,
    pub skip_actions: *const *const c_char,
    pub skip_count: usize,
}

/// `mp_caller`: a thread of which only its current stream is known.
#[repr(C)]
pub(crate) struct Caller {
    pub stream: u64,
    pub metadata: *const c_void,
    pub compile_context: *const c_void,
}

macro_rules! table {
    ($($name:ident: $signature:ty;)*) => {
        /// The functions, with the library that they lie in.
        pub(crate) struct Table {
            $(pub $name: $signature,)*
            library: Library,
        }

        impl Table {
            /// Loads a library and finds them all.
            ///
            /// # Safety
            /// The file is a `libmillpond.so`: its functions have the signatures of `millpond.h`.
            pub unsafe fn load(path: &str) -> Result<Self, libloading::Error> {
                // SAFETY: the caller's promise.
                let library: Library = unsafe { UnixLibrary::open(Some(path), RTLD_NOW | RTLD_LOCAL)? }.into();
                Ok(Table {
                    // SAFETY: as above.
                    $($name: *unsafe { library.get::<$signature>(stringify!($name))? },)*
                    library,
                })
            }
        }
    };
}

table! {
    mp_abi_version: unsafe extern "C" fn() -> u32;
    mp_version: unsafe extern "C" fn() -> *const c_char;
    mp_error_text: unsafe extern "C" fn() -> *const c_char;
    mp_error_driver_code: unsafe extern "C" fn() -> i32;
    mp_is_out_of_memory: unsafe extern "C" fn(Status) -> bool;
    mp_string_destroy: unsafe extern "C" fn(*mut c_char);
    mp_process_world: unsafe extern "C" fn(*mut Handle) -> Status;
    mp_process_allocator: unsafe extern "C" fn(i32, *mut Handle) -> Status;
    mp_world_device_count: unsafe extern "C" fn(Handle) -> i32;
    mp_settings_json: unsafe extern "C" fn(Handle, *mut *mut c_char) -> Status;
    mp_configure: unsafe extern "C" fn(Handle, *const c_char, bool, *mut *mut c_char) -> Status;
    mp_dump_snapshot: unsafe extern "C" fn(Handle, *const c_char) -> Status;
    mp_alloc: unsafe extern "C" fn(Handle, u64, u64, *const Caller, *mut u64) -> Status;
    mp_free: unsafe extern "C" fn(Handle, u64, *const Caller) -> Status;
    mp_record_stream: unsafe extern "C" fn(Handle, u64, u64, *const Caller, *mut bool) -> Status;
    mp_stats_json: unsafe extern "C" fn(Handle, *mut *mut c_char) -> Status;
    mp_memory_summary: unsafe extern "C" fn(Handle, bool, *mut *mut c_char) -> Status;
    mp_reset_peak_stats: unsafe extern "C" fn(Handle) -> Status;
    mp_reset_accumulated_stats: unsafe extern "C" fn(Handle) -> Status;
    mp_set_memory_fraction: unsafe extern "C" fn(Handle, f64) -> Status;
    mp_memory_fraction: unsafe extern "C" fn(Handle, *mut f64) -> Status;
    mp_record_history: unsafe extern "C" fn(Handle, *const HistoryOptions) -> Status;
    mp_empty_cache: unsafe extern "C" fn(Handle, *const Caller) -> Status;
    mp_verify: unsafe extern "C" fn(Handle) -> Status;
}

impl Table {
    /// The address of any function of the library, for those who take addresses.
    pub fn address(&self, name: &str) -> Result<usize, libloading::Error> {
        // SAFETY: the symbol is not called and not read, only its address is taken.
        let symbol = unsafe { self.library.get::<*mut c_void>(name)? };
        // SAFETY: as above.
        Ok(unsafe { symbol.into_raw() }.as_raw_ptr().expose_provenance())
    }
}
