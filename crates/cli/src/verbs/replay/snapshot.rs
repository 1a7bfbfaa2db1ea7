//! A snapshot: the requests of its trace, from the state in which the trace began.

use std::path::Path;

use millpond::TieOrder;
use millpond_driver::Device;
use millpond_replay::snapshot::{Conditions, Recording, SnapshotRun, trust};
use millpond_replay::{Account, Machine, Outcome, OwnCalls, Program, RunError, account};
use millpond_report::replay::{EventMode, Kind, Replayed, Trust};
use millpond_snapshot::Snapshot;

use super::{Answer, Args, tell};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened;
use crate::options::check_capacity;
use crate::progress::Progress;
use crate::shell::Shell;

/// Replays one device of a snapshot.
pub fn replay(args: &Args, path: &Path, snapshot: &Snapshot, shell: &mut Shell) -> Result<Answer, Stop> {
    let recording = opened::recording(path, snapshot, args.source.device_index, shell)?;
    if args.source.device.events.is_some() {
        shell.note("--events is about workloads; a snapshot's trace says when blocks were free again");
    }
    if args.hazards {
        shell.note("--hazards is about workloads; a snapshot does not say who uses memory, or when");
    }
    if recording.requests.is_empty() {
        shell.note("the snapshot has no trace, so its state is taken up and nothing is requested");
    }
    let trust = trust(&recording).map_err(|error| cannot(path, "its start state cannot be taken up", &error))?;
    let conditions = conditions(args, &recording, trust.tie_order)?;
    let Account { ledger, at_peak, .. } = account_of(args, path, &recording, &conditions, shell)?;
    let source = path.display().to_string();
    let replayed = Replayed {
        ledger: &ledger,
        source: &source,
        kind: Kind::Snapshot,
        device: u32::try_from(recording.device).unwrap_or(u32::MAX),
        capacity: conditions.capacity,
        others: conditions.others,
        settings: &conditions.settings,
        event_mode: EventMode::Recorded,
        trust: Some(Trust {
            decisions: trust.decisions,
            reproduced: trust.reproduced,
            tie_order: match trust.tie_order {
                TieOrder::Registration => "registration",
                TieOrder::Address => "address",
            },
        }),
        seed: None,
        hazards: None,
    };
    tell(args, &replayed, &at_peak, shell)
}

/// The recorded conditions, with what is asked for over them. Whole, with recorded placement, only under the recorded settings.
fn conditions(args: &Args, recording: &Recording<'_>, tie_order: TieOrder) -> Result<Conditions, Failure> {
    let mut conditions = recording.conditions(tie_order);
    conditions.capacity = args.source.device.capacity.unwrap_or(conditions.capacity);
    conditions.others = args.source.device.others.unwrap_or_default();
    if let Some(settings) = args.settings()? {
        conditions.as_recorded = settings == recording.settings;
        conditions.settings = settings;
    }
    check_capacity(conditions.capacity, conditions.others)?;
    Ok(conditions)
}

fn account_of(
    args: &Args,
    path: &Path,
    recording: &Recording<'_>,
    conditions: &Conditions,
    shell: &Shell,
) -> Result<Account, Failure> {
    let is_wanted = |entry: usize| args.extent.until.is_none_or(|until| entry as u64 <= until);
    let requests = recording.requests.iter().take_while(|recorded| is_wanted(recorded.entry)).count();
    let fresh = || {
        let run = SnapshotRun::new(recording, conditions);
        let run = run.map_err(|error| {
            let failure = cannot(path, "the blocks that were in use when the trace began do not fit", &error);
            failure.help("give a larger --capacity, or other settings")
        })?;
        Ok::<_, Failure>(Trace { run, left: requests })
    };
    // A run for the peaks, and one for when they were.
    let progress = Progress::new(shell, requests as u64 * 2, "requests");
    account(fresh, Device(0), None, |made| progress.at(made))
}

fn cannot(path: &Path, what: &str, error: &millpond_replay::Failure) -> Failure {
    Failure::at(Code::CannotReplay, path, format!("{what}: {error}"))
}

/// The first requests of a trace, as a program.
struct Trace<'r> {
    run: SnapshotRun<'r>,
    left: usize,
}

impl Program for Trace<'_> {
    fn machine(&self) -> &Machine {
        self.run.machine()
    }

    fn next_request(&mut self) -> Result<Option<Outcome>, RunError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        Ok(self.run.step().map(|(_, outcome)| outcome))
    }

    fn own_calls(&self) -> OwnCalls {
        OwnCalls { stream_syncs: self.run.own_stream_syncs, ..OwnCalls::default() }
    }
}
