//! What a function answers: a status, and of an error its text.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond::Error;
use millpond::config::{ConfigError, EnvError};
use millpond_cuda::LoadError;

/// What a function answers. Numbers keep their meaning for good.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mp_status {
    /// It was done.
    MP_OK = 0,
    /// The device has no room.
    MP_OUT_OF_MEMORY = 1,
    /// A request of 2^60 bytes or more.
    MP_TOO_LARGE = 2,
    /// A request beyond per_process_memory_fraction under throw_on_cudamalloc_oom.
    MP_REJECTED = 3,
    /// The driver failed for another reason than memory: mp_error_driver_code().
    MP_DRIVER = 4,
    /// No live block starts at the address.
    MP_UNKNOWN_ADDRESS = 5,
    /// A stream of another device.
    MP_WRONG_DEVICE = 6,
    /// The calling thread's stream is in a capture that was invalidated.
    MP_CAPTURE_INVALIDATED = 7,
    /// The streams of a block do not capture into one graph.
    MP_CAPTURE_MISMATCH = 8,
    /// The capture and the open pool scopes do not fit together.
    MP_CAPTURE_SCOPE = 9,
    /// A fraction outside of 0 to 1.
    MP_INVALID_FRACTION = 10,
    /// No memory pool has this id.
    MP_UNKNOWN_POOL = 11,
    /// The last owner of the memory pool has let go.
    MP_POOL_RELEASED = 12,
    /// The memory pool exists, and its allocator cannot be changed.
    MP_POOL_EXISTS = 13,
    /// A scope for the memory pool is open.
    MP_SCOPE_OPEN = 14,
    /// No scope for the memory pool is open.
    MP_SCOPE_NOT_OPEN = 15,
    /// An exact address that is no multiple of 512.
    MP_MISALIGNED_ADDRESS = 16,
    /// No free block covers the exact range.
    MP_ADDRESS_NOT_FREE = 17,
    /// The address lies in an expandable segment, which has no base of its own.
    MP_EXPANDABLE = 18,
    /// Caching is off, and the call needs it.
    MP_CACHING_DISABLED = 19,
    /// The memory pool cannot be saved now.
    MP_NO_CHECKPOINT = 20,
    /// The saved state does not fit any more.
    MP_STALE_CHECKPOINT = 21,
    /// A custom allocator gave memory that is in use.
    MP_CUSTOM_OVERLAP = 22,
    /// A custom allocator asked for memory of the memory pool that it serves.
    MP_CUSTOM_ASKS_ITSELF = 23,
    /// The CUDA driver is missing, too old or does not start.
    MP_NO_DRIVER = 64,
    /// A setting is not understood.
    MP_SETTINGS = 65,
    /// A null pointer, or a number that means nothing.
    MP_INVALID_ARGUMENT = 66,
    /// A file could not be written.
    MP_FILE = 67,
    /// mp_verify found the allocator inconsistent: a fault in here.
    MP_VIOLATION = 68,
    /// A fault in here; what was asked for was not done.
    MP_INTERNAL = 69,
}

/// Why a call was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Allocator(#[from] Error),
    #[error(transparent)]
    Driver(#[from] millpond_driver::DriverError),
    #[error(transparent)]
    NoDriver(#[from] LoadError),
    #[error(transparent)]
    Environment(#[from] EnvError),
    #[error("{0}")]
    Settings(String),
    #[error("{argument} {why}")]
    Argument { argument: &'static str, why: &'static str },
    #[error("{path}: it cannot be written: {error}")]
    File { path: String, error: std::io::Error },
    #[error("{0}")]
    Violation(String),
}

/// A value, or an error.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Settings(error.to_string())
    }
}

impl Failure {
    pub fn null(argument: &'static str) -> Self {
        Failure::Argument { argument, why: "is a null pointer" }
    }

    fn status(&self) -> mp_status {
        use mp_status::*;
        match self {
            Failure::Allocator(error) => match error {
                Error::OutOfMemory(_) => MP_OUT_OF_MEMORY,
                Error::TooLarge { .. } => MP_TOO_LARGE,
                Error::Rejected { .. } => MP_REJECTED,
                Error::Driver(_) => MP_DRIVER,
                Error::UnknownAddress { .. } => MP_UNKNOWN_ADDRESS,
                Error::WrongDevice { .. } => MP_WRONG_DEVICE,
                Error::CaptureInvalidated { .. } => MP_CAPTURE_INVALIDATED,
                Error::CaptureMismatch => MP_CAPTURE_MISMATCH,
                Error::CaptureScope { .. } => MP_CAPTURE_SCOPE,
                Error::InvalidFraction { .. } => MP_INVALID_FRACTION,
                Error::UnknownPool { .. } => MP_UNKNOWN_POOL,
                Error::PoolReleased { .. } => MP_POOL_RELEASED,
                Error::PoolExists { .. } => MP_POOL_EXISTS,
                Error::ScopeOpen { .. } => MP_SCOPE_OPEN,
                Error::ScopeNotOpen { .. } => MP_SCOPE_NOT_OPEN,
                Error::MisalignedAddress { .. } => MP_MISALIGNED_ADDRESS,
                Error::AddressNotFree { .. } => MP_ADDRESS_NOT_FREE,
                Error::Expandable { .. } => MP_EXPANDABLE,
                Error::CachingDisabled { .. } => MP_CACHING_DISABLED,
                Error::NoCheckpoint { .. } => MP_NO_CHECKPOINT,
                Error::StaleCheckpoint { .. } => MP_STALE_CHECKPOINT,
                Error::CustomOverlap { .. } => MP_CUSTOM_OVERLAP,
                Error::CustomAsksItself { .. } => MP_CUSTOM_ASKS_ITSELF,
                // Every error of the allocator has a status; the driver's own pools are not used here.
                _ => MP_INTERNAL,
            },
            Failure::Driver(_) => MP_DRIVER,
            Failure::NoDriver(_) => MP_NO_DRIVER,
            Failure::Environment(_) | Failure::Settings(_) => MP_SETTINGS,
            Failure::Argument { .. } => MP_INVALID_ARGUMENT,
            Failure::File { .. } => MP_FILE,
            Failure::Violation(_) => MP_VIOLATION,
        }
    }

    fn driver_code(&self) -> i32 {
        match self {
            Failure::Allocator(Error::Driver(error)) | Failure::Driver(error) => error.code.0,
            Failure::NoDriver(LoadError::Start(error)) => error.code.0,
            _ => 0,
        }
    }
}

/// What the calling thread was told last.
struct LastError {
    status: mp_status,
    text: CString,
    driver_code: i32,
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// Runs the body of an exported function. No panic leaves it.
#[inline]
pub(crate) fn caught(body: impl FnOnce() -> Answer) -> mp_status {
    // A panic is a bug in here; what is shared lies behind locks that survive one.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => mp_status::MP_OK,
        Ok(Err(failure)) => failed(&failure),
        Err(payload) => panicked(payload.as_ref()),
    }
}

#[cold]
fn failed(failure: &Failure) -> mp_status {
    remember(failure.status(), failure.to_string(), failure.driver_code())
}

#[cold]
fn panicked(payload: &(dyn std::any::Any + Send)) -> mp_status {
    let what = payload.downcast_ref::<&str>().copied();
    let what = what.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    remember(mp_status::MP_INTERNAL, format!("a fault in Millpond: {what}"), 0)
}

fn remember(status: mp_status, text: String, driver_code: i32) -> mp_status {
    let text = crate::text::c_string(text);
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(LastError { status, text, driver_code }));
    status
}

/// The text of the calling thread's last error, for a person; empty before the first. It stays valid until the thread's
/// next error. For MP_OUT_OF_MEMORY it is PyTorch's text to the letter.
#[unsafe(no_mangle)]
pub extern "C" fn mp_error_text() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ref().map_or(c"".as_ptr(), |last| last.text.as_ptr()));
    text.unwrap_or(c"".as_ptr())
}

/// The status of the calling thread's last error; MP_OK before the first.
#[unsafe(no_mangle)]
pub extern "C" fn mp_error_status() -> mp_status {
    LAST.try_with(|last| last.borrow().as_ref().map_or(mp_status::MP_OK, |last| last.status))
        .unwrap_or(mp_status::MP_OK)
}

/// The CUresult of the calling thread's last error, where it came from the driver; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn mp_error_driver_code() -> i32 {
    LAST.try_with(|last| last.borrow().as_ref().map_or(0, |last| last.driver_code)).unwrap_or(0)
}

/// Whether PyTorch raises torch.OutOfMemoryError for this status.
#[unsafe(no_mangle)]
pub extern "C" fn mp_is_out_of_memory(status: i32) -> bool {
    use mp_status::*;
    [MP_OUT_OF_MEMORY, MP_TOO_LARGE, MP_REJECTED].iter().any(|&known| known as i32 == status)
}

/// The version of this interface. It rises when a function goes or changes its meaning, not when one is added.
pub const MP_ABI_VERSION: u32 = 1;

/// The version of the interface that the library has; a program compares it with MP_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn mp_abi_version() -> u32 {
    MP_ABI_VERSION
}

/// The library's version, "0.1.0" say.
#[unsafe(no_mangle)]
pub extern "C" fn mp_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(caught(|| panic!("the mill {}", "stands")), mp_status::MP_INTERNAL);
        // SAFETY: the thread's text, and no error comes between.
        let text = unsafe { CStr::from_ptr(mp_error_text()) };
        assert_eq!(text.to_str(), Ok("a fault in Millpond: the mill stands"));
        assert_eq!(mp_error_status(), mp_status::MP_INTERNAL);
    }

    #[test]
    fn three_statuses_are_torchs_out_of_memory() {
        let of = |error: Error| mp_is_out_of_memory(Failure::from(error).status() as i32);
        assert!(of(Error::TooLarge { requested: 1 << 60 }) && of(Error::Rejected { requested: 1 }));
        assert!(!of(Error::UnknownAddress { addr: 1 }) && !mp_is_out_of_memory(-1));
    }
}
