//! `graph_capture_record_stream_reuse`: which blocks freed in a capture are used again in it (R5.29–R5.36). Kernels are nodes
//! of the graph; a block may come again when the markers it was freed with lie behind the work of its stream.

mod common;

use std::sync::{Arc, OnceLock};

use common::{MIB, Machine, machine, manual, on, stream};
use millpond::{BlockUse, Error, Filter, MemPool, PoolId};
use millpond_driver::{Capture, CaptureMode};

const REUSE: &str = "graph_capture_record_stream_reuse:True";
const SIZE: u64 = 64 * MIB;

/// A block of stream 1, written there, then by each of `users`, which fork off; freed in the capture.
fn shared_block(m: &Machine, users: &[u64]) -> u64 {
    let block = m.alloc_on(SIZE, 1);
    m.work(1, block, SIZE);
    for &user in users {
        m.wait(user, 1);
        m.work(user, block, SIZE);
        m.a.record_stream(block, stream(user), &on(1)).unwrap();
    }
    m.a.free(block, &on(1)).unwrap();
    block
}

#[test]
fn r5_36_two_streams_no_reuse_before_the_join_reuse_after_it() {
    for (conf, reused) in [(REUSE, true), ("", false)] {
        let m = machine(1024 * MIB, conf);
        let pool = MemPool::for_graphs(&m.a).unwrap();
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        let block = shared_block(&m, &[2]);
        let before = m.alloc_on(SIZE, 1);
        assert_ne!(before, block, "{conf}: stream 2 has not joined");
        m.wait(1, 2);
        let after = m.alloc_on(SIZE, 1);
        assert_eq!(after == block, reused, "{conf}");
        m.verify();
        drop(capture.end().unwrap());
        m.free_all([before, after]);
    }
}

#[test]
fn r5_36_four_streams_all_must_have_joined() {
    let m = machine(1024 * MIB, REUSE);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    let block = shared_block(&m, &[2, 3, 4]);
    let mut others = Vec::new();
    for joining in [2, 3] {
        m.wait(1, joining);
        others.push(m.alloc_on(SIZE, 1));
    }
    assert!(!others.contains(&block), "stream 4 has not joined");
    m.wait(1, 4);
    assert_eq!(m.alloc_on(SIZE, 1), block);
    drop(capture.end().unwrap());
}

/// R5.32: visited nodes are those behind the *current* terminals, also behind nodes recorded since.
#[test]
fn r5_32_a_join_further_back_counts() {
    let m = machine(1024 * MIB, REUSE);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    let block = shared_block(&m, &[2]);
    // 2 joins 3, 3 joins 1, and 1 goes on: the marker on 2 is two nodes back.
    m.wait(3, 2);
    let scratch = m.alloc_on(2 * MIB, 1);
    m.work(3, scratch, 512);
    m.wait(1, 3);
    m.work(1, scratch, 512);
    assert_eq!(m.alloc_on(SIZE, 1), block);
    drop(capture.end().unwrap());
}

/// R5.30: the markers are taken at the free. Work that the user stream gets later does not hold the block.
#[test]
fn r5_30_markers_are_those_of_the_moment_of_the_free() {
    let m = machine(1024 * MIB, REUSE);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    let block = m.alloc_on(SIZE, 1);
    m.work(1, block, SIZE);
    m.wait(2, 1);
    m.work(2, block, SIZE);
    m.a.record_stream(block, stream(2), &on(1)).unwrap();
    let joined = {
        m.wait(1, 2);
        m.a.free(block, &on(1)).unwrap();
        // Unrelated, later work on stream 2.
        let other = m.alloc_on(2 * MIB, 2);
        m.work(2, other, 512);
        m.alloc_on(SIZE, 1)
    };
    assert_eq!(joined, block, "freed after the join: its markers lie behind stream 1's work");
    m.wait(1, 2);
    drop(capture.end().unwrap());
}

/// R5.31: a stream without terminals frees nothing; so a capture without nodes never reuses (c19d).
#[test]
fn r5_31_without_nodes_nothing_is_reused() {
    let m = machine(1024 * MIB, REUSE);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    let block = m.alloc_on(SIZE, 1);
    m.wait(2, 1);
    m.a.record_stream(block, stream(2), &on(1)).unwrap();
    m.wait(1, 2);
    m.a.free(block, &on(1)).unwrap();
    assert_ne!(m.alloc_on(SIZE, 1), block);
    drop(capture.end().unwrap());
}

/// R5.33: only a malloc on the block's own stream looks at it, with what lies behind that stream.
#[test]
fn r5_33_a_block_waits_for_a_malloc_on_its_own_stream() {
    let m = machine(1024 * MIB, REUSE);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    let scratch = m.alloc_on(2 * MIB, 1);
    m.work(1, scratch, 512);
    m.wait(2, 1);
    let block = m.alloc_on(SIZE, 2);
    m.work(2, block, SIZE);
    m.wait(1, 2);
    m.work(1, block, SIZE);
    m.a.record_stream(block, stream(1), &on(1)).unwrap();
    m.a.free(block, &on(1)).unwrap();
    let on_1 = m.alloc_on(SIZE, 1);
    assert_ne!(on_1, block);
    let state = |m: &Machine| {
        let blocks = m.a.segments_of(pool.id()).into_iter().flat_map(|segment| segment.blocks);
        blocks.into_iter().find(|b| b.addr == block).unwrap().state
    };
    assert_eq!(state(&m), BlockUse::Pending, "a malloc on stream 1 does not free a block of stream 2");
    assert_ne!(m.alloc_on(SIZE, 2), block, "stream 1's use is not behind stream 2");
    m.wait(2, 1);
    assert_eq!(m.alloc_on(SIZE, 2), block);
    m.wait(1, 2);
    drop(capture.end().unwrap());
}

/// R5.34: at the end of the capture the deferred blocks of its pool are free for the next capture at once.
#[test]
fn r5_36_shared_pool_the_next_capture_gets_what_the_first_deferred() {
    for (conf, reused) in [(REUSE, true), ("", false)] {
        let m = machine(1024 * MIB, conf);
        let pool = MemPool::for_graphs(&m.a).unwrap();
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        let block = shared_block(&m, &[2]);
        m.wait(1, 2);
        let first = capture.end().unwrap();
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        let second = m.alloc_on(SIZE, 1);
        // Without the option they wait for a malloc outside of captures (R5.37).
        assert_eq!(second == block, reused, "{conf}");
        drop((first, capture.end().unwrap()));
        m.free(second);
    }
}

/// R5.34, R5.37: streams that used a block before the capture still hold it after the capture's end; those recorded in it do not.
#[test]
fn r5_36_a_use_before_the_capture_outlives_it() {
    for conf in [REUSE, ""] {
        let m = manual(1024 * MIB, conf);
        let pool = MemPool::for_graphs(&m.a).unwrap();
        let block = {
            let _scope = pool.enter().unwrap();
            m.alloc_on(SIZE, 1)
        };
        m.record(block, 3);
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        m.work(1, block, SIZE);
        m.wait(2, 1);
        m.work(2, block, SIZE);
        m.a.record_stream(block, stream(2), &on(1)).unwrap();
        m.a.free(block, &on(1)).unwrap();
        m.wait(1, 2);
        let in_capture = m.alloc_on(SIZE, 1);
        assert_ne!(in_capture, block, "{conf}: stream 3 is in no capture, so there are no markers");
        let graph = capture.end().unwrap();

        let in_pool = |m: &Machine| {
            let _scope = pool.enter().unwrap();
            m.alloc_on(SIZE, 1)
        };
        let pending = in_pool(&m);
        assert_ne!(pending, block, "{conf}: stream 3's event is not complete");
        assert_eq!(m.sim.pending_events(), 1, "{conf}: one event, on stream 3");
        m.sim.advance(1);
        assert_eq!(in_pool(&m), block, "{conf}");
        drop(graph);
    }
}

#[test]
fn r5_30_all_streams_must_capture_into_the_same_graph() {
    let m = machine(1024 * MIB, REUSE);
    let (one, two) = (MemPool::for_graphs(&m.a).unwrap(), MemPool::for_graphs(&m.a).unwrap());
    let first = one.capture(stream(1), CaptureMode::Relaxed).unwrap();
    let second = two.capture(stream(3), CaptureMode::Relaxed).unwrap();
    let block = m.alloc_on(SIZE, 1);
    m.work(1, block, SIZE);
    m.a.record_stream(block, stream(3), &on(1)).unwrap();
    let error = m.a.free(block, &on(1)).unwrap_err();
    assert!(matches!(error, Error::CaptureMismatch), "{error}");
    m.verify();
    assert_ne!(m.alloc_on(SIZE, 1), block, "a block whose free failed is not used again");
    drop((second.end().unwrap(), first.end().unwrap()));
}

#[test]
fn r5_34_ending_the_scope_while_its_streams_still_capture_is_an_error() {
    let m = machine(1024 * MIB, REUSE);
    let pool = m.a.world().graph_pool_id();
    let id = Arc::new(OnceLock::new());
    m.a.begin_allocate_to_pool(pool, Filter::Capture(id.clone())).unwrap();
    m.sim.capture_begin(stream(1), CaptureMode::Global).unwrap();
    id.set(m.sim.capture_info(stream(1)).unwrap().id).unwrap();
    m.a.mark_capture_begin();
    let block = m.alloc_on(SIZE, 1);
    m.work(1, block, SIZE);
    m.wait(2, 1);
    m.work(2, block, SIZE);
    m.a.record_stream(block, stream(2), &on(1)).unwrap();
    m.a.free(block, &on(1)).unwrap();
    // Binds the capture to the pool (R5.31).
    m.alloc_on(2 * MIB, 1);
    let error = m.a.end_allocate_to_pool(pool).unwrap_err();
    assert!(matches!(error, Error::CaptureScope { .. }), "{error}");
    m.verify();
}

/// R5.29: without foreign streams a block is free at once, also in a capture, with and without the option.
#[test]
fn r3_4_a_block_of_one_stream_is_reused_at_once_in_a_capture() {
    for conf in [REUSE, ""] {
        let m = machine(1024 * MIB, conf);
        let pool = MemPool::for_graphs(&m.a).unwrap();
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        let block = m.alloc_on(SIZE, 1);
        m.a.free(block, &on(1)).unwrap();
        assert_eq!(m.alloc_on(SIZE, 1), block);
        drop(capture.end().unwrap());
    }
}

/// R5.22: an eager stream of another thread goes on processing events while a capture runs, and never sees deferred blocks.
#[test]
fn r5_22_a_stream_that_does_not_capture_processes_events_during_a_capture() {
    let m = manual(1024 * MIB, "");
    let eager = m.alloc(8 * MIB);
    m.record(eager, 5);
    m.free(eager);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Relaxed).unwrap();
    assert_eq!(m.a.segments_of(PoolId::DEFAULT).len(), 1);
    m.sim.advance(1);
    assert_eq!(m.alloc(8 * MIB), eager);
    drop(capture.end().unwrap());
}
