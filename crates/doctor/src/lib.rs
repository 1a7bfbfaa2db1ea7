//! Why an allocation failed, and what would have been enough. Nothing is advised that was not replayed.
//!
//! A [`Patient`] is a file's requests; a replay of them on a device of one size under one setting is a [`Trial`]. What decides
//! is the [`smallest`] capacity that survives, found by replay and bisection: neither a peak nor a ratio of peaks tells it.
//! [`sweep()`] does that for a grid of settings, beside the [`Bounds`] that none can beat. [`diagnose`] says of a device of a
//! snapshot what happened, where every byte was, why it failed, and which settings would have survived. [`diff()`] says what grew
//! between two states, and [`plan()`] how large a cache may be beside the requests.
#![forbid(unsafe_code)]

mod bounds;
mod conf;
pub mod diagnosis;
mod diff;
mod frames;
mod plan;
mod search;
mod sweep;
mod trial;

pub use bounds::Bounds;
pub use conf::{Conf, GRID};
pub use diagnosis::{Diagnosis, Known, diagnose, examine};
pub use diff::{DeviceDiff, Diff, Held, Place, Totals, diff};
pub use plan::{CachePlan, LargestCache, PoolWater, plan};
pub use search::{STEP, Smallest, smallest};
pub use sweep::{Plan as SweepPlan, Setting, Sweep, sweep};
pub use trial::{Patient, Requests, Trial, Until};
