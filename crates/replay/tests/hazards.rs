//! Small programs on several streams, half of them right and half without a `record_stream` or a wait that they need: every one
//! is judged. The programs are the workloads in `hazards/`, and each has its name from what it shows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use millpond_driver::{Device, Stream};
use millpond_replay::workload::ReadOptions;
use millpond_replay::{Hazard, HazardHint, HazardKind, Machine, Outcome, Runner, Setup, Workload};

use Needed::*;

/// What a program lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// A wait of the second stream for the first; the memory is still its owner's.
    Wait,
    /// A `record_stream` of the first stream on a block that was handed out again.
    Record,
    /// A wait of the second stream for the first; the memory was handed out again.
    WaitForFormer,
}

/// Programs, and of the wrong ones what they lack with the streams and labels of both uses.
type Row = (&'static str, &'static str, Needed, (u64, &'static str), (u64, &'static str));

/// (right, wrong, what is lacking, first use, second use)
const PROGRAMS: [Row; 20] = [
    ("read_elsewhere_after_a_wait", "read_elsewhere_without_a_wait", Wait, (1, "produce"), (2, "consume")),
    ("freed_with_record_stream", "freed_without_record_stream", Record, (1, "consume"), (0, "overwrite")),
    ("joined_before_the_free", "joined_by_an_event_recorded_too_early", Record, (1, "consume"), (0, "overwrite")),
    (
        "event_recorded_again_before_the_wait",
        "event_recorded_again_after_the_wait",
        Wait,
        (1, "second half"),
        (2, "consume"),
    ),
    ("host_waits_for_the_producer", "host_waits_for_another_stream", Wait, (1, "produce"), (2, "consume")),
    ("two_readers_both_recorded", "two_readers_one_recorded", Record, (3, "right"), (1, "overwrite")),
    (
        "order_through_a_third_stream",
        "order_through_a_third_stream_begins_too_early",
        Wait,
        (1, "produce"),
        (3, "consume"),
    ),
    (
        "recorded_on_the_stream_that_reads",
        "recorded_on_the_stream_that_passed_it_on",
        Record,
        (3, "consume"),
        (1, "overwrite"),
    ),
    ("relay_of_four", "relay_of_four_skips_one", Wait, (3, "stage 3"), (4, "stage 4")),
    ("gather_from_three", "gather_from_three_forgets_one", Wait, (2, "part 2"), (4, "gather")),
    (
        "new_block_used_elsewhere_after_a_wait",
        "new_block_used_elsewhere_without_a_wait",
        WaitForFormer,
        (1, "produce"),
        (2, "overwrite"),
    ),
    (
        "captured_free_with_record_stream",
        "captured_free_without_record_stream",
        Record,
        (2, "consume"),
        (1, "overwrite"),
    ),
    (
        "captured_branch_joined_before_the_write",
        "captured_branch_joined_after_the_write",
        Wait,
        (2, "consume"),
        (1, "overwrite"),
    ),
    (
        "captured_reuse_after_both_joins",
        "captured_reuse_behind_an_unrecorded_branch",
        Record,
        (3, "right"),
        (1, "overwrite"),
    ),
    ("captured_fan_of_four_joined", "captured_fan_of_four_lacks_a_join", Wait, (4, "part 4"), (1, "gather")),
    (
        "graph_output_read_before_the_next_replay",
        "graph_output_read_during_the_next_replay",
        Wait,
        (2, "log the output"),
        (0, "graph 0"),
    ),
    (
        "graph_input_copied_before_the_replay",
        "graph_input_copied_during_the_replay",
        Wait,
        (3, "copy the input"),
        (0, "graph 0"),
    ),
    ("pool_block_with_record_stream", "pool_block_without_record_stream", Record, (2, "consume"), (1, "overwrite")),
    ("pool_of_three_streams_recorded", "pool_of_three_streams_unrecorded", Record, (3, "sum"), (2, "right again")),
    ("graphs_of_one_pool_in_order", "graphs_of_one_pool_with_a_branch", Wait, (0, "graph 0"), (4, "result")),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hazards")
}

/// The hazards of a program.
fn judged(name: &str) -> Vec<Hazard> {
    let path = folder().join(name).with_extension("jsonl");
    let workload = Workload::open(&path, ReadOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let machine = Machine::new(&Setup { hazards: true, ..Setup::default() }).unwrap();
    let mut runner = Runner::new(&machine);
    let went_on = |request, op: &_, outcome| {
        assert!(!matches!(outcome, Outcome::Failed(_)), "{name}, request {request}: {op:?}: {outcome:?}");
    };
    runner.run(&workload.ops, went_on).unwrap_or_else(|error| panic!("{name}: {error}"));
    machine.allocator().verify().unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
    machine.sim().hazards()
}

fn stream(raw: u64) -> Stream {
    Stream::new(Device(0), raw)
}

#[test]
fn right_programs_have_no_hazards() {
    for (right, ..) in PROGRAMS {
        assert_eq!(judged(right), [], "{right}");
    }
}

#[test]
fn wrong_programs_have_the_hazard_that_they_were_written_for() {
    for (_, wrong, needed, first, second) in PROGRAMS {
        let found = judged(wrong);
        let [hazard] = &found[..] else { panic!("{wrong}: {found:#?}") };
        let uses = [(first, &hazard.first), (second, &hazard.second)];
        for ((raw, label), used) in uses {
            assert_eq!((used.stream, &*used.label), (stream(raw), label), "{wrong}: {hazard}");
        }
        let (waiter, awaited) = (stream(second.0), stream(first.0));
        let expected = match needed {
            Wait => (HazardKind::UseStillRunning, HazardHint::Wait { waiter, awaited }),
            Record => (HazardKind::HandedOutTooEarly, HazardHint::RecordStream { stream: awaited }),
            WaitForFormer => (HazardKind::HandedOutTooEarly, HazardHint::Wait { waiter, awaited }),
        };
        assert_eq!((hazard.kind, hazard.hint), expected, "{wrong}: {hazard}");
        let block = hazard.block.as_ref().unwrap_or_else(|| panic!("{wrong}: no block: {hazard}"));
        let inside = block.addr <= hazard.second.addr && hazard.second.addr < block.addr + block.size;
        assert!(inside && block.label.starts_with("allocation "), "{wrong}: {block:?}");
        assert_eq!(hazard.former.is_some(), hazard.kind == HazardKind::HandedOutTooEarly, "{wrong}: {hazard}");
    }
}

#[test]
fn every_program_in_the_folder_is_judged() {
    let judged: BTreeSet<String> =
        PROGRAMS.iter().flat_map(|(right, wrong, ..)| [right, wrong].map(|name| format!("{name}.jsonl"))).collect();
    let names = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(judged, names.collect());
    assert!(judged.len() >= 24);
}

#[test]
fn nothing_is_checked_and_nothing_changes_without_hazards() {
    let path = folder().join("two_readers_one_recorded.jsonl");
    let workload = Workload::open(&path, ReadOptions::default()).unwrap();
    let addresses = [false, true].map(|hazards| {
        let machine = Machine::new(&Setup { hazards, ..Setup::default() }).unwrap();
        let mut addresses = Vec::new();
        let take = |_, _: &_, outcome| {
            if let Outcome::Allocated(addr) = outcome {
                addresses.push(addr);
            }
        };
        Runner::new(&machine).run(&workload.ops, take).unwrap();
        assert_eq!(machine.sim().hazards().is_empty(), !hazards);
        addresses
    });
    assert_eq!(addresses[0], addresses[1]);
}
