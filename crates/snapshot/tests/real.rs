//! Files that PyTorch wrote in other people's runs, and their figures from an independent reader.

mod common;

use common::shared;
use millpond_snapshot::{Action, BlockState, DeviceSummary, Snapshot};

struct Expected {
    file: &'static str,
    segments: u64,
    blocks: u64,
    reserved: u64,
    allocated: u64,
    requested: u64,
    free_in_used_segments: u64,
    releasable: u64,
    largest_free_large: u64,
    largest_free_small: u64,
    trace_events: u64,
    active_blocks: usize,
}

const EXPECTED: [Expected; 4] = [
    Expected {
        file: "s02_small_matmul_from_empty.pickle",
        segments: 9,
        blocks: 20,
        reserved: 3781165056,
        allocated: 31719936,
        requested: 31719428,
        free_in_used_segments: 528219648,
        releasable: 3221225472,
        largest_free_large: 536870912,
        largest_free_small: 2096640,
        trace_events: 97,
        active_blocks: 10,
    },
    Expected {
        file: "s03_fwd_bf16_ring.pickle.gz",
        segments: 43,
        blocks: 178,
        reserved: 861929472,
        allocated: 525286400,
        requested: 523811840,
        free_in_used_segments: 64013312,
        releasable: 272629760,
        largest_free_large: 20971520,
        largest_free_small: 2097152,
        trace_events: 2811,
        active_blocks: 137,
    },
    Expected {
        file: "s07_windows_reserved10x_allocated.pickle.gz",
        segments: 216,
        blocks: 455,
        reserved: 14180941824,
        allocated: 1377753600,
        requested: 1373919236,
        free_in_used_segments: 1029776896,
        releasable: 11773411328,
        largest_free_large: 329252864,
        largest_free_small: 2097152,
        trace_events: 5163,
        active_blocks: 229,
    },
    Expected {
        file: "s15_torch20_block_history.pickle",
        segments: 266,
        blocks: 791,
        reserved: 6658457600,
        allocated: 3872498688,
        requested: 3872498160,
        free_in_used_segments: 428760064,
        releasable: 2357198848,
        largest_free_large: 413138944,
        largest_free_small: 2097152,
        trace_events: 1,
        active_blocks: 715,
    },
];

#[test]
fn real_files_give_their_figures_to_the_byte() {
    let Some(folder) = shared("real") else {
        return;
    };
    for expected in EXPECTED {
        let snapshot = Snapshot::open(folder.join(expected.file)).unwrap();
        let summary = snapshot.summary();
        let figures = DeviceSummary {
            device: 0,
            segments: expected.segments,
            blocks: expected.blocks,
            reserved: expected.reserved,
            allocated: expected.allocated,
            active: expected.allocated,
            requested: expected.requested,
            free_in_used_segments: expected.free_in_used_segments,
            releasable: expected.releasable,
            largest_free_large: expected.largest_free_large,
            largest_free_small: expected.largest_free_small,
            trace_events: expected.trace_events,
        };
        assert_eq!(summary.devices, [figures], "{}", expected.file);
        assert_eq!(summary.problems, [], "{}", expected.file);
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let active = blocks.filter(|block| block.state.is_active()).count();
        assert_eq!(active, expected.active_blocks, "{}", expected.file);
    }
}

#[test]
fn c75_files_of_2023_have_blocks_without_address_and_frames_in_their_history() {
    let Some(folder) = shared("real") else {
        return;
    };
    let snapshot = Snapshot::open(folder.join("s15_torch20_block_history.pickle")).unwrap();
    let segment = &snapshot.segments[0];
    assert_eq!(segment.pool, None);
    for segment in &snapshot.segments {
        let mut next = segment.address;
        for block in &segment.blocks {
            assert_eq!(block.address, next);
            next += block.size;
        }
    }
    let live = snapshot
        .segments
        .iter()
        .flat_map(|segment| &segment.blocks)
        .find(|block| block.state == BlockState::ActiveAllocated)
        .unwrap();
    assert!(snapshot.stacks.frames(live.stack).count() > 0);
    let entry = &snapshot.trace(0)[0];
    assert_eq!(entry.action, Action::FreeCompleted);
    assert_eq!((entry.addr, entry.size), (139686137346048, 8896512));
    assert_eq!((entry.time_us, entry.pool, entry.stack), (None, None, None));
}

#[test]
fn recordings_add_up() {
    for file in common::all_pickles() {
        let summary = Snapshot::open(&file).unwrap().summary();
        assert_eq!(summary.problems, [], "{}", file.display());
        assert!(summary.devices[0].reserved > 0, "{}", file.display());
    }
}
