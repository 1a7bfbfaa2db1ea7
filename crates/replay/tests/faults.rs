//! Promise (h) on recordings: an error in any driver call leaves the allocator consistent.
//!
//! A recording is replayed once for each failure: every `cuMemAlloc`, `cuMemCreate` and `cuMemAddressReserve` in turn runs out of
//! memory, and every driver call of any kind in turn fails as after an illegal address, by turns once or for good. The program
//! goes on, as one that catches errors does. `verify()` finds nothing wrong at the failure and at the end; then everything is
//! given back, and the device is empty. `ci/faults.sh` makes all of these runs, a plain `cargo test` a fixed part of them.

mod common;

use std::collections::BTreeSet;

use millpond::config::Dialect;
use millpond::{Metric, Violation};
use millpond_driver::{Code, Device, Memory};
use millpond_replay::parity::{Case, Recording, find};
use millpond_replay::{Machine, Op, Runner, Setup, Workload};
use millpond_sim::{CallKind, FaultCalls, FaultRule, FaultWhen};
use rayon::prelude::*;

/// Calls that run out of memory.
const ALLOCATING: [CallKind; 3] = [CallKind::Malloc, CallKind::Create, CallKind::Reserve];

/// A recording's requests on its machine.
struct Subject {
    name: String,
    setup: Setup,
    workload: Workload,
    /// How often each of [`ALLOCATING`] is called without failures, and how many calls there are of all kinds.
    calls: ([u64; 3], u64),
}

impl Subject {
    /// All recordings of a folder; nothing (with a note) where it is not there.
    fn all(folder: &str) -> Vec<Subject> {
        let Some(path) = common::shared(folder) else { return Vec::new() };
        let cases = find(&[path]).unwrap();
        let subject = |case: &Case| {
            let name = case.outcome.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Subject::new(&Recording::open(case).unwrap(), name)
        };
        cases.par_iter().map(subject).collect()
    }

    fn new(recording: &Recording, name: String) -> Self {
        let setup = Setup { log: false, ..recording.setup().unwrap() };
        Subject::with(setup, recording.workload.clone(), name)
    }

    /// The same on a machine on which pages move.
    fn with_moving_pages(&self) -> Self {
        let mut setup = self.setup.clone();
        let keys = "expandable_segments:True,page_size_mb:2,page_reuse:always";
        setup.settings.apply(keys, Dialect::Millpond).unwrap();
        Subject::with(setup, self.workload.clone(), format!("{}, pages move", self.name))
    }

    fn with(setup: Setup, workload: Workload, name: String) -> Self {
        let machine = Machine::new(&setup).unwrap();
        let counted =
            |machine: &Machine| (ALLOCATING.map(|kind| machine.sim().count(kind)), machine.sim().calls_made());
        let (before, made) = counted(&machine);
        let mut runner = Runner::new(&machine);
        runner.run(&workload.ops, |_, _, _| {}).unwrap();
        let (after, all) = counted(&machine);
        let calls = (std::array::from_fn(|kind| after[kind] - before[kind]), all - made);
        Subject { name, setup, workload, calls }
    }

    /// The failures of this recording, one a run.
    fn faults(&self) -> impl Iterator<Item = FaultRule> + '_ {
        let (of_kind, all) = self.calls;
        let full =
            ALLOCATING.into_iter().zip(of_kind).flat_map(|(kind, count)| (1..=count).map(move |n| full(kind, n)));
        full.chain((1..=all).map(fatal))
    }
}

fn full(kind: CallKind, n: u64) -> FaultRule {
    FaultRule::nth(kind, n, Code::ERROR_OUT_OF_MEMORY)
}

/// Every other failure breaks the device; the rest pass, which leaves the allocator more to get wrong.
fn fatal(n: u64) -> FaultRule {
    let code = Code::ERROR_ILLEGAL_ADDRESS;
    FaultRule { calls: FaultCalls::Any, when: FaultWhen::Nth(n), code, sticky: n.is_multiple_of(2) }
}

/// Runs a program with some failures: how many there were, and what was wrong.
fn run(subject: &Subject, faults: &[FaultRule]) -> (u64, Vec<String>) {
    let machine = Machine::new(&subject.setup).unwrap();
    let sim = machine.sim().clone();
    faults.iter().for_each(|fault| sim.fail(fault.clone()));
    let mut runner = Runner::new(&machine);
    let (mut injected, mut wrong) = (0, Vec::new());
    for (request, op) in subject.workload.ops.iter().enumerate() {
        // A request may refer to what a failure kept from being: then it is passed over.
        let _ = runner.step(op);
        if sim.faults_injected() > injected {
            injected = sim.faults_injected();
            look(&machine, &runner, &format!("at the failure, request {request} ({op:?})"), &mut wrong);
        }
    }
    look(&machine, &runner, "at the end", &mut wrong);
    sim.clear_faults();
    give_back(&subject.workload, &mut runner);
    look(&machine, &runner, "after everything was freed", &mut wrong);
    drop((runner, machine));
    // Nothing can be given back to a device that was broken when the attempt was made.
    if faults.iter().any(|fault| fault.sticky) {
        return (injected, wrong);
    }
    for device in (0..subject.setup.devices.max(1)).map(Device) {
        let (free, total) = sim.mem_info(device).unwrap();
        let held = total - free - subject.setup.others.0;
        if held != 0 {
            wrong.push(format!("when the allocator is gone: {held} bytes of {device} are held"));
        }
    }
    (injected, wrong)
}

/// Every allocator verifies itself and counts the live allocations that the program knows of.
fn look(machine: &Machine, runner: &Runner, when: &str, wrong: &mut Vec<String>) {
    let mut counted = 0;
    for allocator in machine.allocators() {
        if let Err(violations) = allocator.verify() {
            wrong.extend(violations.iter().take(3).map(|Violation(text)| format!("{when}: {text}")));
        }
        counted += allocator.stats().all(Metric::Allocation).current;
    }
    let known = runner.live().filter(|&(_, addr)| addr != 0).count() as i64;
    if counted != known {
        wrong.push(format!("{when}: {counted} live allocations are counted, the program has {known}"));
    }
}

/// Ends captures, frees everything, lets go of pools and graphs.
fn give_back(workload: &Workload, runner: &mut Runner) {
    let named = |name: fn(&Op) -> Option<Op>| workload.ops.iter().filter_map(name).collect::<Vec<_>>();
    let graphs = named(|op| match *op {
        Op::CaptureBegin { graph, .. } => Some(Op::GraphReset { graph }),
        _ => None,
    });
    let pools = named(|op| match *op {
        Op::PoolCreate { pool, .. } => Some(Op::PoolDestroy { pool }),
        _ => None,
    });
    let live: BTreeSet<u64> = runner.live().map(|(id, _)| id).collect();
    let frees = live.into_iter().map(|id| Op::Free { id });
    for op in graphs.into_iter().chain(frees).chain(pools).chain([Op::Sync, Op::EmptyCache]) {
        // What is gone already is passed over.
        let _ = runner.step(&op);
    }
}

/// Makes the failures of one in `part`, one a run, and says how many there were.
fn sweep(subjects: &[Subject], part: usize) {
    let all = subjects.iter().flat_map(|subject| subject.faults().map(move |fault| (subject, fault)));
    let chosen: Vec<_> = all.skip(part / 2).step_by(part).collect();
    let runs = chosen.par_iter().map(|(subject, fault)| {
        let (injected, wrong) = run(subject, std::slice::from_ref(fault));
        (injected, wrong.first().map(|first| format!("{}: {fault:?}: {first}", subject.name)))
    });
    conclude("golden and fuzz", runs.collect());
}

/// The failures of a long recording: `RUNS` runs of `EACH` failures, spread over its calls and shifted from run to run. Of
/// each kind in `ALLOCATING` that it calls, and of all kinds, a share.
const RUNS: u64 = 10;
const EACH: u64 = 30;

fn sweep_long(subjects: &[Subject], runs: u64) {
    let all = subjects.iter().flat_map(|subject| (0..runs).map(move |run| (subject, run)));
    let all: Vec<_> = all.collect();
    let outcomes = all.par_iter().map(|&(subject, number)| {
        let faults = spread(subject, number);
        let (injected, wrong) = run(subject, &faults);
        (injected, wrong.first().map(|first| format!("{}, run {number}: {first}", subject.name)))
    });
    conclude("workloads", outcomes.collect());
}

/// Runs with an even number run out of memory, those with an odd one fail otherwise.
fn spread(subject: &Subject, run: u64) -> Vec<FaultRule> {
    let (of_kind, all) = subject.calls;
    let at = |count: u64, i: u64| 1 + (i * RUNS + run) * count / (EACH * RUNS);
    if run % 2 == 1 {
        return (0..EACH).map(|i| FaultRule { sticky: false, ..fatal(at(all, i)) }).collect();
    }
    let called: Vec<_> = ALLOCATING.into_iter().zip(of_kind).filter(|&(_, count)| count > 0).collect();
    let which = |i: u64| called[i as usize % called.len()];
    (0..EACH).map(|i| full(which(i).0, at(which(i).1, i))).collect()
}

fn conclude(what: &str, outcomes: Vec<(u64, Option<String>)>) {
    let injected: u64 = outcomes.iter().map(|(injected, _)| injected).sum();
    let wrong: Vec<_> = outcomes.iter().filter_map(|(_, wrong)| wrong.as_ref()).collect();
    eprintln!("{injected} failures injected into {what}, in {} runs", outcomes.len());
    let shown: Vec<_> = wrong.iter().take(200).collect();
    assert!(wrong.is_empty(), "{} of {} runs: {shown:#?}", wrong.len(), outcomes.len());
}

fn short() -> Vec<Subject> {
    let mut subjects = Subject::all("golden");
    subjects.extend(Subject::all("golden/fuzz"));
    subjects
}

/// A plain `cargo test` makes one failure in so many: some 4,000, in a quarter of a minute.
const PART: usize = 17;

#[test]
fn a_part_of_all_failures_leaves_the_allocator_consistent() {
    sweep(&short(), PART);
}

#[test]
fn a_part_of_all_failures_leaves_the_allocator_consistent_while_pages_move() {
    let moving: Vec<Subject> = short().iter().map(Subject::with_moving_pages).collect();
    // A page of 2 MiB takes many calls where one of 20 takes few.
    sweep(&moving, 10 * PART);
}

#[test]
#[ignore = "minutes; ci/faults.sh"]
fn every_failure_leaves_the_allocator_consistent() {
    sweep(&short(), 1);
}

#[test]
#[ignore = "half an hour; ci/faults.sh --pages"]
fn every_failure_leaves_the_allocator_consistent_while_pages_move() {
    let moving: Vec<Subject> = short().iter().map(Subject::with_moving_pages).collect();
    sweep(&moving, 1);
}

#[test]
#[ignore = "minutes; ci/faults.sh"]
fn three_hundred_failures_in_each_long_recording_leave_the_allocator_consistent() {
    sweep_long(&Subject::all("workloads"), RUNS);
}
