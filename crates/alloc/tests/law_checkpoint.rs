//! Checkpoints of a private pool (R5.38–R5.41) and its live allocations (R5.28), with both kinds of segment.

mod common;

use std::collections::BTreeSet;

use common::{MIB, Machine, machine, manual, on, stream};
use millpond::BlockUse::{Free, Live, Pending};
use millpond::{Error, MemPool, PoolId, Restored};

const KINDS: [&str; 2] = ["", "expandable_segments:True"];

/// A block of a pool on the default stream.
fn alloc_in(m: &Machine, pool: &MemPool, size: u64) -> u64 {
    let _scope = pool.enter().unwrap();
    m.alloc(size)
}

/// Three blocks of 4 MiB, the middle one freed: `[A 4M][. 4M][C 4M][. 8M]`.
fn three(m: &Machine, pool: &MemPool) -> [u64; 3] {
    let blocks = [(); 3].map(|()| alloc_in(m, pool, 4 * MIB));
    m.free(blocks[1]);
    blocks
}

fn sorted(restored: Restored) -> (Vec<u64>, Vec<u64>) {
    let Restored { mut freed, mut live } = restored;
    freed.sort_unstable();
    live.sort_unstable();
    (freed, live)
}

#[test]
fn r5_28_live_allocations_are_exactly_a_set_or_not() {
    for conf in KINDS {
        let m = machine(256 * MIB, conf);
        let pool = MemPool::new(&m.a, Default::default()).unwrap();
        let [a, b, c] = three(&m, &pool);
        let has = |addrs: &[u64]| m.a.pool_has_exactly(pool.id(), &addrs.iter().copied().collect()).unwrap();
        assert!(has(&[a, c]));
        assert!(!has(&[a, b, c]) && !has(&[a]) && !has(&[]));
        let unknown = m.a.pool_has_exactly(PoolId(77, 0), &BTreeSet::new()).unwrap_err();
        assert!(matches!(unknown, Error::UnknownPool { .. }), "{unknown}");
        m.free_all([a, c]);
        assert!(has(&[]));
    }
}

#[test]
fn r5_39_restoring_cuts_the_segments_as_they_were() {
    for conf in KINDS {
        let m = machine(256 * MIB, conf);
        let pool = MemPool::new(&m.a, Default::default()).unwrap();
        let [a, _, c] = three(&m, &pool);
        let saved = pool.checkpoint(&on(0)).unwrap();
        assert_eq!(saved.live().collect::<Vec<_>>(), [a, c]);
        let before = m.mapped_blocks(pool.id());
        let stats = m.a.stats();

        // The pool goes on: A's place is taken by two others, C stays.
        m.free(a);
        let others = [alloc_in(&m, &pool, 2 * MIB), alloc_in(&m, &pool, 6 * MIB)];
        assert_eq!(others, [a, a + 2 * MIB]);

        let (freed, live) = sorted(pool.restore(&saved, &on(0)).unwrap());
        assert_eq!(freed, [a, a + 2 * MIB, c], "{conf}: what was live then");
        assert_eq!(live, [a, c], "{conf}: C is in both lists (R5.40)");
        assert_eq!(m.mapped_blocks(pool.id()), before, "{conf}");
        for key in ["allocated_bytes", "active", "requested_bytes", "inactive_split_bytes", "reserved_bytes"] {
            let key = format!("{key}.all.current");
            assert_eq!(m.stat(&key), stats.flatten()[&key], "{conf}: {key}");
        }
        m.free_all([a, c]);
    }
}

#[test]
fn r5_40_segments_made_since_remain_free() {
    for conf in KINDS {
        let m = machine(256 * MIB, conf);
        let pool = MemPool::new(&m.a, Default::default()).unwrap();
        let [a, _, c] = three(&m, &pool);
        let saved = pool.checkpoint(&on(0)).unwrap();
        let reserved = m.reserved();
        let later = alloc_in(&m, &pool, 40 * MIB);
        let small = alloc_in(&m, &pool, 1000);
        let grown = m.reserved();
        assert!(grown > reserved + 30 * MIB);
        let (freed, live) = sorted(pool.restore(&saved, &on(0)).unwrap());
        assert_eq!(live, [a, c]);
        assert!(freed.contains(&later) && freed.contains(&small));
        assert_eq!(m.reserved(), grown, "{conf}: nothing goes back to the driver");
        assert_eq!(m.allocated(), 8 * MIB);
        // The memory is there for the next request.
        assert_eq!(alloc_in(&m, &pool, 1000), small);
    }
}

/// R5.41: memory that was mapped behind the last saved block since then is free behind it.
#[test]
fn r5_41_an_expandable_segment_may_have_grown() {
    let m = machine(256 * MIB, "expandable_segments:True");
    let pool = MemPool::new(&m.a, Default::default()).unwrap();
    let a = alloc_in(&m, &pool, 16 * MIB);
    assert_eq!(m.mapped_blocks(pool.id()), [(0, 16 * MIB, Live), (16 * MIB, 4 * MIB, Free)]);
    let saved = pool.checkpoint(&on(0)).unwrap();
    alloc_in(&m, &pool, 30 * MIB);
    assert_eq!(m.reserved(), 60 * MIB);
    let restored = pool.restore(&saved, &on(0)).unwrap();
    assert_eq!(restored.live, [a]);
    assert_eq!(m.mapped_blocks(pool.id()), [(0, 16 * MIB, Live), (16 * MIB, 44 * MIB, Free)]);
    assert_eq!(m.reserved(), 60 * MIB);
    m.free(a);
}

/// R5.39: stored sizes are cut exactly, whatever `max_split_size_mb` says now.
#[test]
fn r5_39_the_split_rules_do_not_count() {
    let m = machine(256 * MIB, "");
    let pool = MemPool::new(&m.a, Default::default()).unwrap();
    let whole = alloc_in(&m, &pool, 40 * MIB);
    m.free(whole);
    let part = alloc_in(&m, &pool, 4 * MIB);
    let saved = pool.checkpoint(&on(0)).unwrap();
    m.free(part);
    m.a.world().configure("max_split_size_mb:20", millpond::config::Dialect::Torch).unwrap();
    assert_eq!(pool.restore(&saved, &on(0)).unwrap().live, [part]);
    assert_eq!(m.mapped_blocks(pool.id()), [(0, 4 * MIB, Live), (4 * MIB, 36 * MIB, Free)]);
    m.free(part);
}

#[test]
fn r5_38_a_pool_with_pending_events_or_without_owner_has_no_checkpoint() {
    let m = manual(256 * MIB, "");
    let refused = |id| match m.a.checkpoint(id, &on(0)).unwrap_err() {
        Error::NoCheckpoint { .. } => "no checkpoint",
        Error::UnknownPool { .. } => "unknown",
        error => panic!("{error}"),
    };
    assert_eq!(refused(PoolId(9, 0)), "unknown");
    let id = m.a.world().graph_pool_id();
    m.a.begin_allocate_to_pool(id, millpond::Filter::Any).unwrap();
    let block = m.alloc(4 * MIB);
    m.a.end_allocate_to_pool(id).unwrap();
    m.record(block, 1);
    m.free(block);
    assert_eq!(refused(id), "no checkpoint", "an event is pending");
    m.sim.sync();
    m.a.process_events(&on(0)).unwrap();
    m.a.checkpoint(id, &on(0)).unwrap();
    m.a.release_pool(id).unwrap();
    assert_eq!(refused(id), "no checkpoint", "its last owner is gone");
}

/// R5.38: a checkpoint first frees what a capture deferred.
#[test]
fn r5_38_deferred_frees_are_converted_first() {
    let m = common::lenient(256 * MIB, "");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), millpond_driver::CaptureMode::Global).unwrap();
    let block = m.alloc_on(4 * MIB, 1);
    m.wait(2, 1);
    m.a.record_stream(block, stream(2), &on(1)).unwrap();
    m.a.free(block, &on(1)).unwrap();
    m.wait(1, 2);
    let graph = capture.end().unwrap();
    assert_eq!(m.mapped_blocks(pool.id())[0].2, Pending);
    let saved = pool.checkpoint(&on(0)).unwrap();
    assert_eq!(saved.live().count(), 0);
    assert_eq!(m.mapped_blocks(pool.id()), [(0, 20 * MIB, Free)]);
    drop(graph);
}

/// R5.38: the streams that use a block are part of the state.
#[test]
fn r5_38_recorded_streams_come_back() {
    let m = manual(256 * MIB, "");
    let pool = MemPool::new(&m.a, Default::default()).unwrap();
    let block = alloc_in(&m, &pool, 4 * MIB);
    m.record(block, 3);
    let saved = pool.checkpoint(&on(0)).unwrap();
    pool.restore(&saved, &on(0)).unwrap();
    m.free(block);
    assert_eq!(m.sim.pending_events(), 1, "the use by stream 3 holds the block");
    assert_ne!(alloc_in(&m, &pool, 4 * MIB), block);
}

#[test]
fn r5_39_a_state_whose_segment_is_gone_is_refused_and_nothing_changes() {
    // `release_available` (R2.25) gives a cached oversize segment of a live pool back.
    let m = machine(64 * MIB, "max_split_size_mb:20");
    let pool = MemPool::new(&m.a, Default::default()).unwrap();
    let big = alloc_in(&m, &pool, 40 * MIB);
    let saved = pool.checkpoint(&on(0)).unwrap();
    m.free(big);
    let other = alloc_in(&m, &pool, 62 * MIB);
    assert_eq!(m.reserved(), 62 * MIB);
    let before = m.mapped_blocks(pool.id());
    let error = pool.restore(&saved, &on(0)).unwrap_err();
    assert!(matches!(error, Error::StaleCheckpoint { .. }), "{error}");
    assert_eq!(m.mapped_blocks(pool.id()), before);
    m.free(other);
}

#[test]
fn r5_39_small_and_large_segments_of_several_streams_come_back() {
    for conf in KINDS {
        let m = machine(256 * MIB, conf);
        let pool = MemPool::new(&m.a, Default::default()).unwrap();
        let scope = pool.enter().unwrap();
        let all = [m.alloc_on(1000, 0), m.alloc_on(3 * MIB, 0), m.alloc_on(1000, 1), m.alloc_on(12 * MIB, 1)];
        drop(scope);
        let before = m.mapped_blocks(pool.id());
        let saved = pool.checkpoint(&on(0)).unwrap();
        m.free_all(all);
        let (freed, live) = sorted(pool.restore(&saved, &on(0)).unwrap());
        let mut expected = all.to_vec();
        expected.sort_unstable();
        assert_eq!((freed, live), (vec![], expected), "{conf}");
        assert_eq!(m.mapped_blocks(pool.id()), before, "{conf}");
        assert_eq!(m.stat("allocation.small_pool.current"), 2);
        m.free_all(all);
    }
}

#[test]
fn r5_39_what_comes_back_was_asked_for_whole() {
    for conf in KINDS {
        let m = machine(256 * MIB, conf);
        let pool = MemPool::new(&m.a, Default::default()).unwrap();
        let kept = alloc_in(&m, &pool, 3_000_001);
        let saved = pool.checkpoint(&on(0)).unwrap();
        let requested = || (m.stat("requested_bytes.all.current"), m.a.size_of(kept));
        assert_eq!(requested(), (3_000_001, Some((3_000_001, 3_000_320))), "\"{conf}\"");
        pool.restore(&saved, &on(0)).unwrap();
        assert_eq!(requested(), (3_000_320, Some((3_000_320, 3_000_320))), "\"{conf}\"");
        m.free(kept);
    }
}
