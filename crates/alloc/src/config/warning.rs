//! What PyTorch says and does not stop at.

use std::fmt;

/// A warning, in PyTorch's own words. It is a value: whoever asked for the settings decides where it is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// A reserve that is no reserve is ignored (R4.25).
    Reserve {
        /// The value as written.
        value: String,
    },
    /// The threshold for rounding lies above the one for caching, which wins (R10.13).
    PinnedRoundAboveCached {
        /// `pinned_max_round_threshold_mb`, in MiB.
        round: u64,
        /// `pinned_max_cached_size_mb`, in MiB.
        cached: u64,
    },
    /// Keys of the caching allocator stand beside `backend:cudaMallocAsync`, which ignores them (R6.12).
    AsyncIgnores,
    /// A switch for caching that is neither 0 nor 1 counts as not set (R10.40).
    CachingSwitch {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Reserve { value } => write!(
                f,
                "Ignoring invalid expandable-segment reserve value '{value}' in PYTORCH_CUDA_ALLOC_CONF (expected a positive, \
                 finite fraction like 0.5 or an absolute size like 40G); using default."
            ),
            Warning::PinnedRoundAboveCached { round, cached } => write!(
                f,
                "pinned_max_round_threshold_mb ({round}) > pinned_max_cached_size_mb ({cached}). The cache size limit takes \
                 precedence: allocations above pinned_max_cached_size_mb are never rounded up."
            ),
            // Two of the three keys it names do not trigger it: they moved to the generic parser and stayed in the text.
            Warning::AsyncIgnores => f.write_str(
                "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and garbage_collect_threshold.",
            ),
            Warning::CachingSwitch { variable, value } => {
                // PyTorch forgets the space, too.
                write!(f, "Ignoring invalid value for boolean flag {variable}: {value}valid values are 0 or 1.")
            }
        }
    }
}
