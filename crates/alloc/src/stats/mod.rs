//! Statistics (section 8 of the law): counters in the pools, peaks over all of them.

mod counters;
mod peaks;
mod summary;
mod values;

pub use counters::Metric;
pub use summary::memory_summary;
pub use values::{Stat, Stats};

pub(crate) use counters::Counters;
pub(crate) use peaks::{Member, Peaks};
