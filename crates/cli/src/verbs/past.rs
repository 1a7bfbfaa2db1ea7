//! What `view` and `export` look at: the past of devices, as a snapshot recorded it or as replays write it.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use millpond::config::Settings;
use millpond_doctor::{Known, examine};
use millpond_driver::Bytes;
use millpond_replay::snapshot::{Recording, SnapshotRun, devices, trust};
use millpond_replay::workload::ReadOptions;
use millpond_replay::{Machine, Scenario, Setup, Workload, WorkloadRun};
use millpond_report::doctor as shown;
use millpond_sim::EventMode;
use millpond_snapshot::{LoadOptions, Snapshot, StackId, Stacks};
use millpond_viewer::timeline::{Origin, recorded, replayed};
use millpond_viewer::{Counted, Kind, Mark, Page, Panel, Verdict};

use super::replay::{Events, check_capacity, unknown_scenario};
use crate::codes::Code;
use crate::content::{self, Content, Whole};
use crate::failure::{Failure, Stop};

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// A workload or a snapshot: what it is, is told from its content
    #[arg(required_unless_present = "scenario")]
    file: Option<PathBuf>,

    /// A scenario instead of a file; `millpond replay --scenario list` names them
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    scenario: Option<String>,

    /// The seed of the scenario: the same seed, the same requests [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "file")]
    seed: Option<u64>,

    /// Replay under these settings; may be repeated. A snapshot needs none: it is shown as it was recorded [default of a
    /// workload: PyTorch's defaults]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    pub conf: Vec<String>,

    /// The device's memory in replays [default: as for `millpond replay`]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,

    /// Memory of the device that others use in replays [default: of a scenario its own, else none]
    #[arg(long, value_name = "SIZE")]
    others: Option<Bytes>,

    /// When events complete in replays of workloads [default: of a scenario its own, else immediate]
    #[arg(long, value_enum, value_name = "MODE")]
    pub events: Option<Events>,

    /// Which device of a snapshot [default: all]
    #[arg(long, value_name = "INDEX")]
    device: Option<usize>,

    /// Let packed files unpack to more than 64 times their size
    #[arg(long)]
    pub allow_expansion: bool,
}

/// The past, with what it refers to.
pub struct Past {
    source: String,
    counted: Counted,
    panels: Vec<Panel>,
    stacks: Stacks,
}

impl Past {
    /// As a page has it.
    pub fn page(self, show: impl FnOnce(&Page<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let Past { source, counted, panels, stacks } = self;
        show(&Page { source: &source, counted, panels, stacks: &stacks })
    }

    /// Whether a device stands there under several settings.
    pub fn repeats_a_device(&self) -> bool {
        let mut devices: Vec<u32> = self.panels.iter().map(|panel| panel.device).collect();
        devices.sort_unstable();
        devices.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Its runs.
    pub fn runs(&self) -> usize {
        self.panels.len()
    }
}

/// Whether the recording is wanted beside replays of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// First the recording, then the replays.
    Recording,
    /// The replays alone, if there are any.
    Nothing,
}

/// Reads, and replays what is to be replayed.
pub fn look(args: &Args, beside: Beside) -> Result<Past, Stop> {
    let settings = args.settings()?;
    let Some(path) = &args.file else { return Ok(of_scenario(args, &settings)?) };
    match content::of(path)? {
        Content::Workload(whole) => Ok(of_workload(args, path, whole, &settings)?),
        Content::Snapshot(whole) => Ok(of_snapshot(args, path, whole, &settings, beside)?),
    }
}

impl Args {
    /// A file, and nothing else said.
    pub fn of(path: &Path) -> Self {
        Args {
            file: Some(path.to_owned()),
            scenario: None,
            seed: None,
            conf: Vec::new(),
            capacity: None,
            others: None,
            events: None,
            device: None,
            allow_expansion: false,
        }
    }

    fn settings(&self) -> Result<Vec<Settings>, Failure> {
        let written = |conf: &String| match Settings::written(conf) {
            Ok((settings, _)) => Ok(settings),
            Err(error) => Err(Failure::setting("--conf", &error)),
        };
        self.conf.iter().map(written).collect()
    }
}

fn of_scenario(args: &Args, settings: &[Settings]) -> Result<Past, Failure> {
    let name = args.scenario.as_deref().unwrap_or_default();
    let scenario = Scenario::named(name).map_err(|error| unknown_scenario(name, error.to_string()))?;
    let setup = Setup {
        capacity: args.capacity.unwrap_or(scenario.capacity()),
        others: args.others.unwrap_or(scenario.others()),
        events: args.events.map_or(scenario.events, Events::mode),
        ..Setup::default()
    };
    let workload = scenario.workload(args.seed.unwrap_or(0));
    of_requests(&workload, scenario.name.to_owned(), &setup, settings)
}

fn of_workload(args: &Args, path: &Path, whole: Whole, settings: &[Settings]) -> Result<Past, Failure> {
    let options = match args.allow_expansion {
        true => ReadOptions { unpack_factor: None },
        false => ReadOptions::default(),
    };
    let workload = Workload::read(whole, options).map_err(|error| Failure::workload(path, &error))?;
    let setup = Setup {
        capacity: args.capacity.unwrap_or(Setup::default().capacity),
        others: args.others.unwrap_or_default(),
        events: args.events.map_or(EventMode::Immediate, Events::mode),
        ..Setup::default()
    };
    of_requests(&workload, path.display().to_string(), &setup, settings)
}

fn of_requests(workload: &Workload, source: String, setup: &Setup, all: &[Settings]) -> Result<Past, Failure> {
    check_capacity(setup.capacity, setup.others)?;
    let default = [Settings::default()];
    let mut panels = Vec::new();
    for settings in if all.is_empty() { &default[..] } else { all } {
        let setup = Setup { settings: settings.clone(), devices: workload.devices(), ..setup.clone() };
        let machine = Machine::new(&setup).map_err(|error| Failure::new(Code::BadMachine, error.to_string()))?;
        let origin = |request: u64| Some(Origin { at: u32::try_from(request).ok()?, ..Origin::default() });
        let mut run = WorkloadRun::new(workload, &machine);
        let timelines =
            replayed(&mut run, |_| StackId::EMPTY, origin).map_err(|error| Failure::from(error).of(&source))?;
        let panel = |(device, timeline)| Panel {
            kind: Kind::Replay,
            device,
            conf: settings.text.clone(),
            capacity: Some(setup.capacity),
            others: setup.others,
            timeline,
            verdict: None,
        };
        panels.extend((0..).zip(timelines).map(panel));
    }
    Ok(Past { source, counted: Counted::Requests, panels, stacks: Stacks::default() })
}

fn of_snapshot(args: &Args, path: &Path, whole: Whole, all: &[Settings], beside: Beside) -> Result<Past, Failure> {
    let mut snapshot = read(args, path, whole)?;
    let wanted = match args.device {
        Some(device) => vec![device],
        None => devices(&snapshot),
    };
    if wanted.is_empty() {
        let message = "the snapshot holds no segments and no trace, so there is nothing to show";
        return Err(Failure::at(Code::CannotReplay, path, message));
    }
    let mut panels = Vec::new();
    for device in wanted {
        let recording =
            Recording::new(&snapshot, device).map_err(|error| Failure::at(Code::CannotReplay, path, error))?;
        if all.is_empty() || beside == Beside::Recording {
            panels.push(Panel {
                kind: Kind::Recording,
                device: device as u32,
                conf: recording.settings.text.clone(),
                // Without an error nothing in the file says how much memory there was.
                capacity: recording.first_oom.map(|_| recording.capacity()),
                others: Bytes(0),
                timeline: recorded(&recording),
                verdict: verdict(&recording),
            });
        }
        for settings in all {
            panels.push(replay(args, path, &recording, settings)?);
        }
    }
    let stacks = std::mem::take(&mut snapshot.stacks);
    Ok(Past { source: path.display().to_string(), counted: Counted::Entries, panels, stacks })
}

/// Why it ran out, linked to the place: the request that failed, and the blocks that are in its way.
fn verdict(recording: &Recording<'_>) -> Option<Verdict> {
    recording.first_oom?;
    let found = examine(recording, Known::default());
    let relief = found.verdict.relief.iter().flat_map(|relief| &relief.blocks).map(|block| (block, "would have to go"));
    let pinning = found.account.causes.iter().flat_map(|cause| &cause.blocks).map(|block| (block, "pins free bytes"));
    let mut marks: Vec<Mark> = Vec::new();
    for (block, label) in relief.chain(pinning) {
        if !marks.iter().any(|mark| mark.addr == block.address) {
            marks.push(Mark { addr: block.address, size: block.size, label: label.to_owned() });
        }
    }
    let mut text = shown::sentences(&found);
    text.push("`millpond doctor` says which settings would have fitted.".to_owned());
    Some(Verdict { at: found.moment.entry? as u64, title: shown::title(&found).to_owned(), text, marks })
}

fn read(args: &Args, path: &Path, mut whole: Whole) -> Result<Snapshot, Failure> {
    let mut bytes = Vec::new();
    whole.read_to_end(&mut bytes).map_err(|error| Failure::unreadable(path, &error))?;
    let options = LoadOptions::default().allow_expansion(args.allow_expansion);
    options.read(&bytes).map_err(|error| Failure::snapshot(path, &error))
}

/// The requests of a trace under other settings, with the stacks of the recording.
fn replay(args: &Args, path: &Path, recording: &Recording<'_>, settings: &Settings) -> Result<Panel, Failure> {
    let cannot = |error| Failure::at(Code::CannotReplay, path, format!("its start state does not fit: {error}"));
    let mut conditions = recording.conditions(trust(recording).map_err(cannot)?.tie_order);
    conditions.as_recorded = *settings == recording.settings;
    conditions.settings = settings.clone();
    conditions.capacity = args.capacity.unwrap_or(conditions.capacity);
    conditions.others = args.others.unwrap_or_default();
    check_capacity(conditions.capacity, conditions.others)?;
    let mut run = SnapshotRun::new(recording, &conditions).map_err(cannot)?;
    let known = recording.start_stacks();
    let ours: HashMap<u64, StackId> =
        run.live().filter_map(|(recorded, ours)| Some((ours, *known.get(&recorded)?))).collect();
    let trace = recording.snapshot.trace(recording.device);
    let origin = |request: u64| {
        let entry = recording.requests.get(usize::try_from(request).ok()?)?.entry;
        let stack = trace.get(entry)?.stack.unwrap_or_default();
        Some(Origin { at: u32::try_from(entry).ok()?, stack })
    };
    let timelines = replayed(&mut run, |addr| ours.get(&addr).copied().unwrap_or_default(), origin)?;
    Ok(Panel {
        kind: Kind::Replay,
        device: recording.device as u32,
        conf: settings.text.clone(),
        capacity: Some(conditions.capacity),
        others: conditions.others,
        timeline: timelines.into_iter().next().unwrap_or_default(),
        verdict: None,
    })
}
