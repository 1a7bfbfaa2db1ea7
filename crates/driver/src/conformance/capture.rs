//! Stream capture.

use super::{D, MIB, Subject, code};
use crate::{CaptureInfo, CaptureMode, CaptureStatus, Code, Driver, Stream};

super::listed![
    a_stream_captures_between_begin_and_end,
    work_becomes_nodes_that_depend_on_each_other,
    a_fork_that_is_joined_is_part_of_the_capture,
    a_fork_that_is_not_joined_fails_the_capture,
    an_allocation_during_a_global_capture_is_refused_and_ends_it,
    a_thread_in_relaxed_mode_may_allocate_during_a_capture,
    the_default_stream_does_not_capture,
    each_capture_has_its_own_id,
];

/// A stream and memory for its work.
fn scene(driver: &dyn Driver) -> (Stream, u64) {
    (driver.stream_create(D).unwrap(), driver.mem_alloc(D, MIB).unwrap())
}

fn leave(driver: &dyn Driver, (stream, addr): (Stream, u64)) {
    driver.mem_free(D, addr).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn a_stream_captures_between_begin_and_end(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    assert_eq!(driver.capture_status(stream), Ok(CaptureStatus::None));
    assert_eq!(driver.capture_info(stream), Ok(CaptureInfo::default()));
    driver.capture_begin(stream, CaptureMode::ThreadLocal).unwrap();
    assert_eq!(driver.capture_status(stream), Ok(CaptureStatus::Active));
    driver.memset_async(addr, 1, MIB, stream).unwrap();
    let info = driver.capture_info(stream).unwrap();
    assert_eq!((info.status, info.terminals.len()), (CaptureStatus::Active, 1));
    assert!(info.graph.is_some());
    let graph = driver.capture_end(stream).unwrap();
    assert_eq!(driver.capture_status(stream), Ok(CaptureStatus::None));
    driver.graph_destroy(graph).unwrap();
    leave(driver, (stream, addr));
}

fn work_becomes_nodes_that_depend_on_each_other(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    driver.capture_begin(stream, CaptureMode::ThreadLocal).unwrap();
    let mut before = Vec::new();
    for value in 0..3 {
        driver.memset_async(addr, value, MIB, stream).unwrap();
        let terminals = driver.capture_info(stream).unwrap().terminals;
        assert_eq!(terminals.len(), 1);
        assert_eq!(driver.node_dependencies(terminals[0]), Ok(before));
        before = terminals;
    }
    let graph = driver.capture_end(stream).unwrap();
    driver.graph_destroy(graph).unwrap();
    leave(driver, (stream, addr));
}

fn a_fork_that_is_joined_is_part_of_the_capture(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    let side = driver.stream_create(D).unwrap();
    let (fork, join) = (driver.event_create(D).unwrap(), driver.event_create(D).unwrap());
    driver.capture_begin(stream, CaptureMode::ThreadLocal).unwrap();
    driver.memset_async(addr, 1, 512, stream).unwrap();
    driver.event_record(fork, stream).unwrap();
    driver.stream_wait_event(side, fork).unwrap();
    assert_eq!(driver.capture_status(side), Ok(CaptureStatus::Active));
    assert_eq!(driver.capture_info(side).unwrap().id, driver.capture_info(stream).unwrap().id);
    driver.memset_async(addr + 512, 2, 512, side).unwrap();
    driver.memset_async(addr + 1024, 3, 512, stream).unwrap();
    driver.event_record(join, side).unwrap();
    driver.stream_wait_event(stream, join).unwrap();
    assert_eq!(driver.capture_info(stream).unwrap().terminals.len(), 2, "both branches");
    let graph = driver.capture_end(stream).unwrap();
    assert_eq!(driver.capture_status(side), Ok(CaptureStatus::None));
    driver.graph_destroy(graph).unwrap();
    driver.event_destroy(fork).unwrap();
    driver.event_destroy(join).unwrap();
    driver.stream_destroy(side).unwrap();
    leave(driver, (stream, addr));
}

fn a_fork_that_is_not_joined_fails_the_capture(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    let side = driver.stream_create(D).unwrap();
    let fork = driver.event_create(D).unwrap();
    driver.capture_begin(stream, CaptureMode::ThreadLocal).unwrap();
    driver.event_record(fork, stream).unwrap();
    driver.stream_wait_event(side, fork).unwrap();
    driver.memset_async(addr, 2, 512, side).unwrap();
    assert_eq!(code(subject, driver.capture_end(stream)), Code::ERROR_STREAM_CAPTURE_UNJOINED);
    assert_eq!(driver.capture_status(stream), Ok(CaptureStatus::None));
    driver.event_destroy(fork).unwrap();
    driver.stream_destroy(side).unwrap();
    leave(driver, (stream, addr));
}

fn an_allocation_during_a_global_capture_is_refused_and_ends_it(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    driver.capture_begin(stream, CaptureMode::Global).unwrap();
    assert_eq!(code(subject, driver.mem_alloc(D, MIB)), Code::ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(driver.capture_status(stream), Ok(CaptureStatus::Invalidated));
    assert_eq!(code(subject, driver.capture_end(stream)), Code::ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_eq!(driver.capture_status(stream), Ok(CaptureStatus::None));
    leave(driver, (stream, addr));
}

fn a_thread_in_relaxed_mode_may_allocate_during_a_capture(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    driver.capture_begin(stream, CaptureMode::ThreadLocal).unwrap();
    assert_eq!(driver.exchange_capture_mode(CaptureMode::Relaxed), Ok(CaptureMode::Global));
    let more = driver.mem_alloc(D, MIB).unwrap();
    assert_eq!(driver.exchange_capture_mode(CaptureMode::Global), Ok(CaptureMode::Relaxed));
    driver.memset_async(more, 1, MIB, stream).unwrap();
    let graph = driver.capture_end(stream).unwrap();
    driver.graph_destroy(graph).unwrap();
    driver.mem_free(D, more).unwrap();
    leave(driver, (stream, addr));
}

fn the_default_stream_does_not_capture(subject: &Subject<'_>) {
    let refused = subject.driver.capture_begin(Stream::default_of(D), CaptureMode::Relaxed);
    assert_eq!(code(subject, refused), Code::ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

fn each_capture_has_its_own_id(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (stream, addr) = scene(driver);
    let mut ids = Vec::new();
    for _ in 0..2 {
        driver.capture_begin(stream, CaptureMode::Relaxed).unwrap();
        driver.memset_async(addr, 1, 512, stream).unwrap();
        ids.push(driver.capture_info(stream).unwrap().id);
        let graph = driver.capture_end(stream).unwrap();
        driver.graph_destroy(graph).unwrap();
    }
    assert_ne!(ids[0], ids[1]);
    leave(driver, (stream, addr));
}
