//! A workload: requests, one a line.

use millpond::config::Settings;
use millpond_driver::{Bytes, Device};
use millpond_replay::workload::ReadOptions;
use millpond_replay::{Account, Machine, Op, Setup, Workload, WorkloadRun, account};
use millpond_report::replay::{EventMode, Kind, Replayed};

use super::{Answer, Args, tell};
use crate::codes::Code;
use crate::content::Whole;
use crate::failure::{Failure, Stop};
use crate::progress::Progress;
use crate::shell::Shell;
use crate::verbs::replay::args::Events;

/// A device of this memory, unless something else is said.
const CAPACITY: Bytes = Bytes(80 << 30);

/// Replays the requests of a file.
pub fn of_file(args: &Args, whole: Whole, shell: &mut Shell) -> Result<Answer, Stop> {
    let options = match args.allow_expansion {
        true => ReadOptions { unpack_factor: None },
        false => ReadOptions::default(),
    };
    let workload = Workload::read(whole, options).map_err(|error| Failure::workload(&args.file, &error))?;
    let source = args.file.display().to_string();
    replay(args, &workload, Source { name: &source, kind: Kind::Workload, seed: None }, shell)
}

/// Where requests come from.
struct Source<'a> {
    name: &'a str,
    kind: Kind,
    seed: Option<u64>,
}

fn replay(args: &Args, workload: &Workload, source: Source<'_>, shell: &mut Shell) -> Result<Answer, Stop> {
    let settings = args.settings()?.unwrap_or_default();
    let capacity = args.capacity.unwrap_or(CAPACITY);
    args.check_capacity(capacity)?;
    let events = args.events.unwrap_or(Events::Immediate);
    if events == Events::Immediate
        && workload.ops.iter().any(|op| matches!(op, Op::Advance { .. } | Op::Complete { .. }))
    {
        shell.note(
            "the workload says when events complete, but they complete as soon as they are recorded; --events manual leaves \
             it to the workload",
        );
    }
    if args.device.is_some() {
        shell.note("--device is about snapshots; the figures are those of device 0");
    }
    let account = run(args, workload, &settings, capacity, events, shell);
    let Account { ledger, at_peak } = account.map_err(|failure| failure.of(source.name))?;
    let replayed = Replayed {
        ledger: &ledger,
        source: source.name,
        kind: source.kind,
        device: 0,
        capacity,
        others: args.others,
        settings: &settings,
        event_mode: match events {
            Events::Immediate => EventMode::Immediate,
            Events::Manual => EventMode::Manual,
        },
        trust: None,
        seed: source.seed,
    };
    tell(args, &replayed, &at_peak, shell)
}

fn run(
    args: &Args,
    workload: &Workload,
    settings: &Settings,
    capacity: Bytes,
    events: Events,
    shell: &Shell,
) -> Result<Account, Failure> {
    let setup = Setup {
        capacity,
        others: args.others,
        events: events.mode(),
        settings: settings.clone(),
        devices: workload.devices(),
        ..Setup::default()
    };
    let fresh = || {
        let machine = Machine::new(&setup).map_err(|error| Failure::new(Code::BadMachine, error.to_string()))?;
        Ok(WorkloadRun::new(workload, &machine))
    };
    let requests = args.until.map_or(u64::MAX, |until| until.saturating_add(1)).min(workload.ops.len() as u64);
    // A run for the peaks, and one for when they were.
    let progress = Progress::new(shell, requests * 2, "requests");
    account(fresh, Device(0), args.until, |made| progress.at(made))
}
