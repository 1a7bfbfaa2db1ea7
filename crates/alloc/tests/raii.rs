//! What gives itself back: buffers, memory pools, scopes, captures, the allocator; also when a panic drops them.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{BASE, GIB, MIB, machine, manual, stream};
use millpond::{Buffer, Error, MemPool, MemPoolOptions, PoolId};
use millpond_driver::{Capture, CaptureMode, CaptureStatus, Code, Memory, Status};
use millpond_sim::{CallKind, FaultRule};

/// Runs something that panics, without the noise of a backtrace of interest to nobody.
fn panics(body: impl FnOnce()) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        body();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
}

#[test]
fn a_dropped_buffer_gives_its_block_back() {
    let m = machine(GIB, "");
    let on = m.a.on(stream(0));
    let buffer = on.alloc(4 * MIB - 100).unwrap();
    assert_eq!((buffer.addr(), buffer.len(), buffer.stream()), (BASE, 4 * MIB - 100, stream(0)));
    drop(buffer);
    assert_eq!((m.allocated(), on.alloc(4 * MIB).unwrap().addr()), (0, BASE));
    let empty = on.alloc(0).unwrap();
    assert!(empty.is_empty() && empty.addr() == 0);
    drop(empty);
    assert!(m.a.last_error().is_none());
}

#[test]
fn a_buffer_used_on_another_stream_is_not_handed_out_before_that_stream_has_passed() {
    let m = manual(GIB, "");
    let on = m.a.on(stream(0));
    let buffer = on.alloc(4 * MIB).unwrap();
    let guard = buffer.use_on(stream(1)).unwrap();
    assert_eq!((guard.addr(), guard.stream()), (BASE, stream(1)));
    drop(buffer);
    let other = on.alloc(4 * MIB).unwrap();
    assert_ne!(other.addr(), BASE);
    m.sim.advance(1);
    assert_eq!(on.alloc(4 * MIB).unwrap().addr(), BASE);
}

#[test]
fn a_buffer_goes_to_another_thread_and_is_dropped_there() {
    let m = machine(GIB, "");
    let buffer = m.a.on(stream(2)).alloc(4 * MIB).unwrap();
    std::thread::spawn(move || drop(buffer)).join().unwrap();
    assert_eq!((m.allocated(), m.alloc_on(4 * MIB, 2)), (0, BASE));
}

#[test]
fn raw_addresses_and_back() {
    let m = machine(GIB, "");
    let raw = m.a.on(stream(1)).alloc(5 * MIB).unwrap().into_raw();
    assert_eq!(m.allocated(), 5 * MIB, "into_raw lets go without freeing");
    let buffer = Buffer::from_raw(&m.a, raw, stream(1)).unwrap();
    assert_eq!((buffer.addr(), buffer.len(), buffer.stream()), (raw, 5 * MIB, stream(1)));
    drop(buffer);
    assert_eq!(m.allocated(), 0);
    assert!(Buffer::from_raw(&m.a, raw, stream(1)).is_none(), "no live block starts there any more");
    assert!(Buffer::from_raw(&m.a, BASE + 512, stream(1)).is_none());
}

/// An error in a drop is left for `last_error`, and the block is not used again.
#[test]
fn an_error_while_dropping_a_buffer_leaks_the_block() {
    let m = manual(GIB, "");
    let on = m.a.on(stream(0));
    let buffer = on.alloc(4 * MIB).unwrap();
    let _ = buffer.use_on(stream(1)).unwrap();
    m.sim.fail(FaultRule::nth(CallKind::EventRecord, 1, Code::ERROR_UNKNOWN));
    drop(buffer);
    let error = m.a.last_error().expect("the error of the drop");
    assert!(matches!(&error, Error::Driver(driver) if driver.code == Code::ERROR_UNKNOWN), "{error}");
    assert!(m.a.last_error().is_none(), "it is taken once");
    m.verify();
    assert_ne!(on.alloc(4 * MIB).unwrap().addr(), BASE);
}

#[test]
fn an_error_of_an_explicit_free_is_returned() {
    let m = manual(GIB, "");
    let buffer = m.a.on(stream(0)).alloc(4 * MIB).unwrap();
    let _ = buffer.use_on(stream(1)).unwrap();
    m.sim.fail(FaultRule::nth(CallKind::EventRecord, 1, Code::ERROR_UNKNOWN));
    assert!(matches!(buffer.free(), Err(Error::Driver(_))));
    assert!(m.a.last_error().is_none(), "it was not dropped");
}

#[test]
fn a_panic_drops_buffers_and_scopes() {
    let m = machine(GIB, "");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    panics(|| {
        let _scope = pool.enter().unwrap();
        let _buffer = m.a.on(stream(0)).alloc(4 * MIB).unwrap();
        assert_eq!(m.a.pool_use_count(pool.id()).unwrap(), 2);
    });
    assert_eq!((m.allocated(), m.a.pool_use_count(pool.id()).unwrap()), (0, 1));
    let outside = m.alloc(4 * MIB);
    assert_eq!(m.mapped_blocks(PoolId::DEFAULT).len(), 2, "the scope is closed");
    m.verify();
    m.free(outside);
    drop(pool.enter().unwrap());
}

#[test]
fn scopes_nest_and_close_in_any_order() {
    let m = machine(GIB, "");
    let [a, b] = [(); 2].map(|()| MemPool::new(&m.a, MemPoolOptions::default()).unwrap());
    let (outer, inner) = (a.enter().unwrap(), b.enter().unwrap());
    assert!(matches!(a.enter(), Err(Error::ScopeOpen { .. })));
    drop(outer);
    m.alloc(4 * MIB);
    assert_eq!(m.mapped_blocks(b.id()).len(), 2);
    drop(inner);
    m.alloc(4 * MIB);
    assert_eq!(m.mapped_blocks(PoolId::DEFAULT).len(), 2);
    assert_eq!([&a, &b].map(|pool| m.a.pool_use_count(pool.id()).unwrap()), [1, 1]);
}

#[test]
fn a_capture_that_is_dropped_is_ended_and_its_graph_is_thrown_away() {
    let m = machine(GIB, "");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let mut address = 0;
    panics(|| {
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        assert_eq!(capture.stream(), stream(1));
        let buffer = m.a.on(stream(1)).alloc(4 * MIB).unwrap();
        m.work(1, buffer.addr(), 512);
        address = buffer.addr();
    });
    assert_eq!(m.sim.capture_status(stream(1)).unwrap(), CaptureStatus::None);
    assert_eq!((m.calls(CallKind::GraphDestroy), m.a.pool_use_count(pool.id()).unwrap()), (1, 1));
    m.verify();
    // Eager work goes to the default pool again, and the pool can be captured into anew.
    m.alloc_on(4 * MIB, 1);
    assert_eq!(m.mapped_blocks(PoolId::DEFAULT).len(), 2);
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    assert_eq!(m.alloc_on(4 * MIB, 1), address);
    drop(capture.end().unwrap());
}

#[test]
fn a_captured_graph_holds_the_memory_of_its_pool() {
    let m = machine(GIB, "");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let graph = {
        let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
        drop(m.a.on(stream(1)).alloc(4 * MIB).unwrap());
        capture.end().unwrap()
    };
    assert_eq!(graph.pool(), pool.id());
    drop(pool);
    m.empty();
    assert_eq!(m.reserved(), 20 * MIB, "R2.34: the graph owns the pool");
    drop(graph);
    assert_eq!((m.calls(CallKind::GraphDestroy), m.reserved()), (1, 20 * MIB), "R5.8: freeable, not freed");
    m.empty();
    assert_eq!(m.reserved(), 0);
}

#[test]
fn a_capture_that_was_invalidated_ends_with_an_error_and_frees_its_pool() {
    let m = machine(GIB, "");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    // An unsafe call of the program's own, which clears its own error.
    assert!(m.sim.mem_alloc(common::DEVICE, MIB).is_err());
    m.sim.take_last_error();
    let error = m.a.on(stream(1)).alloc(4 * MIB).unwrap_err();
    assert!(matches!(error, Error::CaptureInvalidated { .. }), "R5.22: {error}");
    let error = capture.end().unwrap_err();
    assert!(matches!(&error, Error::Driver(d) if d.code == Code::ERROR_STREAM_CAPTURE_INVALIDATED), "{error}");
    assert_eq!(m.a.pool_use_count(pool.id()).unwrap(), 1);
    m.alloc_on(4 * MIB, 1);
    assert_eq!(m.mapped_blocks(PoolId::DEFAULT).len(), 2);
}

#[test]
fn a_capture_that_cannot_begin_leaves_no_scope_behind() {
    let m = machine(GIB, "");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let error = pool.capture(stream(0), CaptureMode::Global).unwrap_err();
    assert!(matches!(error, Error::Driver(_)), "R5.23: not on the default stream: {error}");
    m.alloc(30 * MIB);
    assert_eq!(m.a.pool_use_count(pool.id()).unwrap(), 1);
    drop(pool.enter().unwrap());
}

#[test]
fn a_mem_pool_dropped_with_live_buffers_gives_the_rest_back_later() {
    let m = machine(GIB, "");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let buffer = {
        let _scope = pool.enter().unwrap();
        m.a.on(stream(0)).alloc(4 * MIB).unwrap()
    };
    drop(pool);
    assert_eq!(m.reserved(), 20 * MIB);
    drop(buffer);
    m.empty();
    assert_eq!(m.reserved(), 0);
}

#[test]
fn the_last_owner_gives_cached_memory_back() {
    for conf in ["", "expandable_segments:True"] {
        let m = machine(GIB, conf);
        let buffer = m.a.on(stream(0)).alloc(4 * MIB).unwrap();
        let sim = m.sim.clone();
        drop(m);
        assert_eq!(sim.mem_info(common::DEVICE).unwrap().0, GIB - 20 * MIB, "{conf}: the buffer owns the allocator");
        drop(buffer);
        assert_eq!(sim.mem_info(common::DEVICE).unwrap().0, GIB, "{conf}");
        assert_eq!(sim.count(CallKind::Reserve), sim.count(CallKind::AddrFree), "{conf}");
    }
}
