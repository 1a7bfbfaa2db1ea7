//! Requests → an allocator on a simulated device → a ledger.
//!
//! A [`Workload`] is what a program asked of its allocator. A [`Runner`] puts its requests to a fresh allocator on a
//! simulated [`Machine`], one by one, as the process that made the golden recordings did. [`parity`] holds every decision
//! against such a recording.
//!
//! ```
//! use millpond_replay::{Machine, Op, Outcome, Runner, Setup};
//!
//! let machine = Machine::new(&Setup::default())?;
//! let mut runner = Runner::new(&machine);
//! let outcome = runner.step(&Op::Alloc { id: 0, size: 1 << 20, stream: 0, pool: None })?;
//! assert!(matches!(outcome, Outcome::Allocated(_)));
//! assert_eq!(machine.allocator().stats().all(millpond::Metric::ReservedBytes).current, 2 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod assertion;
mod ids;
mod machine;
mod picture;
mod program;
mod runner;

pub mod ledger;
pub mod parity;
pub mod scenario;
pub mod snapshot;
pub mod workload;

pub use millpond_sim::{Block as HazardBlock, Hazard, HazardKind, Hint as HazardHint, Use as HazardUse};

pub use assertion::{Assertion, AssertionError, Decision};
pub use ledger::{Account, Ledger, account};
pub use machine::{Machine, Setup};
pub use picture::{Cell, Picture, Row};
pub use program::{Program, WorkloadRun};
pub use runner::{Failure, Nonsense, Outcome, OwnCalls, RunError, Runner};
pub use scenario::{SCENARIOS, Scenario, UnknownScenario};
pub use workload::{Launch, Op, Workload, WorkloadError};
