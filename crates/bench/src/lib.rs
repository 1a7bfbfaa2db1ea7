//! What an allocation costs: loops of requests, on any allocator, timed in turn in one run.
//!
//! A figure in nanoseconds says little about another machine, so every figure comes with a yardstick taken between its own
//! rounds ([`yardstick`]), and two allocators are compared only when their rounds were taken in turn ([`in_turn`]).
#![forbid(unsafe_code)]

mod case;
mod chase;
mod cost;
mod growth;
mod random;
mod run;
mod subject;
mod table;

pub use case::{Case, Mix, UnknownCase};
pub use cost::{Times, cost, in_turn, median, yardstick};
pub use growth::{Growth, GrowthRow, POPULATIONS};
pub use run::Run;
pub use subject::{HISTORY, Library, LibraryFailed, Subject};
pub use table::{BadCounts, Counts, Row, once, row};
