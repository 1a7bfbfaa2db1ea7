//! What `view` and `export` look at: the past of devices, as a snapshot recorded it or as replays write it.

use std::collections::HashMap;
use std::path::Path;

use millpond::config::Settings;
use millpond_doctor::{Known, examine};
use millpond_driver::Bytes;
use millpond_replay::snapshot::{Recording, SnapshotRun, devices, trust};
use millpond_replay::{Machine, Setup, WorkloadRun};
use millpond_report::doctor as shown;
use millpond_snapshot::{Snapshot, StackId, Stacks};
use millpond_viewer::timeline::{Origin, recorded, replayed};
use millpond_viewer::{Counted, Kind, Mark, Page, Panel, Verdict};

use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::{self, Opened, Work};
use crate::options::{Device, Extent, Source, check_capacity};

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub source: Source,

    /// Replay under these settings; may be repeated. A snapshot needs none: it is shown as it was recorded [default of a
    /// workload: PyTorch's defaults]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    pub conf: Vec<String>,

    #[command(flatten)]
    pub extent: Extent,
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

    /// Forgets what came after a request or an entry.
    fn cut(&mut self, until: u64) {
        for panel in &mut self.panels {
            panel.timeline.cut(until);
            panel.verdict.take_if(|verdict| verdict.at > until);
        }
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
    let mut past = match opened::open(&args.source)? {
        Opened::Work(work) => of_work(work, &settings)?,
        Opened::Snapshot { path, snapshot } => of_snapshot(&args.source, &path, snapshot, &settings, beside)?,
    };
    if let Some(until) = args.extent.until {
        past.cut(until);
    }
    Ok(past)
}

impl Args {
    fn settings(&self) -> Result<Vec<Settings>, Failure> {
        let written = |conf: &String| match Settings::written(conf) {
            Ok((settings, _)) => Ok(settings),
            Err(error) => Err(Failure::setting("--conf", &error)),
        };
        self.conf.iter().map(written).collect()
    }
}

fn of_work(work: Work, all: &[Settings]) -> Result<Past, Failure> {
    let Work { name, workload, setup, .. } = work;
    let default = [Settings::default()];
    let mut panels = Vec::new();
    for settings in if all.is_empty() { &default[..] } else { all } {
        let setup = Setup { settings: settings.clone(), ..setup.clone() };
        let machine = Machine::new(&setup).map_err(|error| Failure::new(Code::BadMachine, error.to_string()))?;
        let origin = |request: u64| Some(Origin { at: u32::try_from(request).ok()?, ..Origin::default() });
        let mut run = WorkloadRun::new(&workload, &machine);
        let timelines =
            replayed(&mut run, |_| StackId::EMPTY, origin).map_err(|error| Failure::from(error).of(&name))?;
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
    Ok(Past { source: name, counted: Counted::Requests, panels, stacks: Stacks::default() })
}

fn of_snapshot(
    source: &Source,
    path: &Path,
    mut snapshot: Snapshot,
    all: &[Settings],
    beside: Beside,
) -> Result<Past, Failure> {
    let wanted = match source.device_index {
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
            panels.push(replay(source.device, path, &recording, settings)?);
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

/// The requests of a trace under other settings, with the stacks of the recording.
fn replay(device: Device, path: &Path, recording: &Recording<'_>, settings: &Settings) -> Result<Panel, Failure> {
    let cannot = |error| Failure::at(Code::CannotReplay, path, format!("its start state does not fit: {error}"));
    let mut conditions = recording.conditions(trust(recording).map_err(cannot)?.tie_order);
    conditions.as_recorded = *settings == recording.settings;
    conditions.settings = settings.clone();
    conditions.capacity = device.capacity.unwrap_or(conditions.capacity);
    conditions.others = device.others.unwrap_or_default();
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
