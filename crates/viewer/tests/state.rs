//! The state that a timeline gives for a moment is the state of the allocator after the same requests.

use std::path::{Path, PathBuf};

use millpond::TieOrder;
use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::ledger::SegmentHolding;
use millpond_replay::snapshot::{Recording, SnapshotRun, devices};
use millpond_replay::workload::ReadOptions;
use millpond_replay::{Machine, Program, Scenario, Setup, Workload, WorkloadRun};
use millpond_snapshot::Snapshot;
use millpond_viewer::timeline::{Holds, Origin, Timeline, recorded, replayed};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files that are not part of the project and may be missing.
fn shared(folder: &str, ends: &str) -> Vec<PathBuf> {
    let base = std::env::var_os("MILLPOND_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(base.join(folder)) else {
        eprintln!("skipped: {folder} is not there");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ends));
    paths.sort();
    paths
}

/// What `millpond replay --json` says of the segments.
fn holdings(timeline: &Timeline, cursor: u32) -> Vec<SegmentHolding> {
    let segments = timeline.segments_at(cursor).into_iter().map(|at| {
        let segment = &timeline.segments[at.segment as usize];
        let pool = &timeline.pools[segment.pool as usize];
        let mut holding = SegmentHolding {
            address: segment.base,
            size: 0,
            stream: pool.stream,
            size_class: pool.class,
            pool: [pool.id.0, pool.id.1],
            expandable: segment.expandable,
            allocated: 0,
            active: 0,
            requested: 0,
            largest_free: 0,
            blocks: 0,
        };
        for range in at.ranges {
            holding.size += range.size;
            holding.blocks += 1;
            match range.holds {
                Holds::Free => holding.largest_free = holding.largest_free.max(range.size),
                Holds::Live(block) | Holds::Pending(block) => {
                    holding.active += range.size;
                    holding.requested += timeline.blocks[block as usize].requested;
                }
            }
            holding.allocated += if matches!(range.holds, Holds::Live(_)) { range.size } else { 0 };
        }
        holding
    });
    segments.collect()
}

/// Runs a program again and compares at some moments and at the end.
fn compare(name: &str, timeline: &Timeline, mut program: impl Program, looks: usize, at: impl Fn(u64) -> u64, n: u64) {
    let stride = (n / looks as u64).max(1);
    for request in 0..n {
        program.next_request().expect("a request that makes sense");
        if request % stride != 0 && request + 1 != n {
            continue;
        }
        let allocator = program.machine().allocator();
        allocator.verify().expect("a consistent allocator");
        let mut expected: Vec<SegmentHolding> = allocator.segments().iter().map(SegmentHolding::of).collect();
        // A reservation that holds nothing, as a failed mapping leaves it, is address space and no memory.
        expected.retain(|segment| segment.size > 0);
        let cursor = timeline.cursor_after(at(request));
        assert_eq!(holdings(timeline, cursor), expected, "{name}: after request {request}, cursor {cursor}");
        let totals = match cursor {
            0 => timeline.start_totals(),
            _ => timeline.walk().nth(cursor as usize - 1).expect("an event"),
        };
        let stats = allocator.stats();
        let current = |metric| stats.all(metric).current as u64;
        use millpond::Metric::*;
        let sums = [AllocatedBytes, ActiveBytes, RequestedBytes, ReservedBytes].map(current);
        assert_eq!([totals.allocated, totals.active, totals.requested, totals.reserved], sums, "{name}: {request}");
    }
}

fn of_workload(workload: &Workload, setup: &Setup) -> Vec<Timeline> {
    let origin = |request| Some(Origin { at: request as u32, ..Origin::default() });
    let mut run = WorkloadRun::new(workload, &Machine::new(setup).expect("a machine"));
    replayed(&mut run, |_| Default::default(), origin).expect("a workload that makes sense")
}

fn check_workload(name: &str, workload: &Workload, setup: &Setup, looks: usize) {
    let timelines = of_workload(workload, setup);
    assert_eq!(timelines[0].contradictions, 0, "{name}");
    let run = WorkloadRun::new(workload, &Machine::new(setup).expect("a machine"));
    compare(name, &timelines[0], run, looks, |request| request, workload.ops.len() as u64);
}

#[test]
fn the_state_of_every_scenario_under_several_settings() {
    for scenario in &millpond_replay::SCENARIOS {
        for conf in ["", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8"] {
            let (settings, _) = Settings::written(conf).expect("settings");
            let workload = Scenario::workload(scenario, 1);
            let setup = Setup {
                capacity: scenario.capacity(),
                others: scenario.others(),
                events: scenario.events,
                devices: workload.devices(),
                settings,
                ..Setup::default()
            };
            check_workload(scenario.name, &workload, &setup, 20);
        }
    }
}

#[test]
fn a_timeline_that_is_cut_ends_with_the_state_of_that_moment() {
    for scenario in &millpond_replay::SCENARIOS {
        let workload = Scenario::workload(scenario, 2);
        let setup = Setup {
            capacity: scenario.capacity(),
            others: scenario.others(),
            events: scenario.events,
            devices: workload.devices(),
            ..Setup::default()
        };
        let whole = of_workload(&workload, &setup).remove(0);
        let requests = workload.ops.len() as u64;
        for at in [0, 1, requests / 3, requests / 2, requests - 1, requests + 1] {
            let mut cut = whole.clone();
            cut.cut(at);
            let cursor = whole.cursor_after(at);
            assert_eq!(cut.end(), cursor, "{} {at}", scenario.name);
            assert_eq!(holdings(&cut, cursor), holdings(&whole, cursor), "{} {at}", scenario.name);
            let sums = |timeline: &Timeline| timeline.walk().take(cursor as usize).last();
            assert_eq!(sums(&cut), sums(&whole), "{} {at}", scenario.name);
            assert_eq!(cut.walk().last(), sums(&cut), "nothing comes after");
        }
    }
}

/// Needs ../shared (MILLPOND_SHARED); skipped where it is missing.
#[test]
fn the_state_of_golden_workloads() {
    for path in shared("golden", ".req.jsonl.gz") {
        let workload = Workload::open(&path, ReadOptions::default()).expect("a workload");
        for conf in ["", "expandable_segments:True"] {
            let settings = Settings::written(conf).expect("settings").0;
            let setup = Setup { capacity: Bytes(2 << 30), settings, devices: workload.devices(), ..Setup::default() };
            check_workload(&path.display().to_string(), &workload, &setup, 40);
        }
    }
}

fn check_snapshot(path: &Path, looks: usize) {
    let snapshot = Snapshot::open(path).expect("a snapshot");
    for device in devices(&snapshot) {
        let recording = Recording::new(&snapshot, device).expect("a device of the file");
        let name = format!("{} device {device}", path.display());
        for conf in [None, Some("expandable_segments:True")] {
            let mut conditions = recording.conditions(TieOrder::default());
            if let Some(conf) = conf {
                conditions.settings = Settings::written(conf).expect("settings").0;
                conditions.as_recorded = false;
                conditions.capacity = Bytes(1 << 43);
            }
            let run = || SnapshotRun::new(&recording, &conditions).expect("a start state");
            let requests = &recording.requests;
            let at = |request: u64| requests[request as usize].entry as u64;
            let origin = |request: u64| {
                let recorded = requests.get(request as usize)?;
                Some(Origin { at: recorded.entry as u32, ..Origin::default() })
            };
            let timelines = replayed(&mut run(), |_| Default::default(), origin).expect("requests that make sense");
            compare(&name, &timelines[0], run(), looks, at, requests.len() as u64);
        }
    }
}

#[test]
fn the_state_of_replayed_snapshots() {
    for name in ["examples/train.pickle", "examples/oom.pickle"] {
        check_snapshot(&root().join(name), 50);
    }
}

/// Needs ../shared (MILLPOND_SHARED); skipped where it is missing.
#[test]
fn the_state_of_replayed_golden_snapshots() {
    for path in shared("golden/pickles", ".pickle").into_iter().chain(shared("real", ".gz")) {
        check_snapshot(&path, 10);
    }
}

/// A recording ends with the state of its own file.
fn check_recording(path: &Path) -> u64 {
    let snapshot = Snapshot::open(path).expect("a snapshot");
    let mut compared = 0;
    for device in devices(&snapshot) {
        let recording = Recording::new(&snapshot, device).expect("a device of the file");
        let timeline = recorded(&recording);
        let mut expected: Vec<(u64, u64, bool)> = Vec::new();
        let mut tiled = true;
        for segment in snapshot.segments.iter().filter(|segment| segment.device == device as i32) {
            tiled &= segment.blocks.iter().map(|block| block.size).sum::<u64>() == segment.total_size;
            let blocks = segment.blocks.iter().filter(|block| block.state.is_active());
            expected.extend(blocks.map(|block| (block.address, block.size, block.allocated() > 0)));
        }
        expected.sort_unstable();
        let ranges = timeline.segments_at(timeline.end()).into_iter().flat_map(|segment| segment.ranges);
        let found: Vec<(u64, u64, bool)> = ranges
            .filter(|range| range.holds != Holds::Free)
            .map(|range| (range.addr, range.size, matches!(range.holds, Holds::Live(_))))
            .collect();
        assert_eq!(found, expected, "{} device {device}", path.display());
        let summary = snapshot.summary();
        let reserved = summary.devices.iter().find(|summary| summary.device == device as i32);
        let reserved = reserved.map_or(0, |summary| summary.reserved);
        let end = timeline.walk().last().unwrap_or(timeline.start_totals());
        if tiled {
            assert_eq!(end.reserved, reserved, "{} device {device}", path.display());
        }
        compared += 1;
    }
    compared
}

#[test]
fn a_recording_ends_with_the_state_of_its_file() {
    for name in ["examples/train.pickle", "examples/oom.pickle"] {
        assert!(check_recording(&root().join(name)) > 0);
    }
}

/// Needs ../shared (MILLPOND_SHARED); skipped where it is missing.
#[test]
fn recordings_of_others_end_with_the_state_of_their_files() {
    let folders = [("golden/pickles", ".pickle"), ("real", ".gz"), ("real", ".pickle"), ("workloads", ".pickle.gz")];
    for path in folders.into_iter().flat_map(|(folder, ends)| shared(folder, ends)) {
        check_recording(&path);
    }
}
