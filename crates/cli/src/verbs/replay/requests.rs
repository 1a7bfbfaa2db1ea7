//! Requests on a device, wherever they come from.

use millpond_driver::{Bytes, Device};
use millpond_replay::{Account, Machine, Op, Setup, Workload, WorkloadRun, account};
use millpond_report::replay as shown;
use millpond_sim::EventMode;

use super::args::check_capacity;
use super::{Answer, Args, tell};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::progress::Progress;
use crate::shell::Shell;

/// Where requests come from, and the device they are made on.
pub struct Source<'a> {
    pub name: &'a str,
    pub kind: shown::Kind,
    pub seed: Option<u64>,
    pub capacity: Bytes,
    pub others: Bytes,
    pub events: EventMode,
}

/// Makes the requests and tells what came of them.
pub fn replay(args: &Args, workload: &Workload, source: &Source<'_>, shell: &mut Shell) -> Result<Answer, Stop> {
    let Source { name, kind, seed, capacity, others, events } = *source;
    check_capacity(capacity, others)?;
    if args.device.is_some() {
        shell.note("--device is about snapshots; the figures are those of device 0");
    }
    if args.hazards && !workload.ops.iter().any(|op| matches!(op, Op::Launch(_) | Op::Work { .. })) {
        shell.note("--hazards is about 'launch' and 'work' requests, and there are none");
    }
    let settings = args.settings()?.unwrap_or_default();
    let devices = workload.devices();
    let setup = Setup { capacity, others, events, settings, devices, hazards: args.hazards, ..Setup::default() };
    let Account { ledger, at_peak, hazards } =
        run(args, workload, &setup, shell).map_err(|failure| failure.of(name))?;
    let replayed = shown::Replayed {
        ledger: &ledger,
        source: name,
        kind,
        device: 0,
        capacity,
        others,
        settings: &setup.settings,
        event_mode: match events {
            EventMode::Immediate => shown::EventMode::Immediate,
            EventMode::Manual | EventMode::Timed => shown::EventMode::Manual,
        },
        trust: None,
        seed,
        hazards: args.hazards.then_some(&hazards[..]),
    };
    tell(args, &replayed, &at_peak, shell)
}

fn run(args: &Args, workload: &Workload, setup: &Setup, shell: &Shell) -> Result<Account, Failure> {
    let fresh = || {
        let machine = Machine::new(setup).map_err(|error| Failure::new(Code::BadMachine, error.to_string()))?;
        Ok(WorkloadRun::new(workload, &machine))
    };
    let requests = args.until.map_or(u64::MAX, |until| until.saturating_add(1)).min(workload.ops.len() as u64);
    // A run for the peaks, and one for when they were.
    let progress = Progress::new(shell, requests * 2, "requests");
    account(fresh, Device(0), args.until, |made| progress.at(made))
}
