//! What a verb works on, opened: a workload, a scenario or a snapshot, with errors in the program's own words.

use std::io::Read;
use std::path::{Path, PathBuf};

use millpond_doctor::{Conf, Requests};
use millpond_driver::Bytes;
use millpond_replay::snapshot::{Recording, devices, trust};
use millpond_replay::workload::ReadOptions;
use millpond_replay::{SCENARIOS, Scenario, Setup, Workload};
use millpond_report::replay::Kind;
use millpond_sim::EventMode;
use millpond_snapshot::{LoadOptions, Snapshot};

use crate::codes::Code;
use crate::content::{self, Content, Whole};
use crate::failure::{Failure, Stop};
use crate::options::{Events, Packing, Source, check_capacity};
use crate::shell::Shell;

/// What was opened.
#[expect(clippy::large_enum_variant, reason = "a run has one of it")]
pub enum Opened {
    /// Requests without a past.
    Work(Work),
    /// A state, and the trace that led to it.
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What it holds.
        snapshot: Snapshot,
    },
}

/// A workload or a scenario, and the device that it is made on: [`Setup`] but for the settings.
pub struct Work {
    /// The file, or the scenario.
    pub name: String,
    /// Which of the two.
    pub kind: Kind,
    /// The seed of a scenario.
    pub seed: Option<u64>,
    /// The requests.
    pub workload: Workload,
    /// The device.
    pub setup: Setup,
}

/// Opens whatever the source is.
pub fn open(source: &Source) -> Result<Opened, Failure> {
    let Some(path) = &source.file else { return Ok(Opened::Work(scenario(source)?)) };
    match content::of(path)? {
        Content::Workload(whole) => Ok(Opened::Work(workload(source, path, whole)?)),
        Content::Snapshot(whole) => {
            let snapshot = snapshot(path, whole, source.packing)?;
            Ok(Opened::Snapshot { path: path.clone(), snapshot })
        }
    }
}

/// A workload's device, unless something else is said.
const CAPACITY: Bytes = Bytes(80 << 30);

fn workload(source: &Source, path: &Path, whole: Whole) -> Result<Work, Failure> {
    let options = match source.packing.allow_expansion {
        true => ReadOptions { unpack_factor: None },
        false => ReadOptions::default(),
    };
    let workload = Workload::read(whole, options).map_err(|error| Failure::workload(path, &error))?;
    let own = (CAPACITY, Bytes(0), EventMode::Immediate);
    Ok(Work {
        name: path.display().to_string(),
        kind: Kind::Workload,
        seed: None,
        setup: setup(source, &workload, own)?,
        workload,
    })
}

fn scenario(source: &Source) -> Result<Work, Failure> {
    let name = source.scenario.as_deref().unwrap_or_default();
    let scenario = Scenario::named(name).map_err(|error| unknown_scenario(name, error.to_string()))?;
    let seed = source.seed.unwrap_or(0);
    let workload = scenario.workload(seed);
    let own = (scenario.capacity(), scenario.others(), scenario.events);
    Ok(Work {
        name: scenario.name.to_owned(),
        kind: Kind::Scenario,
        seed: Some(seed),
        setup: setup(source, &workload, own)?,
        workload,
    })
}

/// What is asked for, over what the source has of its own.
fn setup(source: &Source, workload: &Workload, own: (Bytes, Bytes, EventMode)) -> Result<Setup, Failure> {
    let asked = source.device;
    let (capacity, others) = (asked.capacity.unwrap_or(own.0), asked.others.unwrap_or(own.1));
    check_capacity(capacity, others)?;
    let events = asked.events.map_or(own.2, Events::mode);
    Ok(Setup { capacity, others, events, devices: workload.devices(), ..Setup::default() })
}

/// Nobody knows all names by heart: the one that begins alike is probably meant.
fn unknown_scenario(name: &str, message: String) -> Failure {
    let alike = |scenario: &&Scenario| scenario.name.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let failure = Failure::new(Code::UnknownScenario, message);
    match SCENARIOS.iter().max_by_key(alike).filter(|scenario| alike(scenario) >= 2) {
        Some(scenario) => failure.help(format!("did you mean '{}'?", scenario.name)),
        None => failure.help("`millpond replay --scenario list` says what each does"),
    }
}

/// Reads a snapshot.
pub fn snapshot(path: &Path, mut whole: Whole, packing: Packing) -> Result<Snapshot, Failure> {
    let mut bytes = Vec::new();
    whole.read_to_end(&mut bytes).map_err(|error| Failure::unreadable(path, &error))?;
    let options = LoadOptions::default().allow_expansion(packing.allow_expansion);
    options.read(&bytes).map_err(|error| Failure::snapshot(path, &error))
}

/// The device asked for, or the first.
pub fn recording<'s>(
    path: &Path,
    snapshot: &'s Snapshot,
    device: Option<usize>,
    shell: &mut Shell,
) -> Result<Recording<'s>, Failure> {
    let known = devices(snapshot);
    let Some(&first) = known.first() else {
        let message = "the snapshot holds no segments and no trace, so there is nothing to replay";
        return Err(Failure::at(Code::CannotReplay, path, message));
    };
    if known.len() > 1 && device.is_none() {
        let all: Vec<String> = known.iter().map(usize::to_string).collect();
        let all = all.join(", ");
        shell.note(&format!("the snapshot has devices {all}; this is {first}, --device-index chooses another"));
    }
    Recording::new(snapshot, device.unwrap_or(first)).map_err(|error| Failure::at(Code::CannotReplay, path, error))
}

/// Requests to try settings on, with the settings they were recorded under and the device they are made on.
pub struct Trials<'a> {
    /// The file, or the scenario.
    pub name: String,
    /// The requests.
    pub requests: Requests<'a>,
    /// The settings they were recorded under.
    pub recorded: Conf,
    /// The device's memory.
    pub capacity: Bytes,
    /// Of that, what others take.
    pub others: Bytes,
}

/// Opens whatever the source is, and does something with its requests.
pub fn requests<R>(
    source: &Source,
    shell: &mut Shell,
    act: impl FnOnce(Trials<'_>, &mut Shell) -> Result<R, Stop>,
) -> Result<R, Stop> {
    match open(source)? {
        Opened::Work(Work { name, workload, setup, .. }) => {
            let requests = Requests::Workload { workload: &workload, events: setup.events };
            let Setup { capacity, others, .. } = setup;
            act(Trials { name, requests, recorded: Conf::default(), capacity, others }, shell)
        }
        Opened::Snapshot { path, snapshot } => {
            let recording = recording(&path, &snapshot, source.device_index, shell)?;
            let trust = trust(&recording).map_err(|error| {
                Failure::at(Code::CannotReplay, &path, format!("its start state cannot be taken up: {error}"))
            })?;
            let requests = Requests::Snapshot { recording: &recording, tie_order: trust.tie_order };
            let recorded = Conf::recorded(&recording.settings);
            let capacity = source.device.capacity.unwrap_or_else(|| recording.capacity());
            let others = source.device.others.unwrap_or_default();
            check_capacity(capacity, others)?;
            act(Trials { name: path.display().to_string(), requests, recorded, capacity, others }, shell)
        }
    }
}
