//! Pinned caches as a part of their world: in the snapshots of its allocators, and in its captures (R5.23–R5.25, R9.16).

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{DEVICE, GIB, MIB, Machine, machine, on, stream};
use millpond::{Error, Filter, HistoryOptions, HostCache, MemPool, MemPoolOptions, PoolId, World};
use millpond_driver::{Capture as _, CaptureMode, Code, Stream};
use millpond_sim::{CallKind, FaultRule};

/// Two caches of the machine's world.
fn caches(m: &Machine) -> [HostCache; 2] {
    [(); 2].map(|()| HostCache::new(m.sim.clone(), m.a.world().clone()))
}

#[test]
fn r9_16_the_snapshot_of_an_allocator_has_the_pinned_memory_of_its_world() {
    let m = machine(GIB, "");
    let [a, b] = caches(&m);
    let elsewhere = HostCache::new(m.sim.clone(), World::new(Default::default()));
    let live = m.alloc(MIB);
    for cache in [&a, &b, &elsewhere] {
        cache.record_history(Some(HistoryOptions::default()));
        cache.alloc(3 * MIB, &on(0)).unwrap();
    }
    let snapshot = m.a.snapshot(None, true);
    let sizes: Vec<_> = snapshot.host_segments.iter().map(|segment| (segment.device, segment.total_size)).collect();
    assert_eq!(sizes, [(-1, 4 * MIB); 2], "those of two caches, not that of another world");
    assert!(snapshot.host_segments.is_sorted_by_key(|segment| segment.address));
    assert_eq!(snapshot.host_traces.len(), 4, "segment_alloc and alloc of each");
    assert_eq!(snapshot.segments.len(), 1);

    let without = m.a.snapshot(None, false);
    assert_eq!((without.host_segments.len(), without.host_traces.len()), (2, 0), "R9.17");
    b.record_history(None);
    assert_eq!(m.a.snapshot(None, true).host_segments.len(), 1, "only of caches that keep a history");
    drop(a);
    assert!(m.a.snapshot(None, true).host_segments.is_empty(), "a cache that is gone");
    m.free(live);
    m.verify();
}

#[test]
fn r5_23_a_capture_takes_pinned_memory_from_the_graphs_pool_in_every_cache() {
    let m = machine(GIB, "");
    let [a, b] = caches(&m);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(7), CaptureMode::Global).unwrap();
    for cache in [&a, &b] {
        cache.record_history(Some(HistoryOptions::default()));
        cache.alloc(MIB, &on(7)).unwrap();
        cache.alloc(MIB, &on(0)).unwrap();
        let pools: Vec<PoolId> = cache.take_history().iter().map(|event| event.pool).collect();
        assert_eq!(pools, [pool.id(), pool.id(), PoolId::DEFAULT, PoolId::DEFAULT], "only what the capture asks for");
        assert!(matches!(cache.begin_allocate_to_pool(pool.id(), Filter::Any), Err(Error::ScopeOpen { .. })));
    }
    let graph = capture.end().unwrap();
    for cache in [&a, &b] {
        assert!(matches!(cache.end_allocate_to_pool(pool.id()), Err(Error::ScopeNotOpen { .. })), "R5.24");
        assert_eq!(cache.pool_use_count(pool.id()).unwrap(), 1, "the graph's");
    }
    drop(graph);
    assert_eq!(a.pool_use_count(pool.id()).unwrap(), 0, "R5.25: released with the graph");
    m.verify();
}

#[test]
fn r5_25_pinned_memory_of_a_graph_lives_as_long_as_the_graph() {
    let m = machine(GIB, "");
    let cache = HostCache::new(m.sim.clone(), m.a.world().clone());
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let record = || {
        let capture = pool.capture(stream(7), CaptureMode::Global).unwrap();
        let addr = cache.alloc(MIB, &on(7)).unwrap();
        cache.free(addr, &on(7)).unwrap();
        (addr, capture.end().unwrap())
    };
    let (first, graph) = record();
    cache.empty_cache().unwrap();
    assert_eq!(cache.size_of(first), Some((MIB, false)), "the graph owns the pool");
    drop(graph);
    // The memory pool lives on, so a second capture into it is right, where PyTorch fails an assertion.
    let (second, graph) = record();
    assert_eq!(second, first, "what the first graph left");
    drop(graph);
    cache.empty_cache().unwrap();
    assert_eq!(cache.size_of(first), None);
    assert!(cache.pool_use_count(pool.id()).is_err());

    let (third, graph) = record();
    drop(cache);
    assert_eq!(m.sim.count(CallKind::HostFree), 1, "the graph still copies from {third:#x}");
    drop(graph);
    assert_eq!(m.sim.count(CallKind::HostFree), 2, "and was the last owner of its cache");
}

#[test]
fn r5_23_a_capture_that_does_not_begin_or_end_leaves_no_scope_of_pinned_memory() {
    let m = machine(GIB, "");
    let [a, b] = caches(&m);
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let closed = |what: &str| {
        for cache in [&a, &b] {
            assert!(matches!(cache.end_allocate_to_pool(pool.id()), Err(Error::ScopeNotOpen { .. })), "{what}");
            assert!(cache.pool_use_count(pool.id()).unwrap_or(0) == 0, "{what}");
        }
        assert_eq!(m.a.pool_use_count(pool.id()).unwrap(), 1, "{what}");
        m.verify();
    };

    let default = pool.capture(Stream::default_of(DEVICE), CaptureMode::Global);
    assert!(default.is_err());
    closed("the driver did not begin");

    // Somebody holds a scope of that pool open in the second cache: the scope in the first closes again.
    b.empty_cache().unwrap();
    b.begin_allocate_to_pool(pool.id(), Filter::Any).unwrap();
    assert!(matches!(pool.capture(stream(7), CaptureMode::Global), Err(Error::ScopeOpen { .. })));
    b.end_allocate_to_pool(pool.id()).unwrap();
    b.release_pool(pool.id()).unwrap();
    closed("a scope was open");

    let capture = pool.capture(stream(7), CaptureMode::Global).unwrap();
    m.sim.fail(FaultRule::nth(CallKind::CaptureEnd, 1, Code::ERROR_STREAM_CAPTURE_INVALIDATED));
    assert!(capture.end().is_err());
    closed("the driver had no graph");
    let _ = m.sim.capture_end(stream(7));

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _capture = pool.capture(stream(8), CaptureMode::Global).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    closed("a panic dropped the capture");
}
