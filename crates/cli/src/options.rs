//! Options that several verbs take, spelt once.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use millpond_driver::Bytes;
use millpond_sim::EventMode;

use crate::codes::Code;
use crate::failure::Failure;

/// Where requests come from, and what they are made on.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Source {
    /// A workload or a snapshot: what it is, is told from its content
    #[arg(required_unless_present = "scenario")]
    pub file: Option<PathBuf>,

    /// A scenario instead of a file; `millpond replay --scenario list` names them
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    pub scenario: Option<String>,

    /// The seed of the scenario: the same seed, the same requests [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "file")]
    pub seed: Option<u64>,

    /// Which device of a snapshot [default: the first; `view` and `export` take all]
    #[arg(long, visible_alias = "device", value_name = "INDEX")]
    pub device_index: Option<usize>,

    #[command(flatten)]
    pub device: Device,

    #[command(flatten)]
    pub packing: Packing,
}

impl Source {
    /// A file, and nothing else said.
    pub fn of(path: &Path) -> Self {
        Source { file: Some(path.to_owned()), ..Source::default() }
    }
}

/// The simulated device of replays.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Device {
    /// The device's memory [default: what an out-of-memory error in a snapshot says, a scenario's own, else 80GiB]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,

    /// Of that, what others take: contexts, communication, other processes [default: a scenario's own, else none]
    #[arg(long, value_name = "SIZE")]
    pub others: Option<Bytes>,

    /// When the events of workloads complete [default: a scenario's own, else immediate]
    #[arg(long, value_enum, value_name = "MODE")]
    pub events: Option<Events>,
}

/// How far a replay goes.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Extent {
    /// Stop after request N of a workload, trace event N of a snapshot, counted from 0
    #[arg(long, value_name = "N")]
    pub until: Option<u64>,
}

/// How packed files are taken.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Packing {
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
