//! Errors of the driver, with CUDA's names and codes.

/// What every driver call returns.
pub type Result<T> = std::result::Result<T, DriverError>;

/// A `CUresult`: a number, so that codes of a newer driver survive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Code {
            $(#[doc = concat!("`CUDA_", stringify!($name), "`: ", $text, ".")] pub const $name: Code = Code($code);)*

            /// CUDA's name of the code, without the prefix `CUDA_`; `None` for a code that is not in our table.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($code => Some(stringify!($name)),)* _ => None }
            }

            /// CUDA's description of the code.
            pub fn text(self) -> &'static str {
                match self.0 { $($code => $text,)* _ => "unrecognized error code" }
            }
        }
    };
}

codes! {
    ERROR_INVALID_VALUE = 1, "invalid argument";
    ERROR_OUT_OF_MEMORY = 2, "out of memory";
    ERROR_NOT_INITIALIZED = 3, "initialization error";
    ERROR_DEINITIALIZED = 4, "driver shutting down";
    ERROR_NO_DEVICE = 100, "no CUDA-capable device is detected";
    ERROR_INVALID_DEVICE = 101, "invalid device ordinal";
    ERROR_INVALID_CONTEXT = 201, "invalid device context";
    ERROR_MAP_FAILED = 205, "mapping of buffer object failed";
    ERROR_ALREADY_MAPPED = 208, "array is mapped";
    ERROR_NOT_MAPPED = 211, "resource not mapped";
    ERROR_INVALID_HANDLE = 400, "invalid resource handle";
    ERROR_NOT_FOUND = 500, "named symbol not found";
    ERROR_NOT_READY = 600, "device not ready";
    ERROR_ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    ERROR_PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    ERROR_PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped";
    ERROR_HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    ERROR_LAUNCH_FAILED = 719, "unspecified launch failure";
    ERROR_NOT_PERMITTED = 800, "operation not permitted";
    ERROR_NOT_SUPPORTED = 801, "operation not supported";
    ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    ERROR_STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    ERROR_STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences";
    ERROR_STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began";
    ERROR_STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    ERROR_STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    ERROR_STREAM_CAPTURE_IMPLICIT = 906, "operation would make the legacy stream depend on a capturing blocking stream";
    ERROR_CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    ERROR_STREAM_CAPTURE_WRONG_THREAD = 908, "attempt to terminate a thread-local capture sequence from another thread";
    ERROR_UNKNOWN = 999, "unknown error";
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "code {}", self.0),
        }
    }
}

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {} ({code:?}){}{detail}", code.text(), if detail.is_empty() { "" } else { ": " })]
pub struct DriverError {
    /// What the driver answered.
    pub code: Code,
    /// The call, by CUDA's name (`cuMemMap`).
    pub call: &'static str,
    /// What exactly was wrong, where the driver knows; may be empty.
    pub detail: String,
}

impl DriverError {
    /// An error without detail.
    pub fn new(code: Code, call: &'static str) -> Self {
        DriverError { code, call, detail: String::new() }
    }

    /// An error that says what was wrong.
    pub fn with(code: Code, call: &'static str, detail: impl Into<String>) -> Self {
        DriverError { code, call, detail: detail.into() }
    }

    /// Whether the device is out of memory, the one error an allocator can do something about.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == Code::ERROR_OUT_OF_MEMORY
    }
}
