//! What `millpond replay` takes.

use std::path::PathBuf;

use clap::ValueEnum;
use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::{Assertion, AssertionError};
use millpond_sim::EventMode;

use crate::codes::Code;
use crate::failure::Failure;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A workload or a snapshot: what it is, is told from its content
    #[arg(required_unless_present = "scenario")]
    pub file: Option<PathBuf>,

    /// A scenario instead of a file; `list` names them
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    pub scenario: Option<String>,

    /// The seed of the scenario: the same seed, the same requests [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "file")]
    pub seed: Option<u64>,

    /// The device's memory [default: of a snapshot with an out-of-memory error what the error says, of a scenario its own,
    /// else 80GiB]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,

    /// Settings, PyTorch's and Millpond's [default: of a snapshot the recorded ones, else PyTorch's defaults]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    pub conf: Option<String>,

    /// When events complete [default: of a scenario its own, else immediate]
    #[arg(long, value_enum, value_name = "MODE")]
    pub events: Option<Events>,

    /// Stop after request N of a workload, trace event N of a snapshot, counted from 0
    #[arg(long, value_name = "N")]
    pub until: Option<u64>,

    /// Memory of the device that others use [default: of a scenario its own, else none]
    #[arg(long, value_name = "SIZE")]
    pub others: Option<Bytes>,

    /// Which device of a snapshot [default: the first]
    #[arg(long, visible_alias = "device-index", value_name = "INDEX")]
    pub device: Option<usize>,

    /// Check every use of memory by the work of a workload; exit status 1 if two uses are not in order
    #[arg(long)]
    pub hazards: bool,

    /// A claim about a figure of the JSON answer, such as 'peak_reserved < 70GiB'; exit status 1 if it does not hold
    #[arg(long = "assert", value_name = "CLAIM")]
    pub claims: Vec<String>,

    /// Answer with one JSON object
    #[arg(long)]
    pub json: bool,

    /// Let packed files unpack to more than 64 times their size
    #[arg(long)]
    pub allow_expansion: bool,
}

/// When events complete, as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Events {
    /// As soon as they are recorded
    Immediate,
    /// When a request of the workload says so
    Manual,
}

impl Events {
    /// The simulated device's mode.
    pub fn mode(self) -> EventMode {
        match self {
            Events::Immediate => EventMode::Immediate,
            Events::Manual => EventMode::Manual,
        }
    }
}

impl Args {
    /// The settings of `--conf`, if it is given.
    pub fn settings(&self) -> Result<Option<Settings>, Failure> {
        let Some(conf) = &self.conf else { return Ok(None) };
        match Settings::written(conf) {
            Ok((settings, _)) => Ok(Some(settings)),
            Err(error) => Err(Failure::setting("--conf", &error)),
        }
    }

    /// The claims of `--assert`.
    pub fn assertions(&self) -> Result<Vec<Assertion>, Failure> {
        let parsed = self.claims.iter().map(|claim| claim.parse());
        parsed.map(|claim| claim.map_err(not_understood)).collect()
    }
}

/// That there is something left of a device that others share.
pub fn check_capacity(capacity: Bytes, others: Bytes) -> Result<(), Failure> {
    const GRANULE: Bytes = Bytes(2 << 20);
    if capacity < GRANULE {
        let message = format!("a device of {capacity} has no memory: it is handed out in pieces of {GRANULE}");
        return Err(Failure::new(Code::BadMachine, message).help("give a --capacity of 2MiB or more"));
    }
    if others >= capacity {
        let message = format!("others use {others} of {capacity}, so nothing is left");
        return Err(Failure::new(Code::BadMachine, message).help("give a larger --capacity or smaller --others"));
    }
    Ok(())
}

/// A claim that cannot be understood or decided.
pub fn not_understood(error: AssertionError) -> Failure {
    Failure::new(Code::BadAssertion, error.to_string())
}
