//! Allocation at an exact address: R2.52–R2.55.

mod common;

use common::{BASE, MIB, Machine, machine, on, stream};
use millpond::BlockUse::{Free, Live};
use millpond::{Error, HistoryOptions};
use millpond_sim::CallKind;

/// A free segment of 20 MiB on the default stream.
fn cached(conf: &str) -> Machine {
    let machine = machine(128 * MIB, conf);
    machine.free(machine.alloc(8 * MIB));
    assert_eq!(machine.blocks()[0], (0, 20 * MIB, Free));
    machine
}

#[test]
fn r2_52_an_address_that_is_no_multiple_of_512_is_refused() {
    let m = cached("");
    let error = m.a.alloc_at(BASE + 4 * MIB + 256, 2 * MIB, stream(0), &on(0)).unwrap_err();
    assert!(matches!(error, Error::MisalignedAddress { addr } if addr == BASE + 4 * MIB + 256), "{error}");
    assert_eq!(m.blocks(), [(0, 20 * MIB, Free)]);
}

#[test]
fn r2_53_only_a_free_block_of_the_same_stream_and_size_class_serves() {
    let m = cached("");
    let before = m.sim.calls_made();
    let refused = |addr, size, raw| {
        let error = m.a.alloc_at(addr, size, stream(raw), &on(raw)).unwrap_err();
        matches!(error, Error::AddressNotFree { .. })
    };
    assert!(refused(BASE, 4 * MIB, 1), "another stream's block");
    assert!(refused(BASE, MIB, 0), "a small request in a large segment");
    assert!(refused(BASE + 18 * MIB, 2 * MIB + 1, 0), "it would end behind the block");
    assert!(refused(BASE + 40 * MIB, 2 * MIB, 0), "nothing is there");
    let live = m.a.alloc_at(BASE, 4 * MIB, stream(0), &on(0)).unwrap();
    assert_eq!(live, BASE);
    assert!(refused(BASE, 4 * MIB, 0), "it is live");
    assert_eq!(m.calls(CallKind::Malloc), 1, "the driver is never asked");
    assert_eq!(m.sim.calls_made(), before, "nor called at all");
}

#[test]
fn r2_53_no_pages_are_mapped_for_an_exact_address() {
    let m = cached("expandable_segments:True");
    // 20 MiB are mapped at the front of a reservation that goes on.
    assert!(m.a.alloc_at(BASE + 10 * MIB, 20 * MIB, stream(0), &on(0)).is_err());
    assert_eq!((m.calls(CallKind::Create), m.reserved()), (1, 20 * MIB));
}

#[test]
fn r2_54_a_prefix_is_allocated_and_given_back_once_the_wanted_block_is_carved() {
    let m = cached("");
    m.record_all();
    let addr = m.a.alloc_at(BASE + 4 * MIB, 8 * MIB, stream(0), &on(0)).unwrap();
    assert_eq!(addr, BASE + 4 * MIB);
    assert_eq!(m.blocks(), [(0, 4 * MIB, Free), (4 * MIB, 8 * MIB, Live), (12 * MIB, 8 * MIB, Free)]);
    let history = m.a.take_history();
    assert!(history.iter().all(|event| event.internal == Some("mallocWithAddress")));
    let entries: Vec<_> = history.iter().map(common::entry).collect();
    assert_eq!(
        entries,
        [
            ("alloc", 0, 4 * MIB),
            ("alloc", 4 * MIB, 8 * MIB),
            ("free_requested", 0, 4 * MIB),
            ("free_completed", 0, 4 * MIB),
        ]
    );
    // The first block, the prefix, the wanted one.
    assert_eq!((m.stat("allocation.all.allocated"), m.stat("allocation.all.current")), (3, 1));
    assert_eq!(m.stat("allocated_bytes.all.current"), 8 << 20);
    assert_eq!(m.stat("inactive_split.all.current"), 2);
    assert_eq!(m.stat("inactive_split_bytes.all.current"), 12 << 20);
    m.free(addr);
    assert_eq!(m.blocks(), [(0, 20 * MIB, Free)]);
}

#[test]
fn r2_54_at_the_start_of_a_block_there_is_no_prefix() {
    let m = cached("");
    m.record_all();
    m.a.alloc_at(BASE, 4 * MIB - 100, stream(0), &on(0)).unwrap();
    assert_eq!(m.take_history(), [("alloc", 0, 4 * MIB - 100)]);
    assert_eq!(m.blocks(), [(0, 4 * MIB, Live), (4 * MIB, 16 * MIB, Free)]);
}

#[test]
fn r2_54_the_tail_is_split_by_the_ordinary_rule() {
    // Large, not expandable: a remainder of 1 MiB is not split off (R1.14), one of 1 MiB + 512 is.
    for (size, split) in [(15 * MIB, false), (15 * MIB - 512, true)] {
        let m = cached("");
        m.a.alloc_at(BASE + 4 * MIB, size, stream(0), &on(0)).unwrap();
        let block = m.blocks()[1];
        assert_eq!(block, (4 * MIB, if split { size } else { 16 * MIB }, Live));
    }
    // Expandable: 512 bytes are enough (R1.13).
    let m = cached("expandable_segments:True");
    m.a.alloc_at(BASE + 4 * MIB, 16 * MIB - 512, stream(0), &on(0)).unwrap();
    let mapped = m.mapped_blocks(millpond::PoolId::DEFAULT);
    assert_eq!(mapped, [(0, 4 * MIB, Free), (4 * MIB, 16 * MIB - 512, Live), (20 * MIB - 512, 512, Free)]);
}

#[test]
fn r2_54_a_small_block_is_carved_out_of_a_small_segment() {
    let m = machine(64 * MIB, "");
    m.free(m.alloc(1000));
    m.a.alloc_at(BASE + 1024, 100, stream(0), &on(0)).unwrap();
    assert_eq!(m.blocks(), [(0, 1024, Free), (1024, 512, Live), (1536, 2 * MIB - 1536, Free)]);
}

#[test]
fn r2_54_the_prefix_merges_with_the_free_block_before_it_when_there_is_one() {
    let m = cached("");
    let first = m.a.alloc_at(BASE, 2 * MIB, stream(0), &on(0)).unwrap();
    let wanted = m.a.alloc_at(BASE + 6 * MIB, 4 * MIB, stream(0), &on(0)).unwrap();
    m.free(first);
    assert_eq!(m.blocks(), [(0, 6 * MIB, Free), (6 * MIB, 4 * MIB, Live), (10 * MIB, 10 * MIB, Free)]);
    m.free(wanted);
}

#[test]
fn r2_52_events_are_processed_before_the_search() {
    let m = common::manual(64 * MIB, "");
    let block = m.alloc(8 * MIB);
    m.record(block, 1);
    m.free(block);
    assert!(m.a.alloc_at(block, 8 * MIB, stream(0), &on(0)).is_err(), "stream 1 still uses it");
    m.sim.advance(1);
    assert_eq!(m.a.alloc_at(block, 8 * MIB, stream(0), &on(0)).unwrap(), block);
}

#[test]
fn r2_55_an_exact_address_needs_the_enabled_allocator() {
    let m = cached("");
    m.a.enable_caching(false);
    let error = m.a.alloc_at(BASE, 4 * MIB, stream(0), &on(0)).unwrap_err();
    assert!(matches!(error, Error::CachingDisabled { .. }), "{error}");
    m.a.enable_caching(true);
    m.a.record_history(Some(HistoryOptions::default()));
    assert_eq!(m.a.alloc_at(BASE, 4 * MIB, stream(0), &on(0)).unwrap(), BASE);
}
