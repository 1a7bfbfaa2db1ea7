//! Ledgers, pictures and claims about them.

mod common;

use millpond::config::Settings;
use millpond_driver::{Bytes, Device};
use millpond_replay::account;
use millpond_replay::workload::ReadOptions;
use millpond_replay::{
    Account, Assertion, AssertionError, Machine, Op, Picture, RunError, Setup, Workload, WorkloadRun,
};
use millpond_sim::EventMode;

const MIB: u64 = 1 << 20;

#[derive(Debug)]
struct Failed(#[allow(dead_code)] String);

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        Failed(error.to_string())
    }
}

fn setup(conf: &str) -> Setup {
    Setup { settings: Settings::written(conf).unwrap().0, ..Setup::default() }
}

fn run_until(workload: &Workload, setup: &Setup, until: Option<u64>) -> Account {
    let fresh = || -> Result<_, Failed> { Ok(WorkloadRun::new(workload, &Machine::new(setup).unwrap())) };
    account(fresh, Device(0), until, |_| ()).unwrap()
}

fn run(ops: &[Op], setup: &Setup) -> Account {
    run_until(&Workload { ops: ops.to_vec() }, setup, None)
}

fn alloc(id: u64, mib: u64) -> Op {
    Op::Alloc { id, size: mib * MIB, stream: 0, pool: None }
}

/// `n` blocks of `mib` MiB with ids from `first`.
fn allocs(first: u64, n: u64, mib: u64) -> impl Iterator<Item = Op> {
    (first..first + n).map(move |id| alloc(id, mib))
}

fn frees(first: u64, n: u64) -> impl Iterator<Item = Op> {
    (first..first + n).map(|id| Op::Free { id })
}

#[test]
fn f1_f2_small_blocks_first_cost_twice_the_memory_without_expandable_segments() {
    let up: Vec<Op> = allocs(0, 8, 16).chain(frees(0, 8)).chain(allocs(8, 4, 32)).collect();
    let down: Vec<Op> = allocs(0, 4, 32).chain(frees(0, 4)).chain(allocs(4, 8, 16)).collect();
    for (ops, conf, reserved) in [
        (&up, "", 256),
        (&up, "expandable_segments:True", 140),
        (&down, "", 128),
        (&down, "expandable_segments:True", 140),
    ] {
        let ledger = run(ops, &setup(conf)).ledger;
        assert_eq!(ledger.peak_reserved, reserved * MIB, "{conf}");
        assert_eq!((ledger.final_allocated, ledger.final_reserved), (128 * MIB, reserved * MIB));
    }
}

#[test]
fn holes_in_different_segments_are_not_joined() {
    let ops: Vec<Op> = allocs(0, 4, 16).chain([Op::Free { id: 0 }, Op::Free { id: 2 }, alloc(4, 32)]).collect();
    let off = run(&ops, &setup(""));
    assert_eq!((off.ledger.peak_reserved, off.ledger.peak_reserved_at), (96 * MIB, 6));
    let picture = Picture::of(&off.at_peak).to_string();
    assert_eq!(picture, "the default stream large\n  [. 16M] | [A 16M] | [. 16M] | [A 16M] | [A 32M]");
    let on = run(&ops, &setup("expandable_segments:True"));
    assert_eq!(on.ledger.peak_reserved, 100 * MIB);
    let picture = Picture::of(&on.at_peak).to_string();
    assert!(picture.contains("[. 16M][A 16M][. 16M][A 16M][A 32M][. 4M][_ "), "{picture}");
    assert_eq!(on.ledger.expandable.len(), 1);
    assert_eq!((on.ledger.expandable[0].mapped, on.ledger.expandable[0].size_class), (100 * MIB, "large"));
}

#[test]
fn peaks_are_dated_by_the_first_request_after_which_they_stand() {
    // Requested, allocated and active peak at different requests than reserved, on both sides of a stride.
    let filler = (0..1500).flat_map(|id| [alloc(1000 + id, 1), Op::Free { id: 1000 + id }]);
    let ops: Vec<Op> = [alloc(0, 30), alloc(1, 30)]
        .into_iter()
        .chain(filler)
        .chain([alloc(2, 100), Op::Free { id: 2 }, alloc(3, 90)])
        .collect();
    let ledger = run(&ops, &setup("")).ledger;
    assert_eq!((ledger.peak_allocated, ledger.peak_allocated_at), (160 * MIB, 3002));
    assert_eq!((ledger.peak_requested, ledger.peak_requested_at), (160 * MIB, 3002));
    assert_eq!((ledger.peak_reserved, ledger.peak_reserved_at), (162 * MIB, 3002));
    assert_eq!(ledger.events, ops.len() as u64);
    let nothing = run(&[Op::Sync], &setup("")).ledger;
    assert_eq!((nothing.peak_reserved, nothing.peak_reserved_at, nothing.events), (0, 0, 1));
}

#[test]
fn a_run_until_a_request_makes_that_request_and_no_more() {
    let workload = Workload { ops: allocs(0, 4, 16).collect() };
    assert_eq!(run_until(&workload, &setup(""), Some(1)).ledger.final_allocated, 32 * MIB);
    assert_eq!(run_until(&workload, &setup(""), Some(100)).ledger.final_allocated, 64 * MIB);
}

#[test]
fn errors_and_the_allocators_own_driver_calls_are_counted() {
    let small = Setup { capacity: Bytes(100 * MIB), events: EventMode::Manual, ..setup("") };
    let ops = [
        alloc(0, 60),
        Op::ForkJoin { a: 0, b: 1 },
        Op::StreamSync { stream: 1 },
        alloc(1, 60),
        Op::Free { id: 1 },
        Op::RecordStream { id: 0, stream: 1 },
        Op::Free { id: 0 },
        Op::CaptureEnd { graph: 0 },
    ];
    let ledger = run(&ops[..7], &small).ledger;
    assert_eq!((ledger.ooms, ledger.retries, ledger.errors), (1, 1, 0));
    let oom = ledger.first_oom.unwrap();
    assert_eq!(oom.request, 3);
    assert!(oom.text.starts_with("CUDA out of memory. Tried to allocate 60.00 MiB. GPU 0"), "{}", oom.text);
    // The second allocation failed twice; the program's own event and wait do not count.
    let calls = ["malloc", "event_record", "stream_sync", "map"].map(|call| ledger.driver_calls[call]);
    assert_eq!(calls, [3, 1, 0, 0], "{:?}", ledger.driver_calls);
    assert!(ledger.driver_time_us > 0);
    let fresh = || -> Result<_, Failed> {
        Ok(WorkloadRun::new(Box::leak(Box::new(Workload { ops: ops.to_vec() })), &Machine::new(&small).unwrap()))
    };
    assert_eq!(
        account(fresh, Device(0), None, |_| ()).unwrap_err().0,
        "request 7: no capture into graph 0 is under way"
    );
}

#[test]
fn claims_are_decided_by_figures() {
    let ledger = run(&allocs(0, 4, 16).collect::<Vec<_>>(), &setup("")).ledger;
    for (claim, holds) in [
        ("peak_reserved < 70GiB", true),
        ("peak_reserved<64M", false),
        ("peak_reserved <= 64MiB", true),
        ("peak_reserved >= 64M", true),
        ("peak_reserved > 67108864", false),
        ("peak_reserved == 67108864", true),
        ("driver_calls.malloc != 4", false),
        ("ooms == 0", true),
    ] {
        let decision = claim.parse::<Assertion>().unwrap().decide(&ledger).unwrap();
        assert_eq!(decision.holds, holds, "{decision}");
    }
    let decision = "peak_reserved < 1M".parse::<Assertion>().unwrap().decide(&ledger).unwrap();
    assert_eq!(decision.to_string(), "peak_reserved < 1M: does not hold, it is 67108864 (64MiB)");
    for text in ["peak_reserved", "< 3", "peak_reserved = 3", "peak_reserved <", ""] {
        assert!(matches!(text.parse::<Assertion>(), Err(AssertionError::Form { .. })), "{text}");
    }
    let error = "peak_reserved < 3X".parse::<Assertion>().unwrap_err().to_string();
    assert!(error.contains("'3X' is not a size"), "{error}");
    for field in ["peak", "driver_calls", "driver_calls.mallocs", "segments", "first_oom"] {
        let error = format!("{field} < 3").parse::<Assertion>().unwrap().decide(&ledger).unwrap_err().to_string();
        assert!(error.contains("peak_reserved, ") && error.contains("driver_calls.malloc"), "{error}");
    }
}

#[test]
fn figures_of_recorded_workloads_are_those_of_their_index() {
    let Some(folder) = common::shared("workloads") else { return };
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("INDEX.json")).unwrap()).unwrap();
    let mut seen = 0;
    for entry in index.as_array().unwrap().iter().filter(|entry| entry["scenario"] == "w04_moe") {
        let file = folder.join("w04_moe.req.jsonl.gz");
        let workload = Workload::open(&file, ReadOptions::default()).unwrap();
        let setup = Setup {
            capacity: entry["capacity"].as_str().unwrap().parse().unwrap(),
            settings: Settings::parse(entry["config"].as_str().unwrap()).unwrap().0,
            ..Setup::default()
        };
        let ledger = run_until(&workload, &setup, None).ledger;
        assert_eq!(ledger.peak_reserved, entry["reserved_peak"].as_u64().unwrap());
        assert_eq!(ledger.peak_allocated, entry["allocated_peak"].as_u64().unwrap());
        assert_eq!(ledger.peak_requested, entry["requested_peak"].as_u64().unwrap());
        assert_eq!(ledger.final_reserved, entry["reserved_end"].as_u64().unwrap());
        assert_eq!(ledger.ooms, entry["ooms"].as_u64().unwrap());
        assert_eq!(ledger.first_oom.map(|oom| oom.request), entry["first_oom"]["i"].as_u64());
        seen += 1;
    }
    assert_eq!(seen, 5);
}
