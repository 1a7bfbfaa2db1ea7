//! Requests without a past: a workload or a scenario.

use millpond_driver::Device;
use millpond_replay::{Account, Machine, Op, Setup, Workload, WorkloadRun, account};
use millpond_report::replay as shown;
use millpond_sim::EventMode;

use super::{Answer, Args, tell};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::Work;
use crate::progress::Progress;
use crate::shell::Shell;

/// Makes the requests and tells what came of them.
pub fn replay(args: &Args, work: &Work, shell: &mut Shell) -> Result<Answer, Stop> {
    let Work { name, kind, seed, workload, setup } = work;
    remark(args, work, shell);
    let settings = args.settings()?.unwrap_or_default();
    let setup = Setup { settings, hazards: args.hazards, ..setup.clone() };
    let Account { ledger, at_peak, hazards } =
        run(args, workload, &setup, shell).map_err(|failure| failure.of(name))?;
    let replayed = shown::Replayed {
        ledger: &ledger,
        source: name,
        kind: *kind,
        device: 0,
        capacity: setup.capacity,
        others: setup.others,
        settings: &setup.settings,
        event_mode: match setup.events {
            EventMode::Immediate => shown::EventMode::Immediate,
            EventMode::Manual | EventMode::Timed => shown::EventMode::Manual,
        },
        trust: None,
        seed: *seed,
        hazards: args.hazards.then_some(&hazards[..]),
    };
    tell(args, &replayed, &at_peak, shell)
}

/// What was asked for and does nothing here, or is there and was not asked for.
fn remark(args: &Args, work: &Work, shell: &mut Shell) {
    let has = |wanted: fn(&Op) -> bool| work.workload.ops.iter().any(wanted);
    let completes = |op: &Op| matches!(op, Op::Advance { .. } | Op::Complete { .. });
    if work.kind == shown::Kind::Workload && args.source.device.events.is_none() && has(completes) {
        shell.note(
            "the workload says when events complete, but here they complete as soon as they are recorded; --events manual \
             leaves it to the workload, --events immediate leaves this note out",
        );
    }
    if args.source.device_index.is_some() {
        shell.note("--device-index is about snapshots; the figures are those of device 0");
    }
    if args.hazards && !has(|op| matches!(op, Op::Launch(_) | Op::Work { .. })) {
        shell.note("--hazards is about 'launch' and 'work' requests, and there are none");
    }
}

fn run(args: &Args, workload: &Workload, setup: &Setup, shell: &Shell) -> Result<Account, Failure> {
    let fresh = || {
        let machine = Machine::new(setup).map_err(|error| Failure::new(Code::BadMachine, error.to_string()))?;
        Ok(WorkloadRun::new(workload, &machine))
    };
    let until = args.extent.until;
    let requests = until.map_or(u64::MAX, |until| until.saturating_add(1)).min(workload.ops.len() as u64);
    // A run for the peaks, and one for when they were.
    let progress = Progress::new(shell, requests * 2, "requests");
    account(fresh, Device(0), until, |made| progress.at(made))
}
