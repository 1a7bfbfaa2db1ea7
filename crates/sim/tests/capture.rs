//! Stream capture: forks and joins, nodes, and what CUDA forbids.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{Sim, SimConfig};

const D: Device = Device(0);
const ILLEGAL_STATE: Code = Code(401);

fn stream(raw: u64) -> Stream {
    Stream::new(D, raw)
}

fn sim() -> Arc<Sim> {
    Sim::new(SimConfig::default())
}

fn unchecked() -> Arc<Sim> {
    Sim::new(SimConfig { capture_checks: false, ..SimConfig::default() })
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().code
}

fn begin(sim: &Sim, raw: u64) {
    sim.capture_begin(stream(raw), CaptureMode::Global).unwrap();
}

/// `to` waits for all work of `from`.
fn order(sim: &Sim, from: u64, to: u64) -> Result<Event> {
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, stream(from))?;
    sim.stream_wait_event(stream(to), event)?;
    Ok(event)
}

fn work(sim: &Sim, raw: u64) -> Node {
    sim.launch(stream(raw), 1, &[], &[]).unwrap();
    let terminals = terminals(sim, raw);
    assert_eq!(terminals.len(), 1);
    terminals[0]
}

fn terminals(sim: &Sim, raw: u64) -> Vec<Node> {
    sim.capture_info(stream(raw)).unwrap().terminals
}

fn status(sim: &Sim, raw: u64) -> CaptureStatus {
    sim.capture_status(stream(raw)).unwrap()
}

#[test]
fn work_becomes_a_chain_of_nodes() {
    let sim = sim();
    begin(&sim, 1);
    let info = sim.capture_info(stream(1)).unwrap();
    assert_eq!((info.status, info.terminals.as_slice()), (CaptureStatus::Active, [].as_slice()));
    let first = work(&sim, 1);
    let second = work(&sim, 1);
    assert_eq!(sim.node_dependencies(first), Ok(vec![]));
    assert_eq!(sim.node_dependencies(second), Ok(vec![first]));
    let graph = sim.capture_end(stream(1)).unwrap();
    assert_eq!(info.graph, Some(graph));
    assert_eq!(sim.graph_nodes(graph), [first, second]);
    assert_eq!(sim.capture_info(stream(1)).unwrap(), CaptureInfo::default());
    sim.graph_destroy(graph).unwrap();
    assert_eq!(code(sim.node_dependencies(first)), Code::ERROR_INVALID_VALUE);
    assert_eq!(code(sim.graph_destroy(graph)), Code::ERROR_INVALID_VALUE);
}

#[test]
fn a_fork_joins_the_capture_and_a_join_unites_the_terminals() {
    let sim = sim();
    begin(&sim, 1);
    let a = work(&sim, 1);
    order(&sim, 1, 2).unwrap();
    assert_eq!(terminals(&sim, 2), [a]);
    let b = work(&sim, 2);
    let c = work(&sim, 1);
    order(&sim, 2, 1).unwrap();
    assert_eq!(terminals(&sim, 1), [c, b]);
    let d = work(&sim, 1);
    assert_eq!(sim.node_dependencies(d), Ok(vec![c, b]));
    assert_eq!(sim.capture_info(stream(1)).unwrap().id, sim.capture_info(stream(2)).unwrap().id);
    let graph = sim.capture_end(stream(1)).unwrap();
    assert_eq!(sim.graph_nodes(graph).len(), 4);
    assert_eq!(status(&sim, 2), CaptureStatus::None);
}

#[test]
fn an_event_remembers_the_terminals_of_its_recording() {
    let sim = sim();
    begin(&sim, 1);
    let a = work(&sim, 1);
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, stream(1)).unwrap();
    work(&sim, 1);
    sim.stream_wait_event(stream(2), event).unwrap();
    assert_eq!(terminals(&sim, 2), [a]);
}

#[test]
fn ids_of_captures_are_never_used_twice() {
    let sim = sim();
    let mut ids = Vec::new();
    for raw in [1, 1, 2] {
        begin(&sim, raw);
        ids.push(sim.capture_info(stream(raw)).unwrap().id);
        sim.capture_end(stream(raw)).unwrap();
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_fork_without_work_needs_no_join_but_one_with_work_is_unjoined() {
    let sim = sim();
    begin(&sim, 1);
    work(&sim, 1);
    order(&sim, 1, 2).unwrap();
    sim.capture_end(stream(1)).unwrap();
    begin(&sim, 1);
    work(&sim, 1);
    order(&sim, 1, 2).unwrap();
    work(&sim, 2);
    assert_eq!(code(sim.capture_end(stream(1))), Code::ERROR_STREAM_CAPTURE_UNJOINED);
    assert_eq!((status(&sim, 1), status(&sim, 2)), (CaptureStatus::None, CaptureStatus::None));
}

#[test]
fn the_default_stream_cannot_capture_and_a_capture_cannot_begin_twice() {
    let sim = sim();
    assert_eq!(code(sim.capture_begin(stream(0), CaptureMode::Global)), Code::ERROR_STREAM_CAPTURE_UNSUPPORTED);
    begin(&sim, 1);
    assert_eq!(code(sim.capture_begin(stream(1), CaptureMode::Global)), ILLEGAL_STATE);
    assert_eq!(code(sim.capture_end(stream(2))), ILLEGAL_STATE);
    assert_eq!(code(order(&sim, 1, 0)), Code::ERROR_STREAM_CAPTURE_IMPLICIT);
}

#[test]
fn a_capture_ends_on_the_stream_where_it_began() {
    let sim = sim();
    begin(&sim, 1);
    order(&sim, 1, 2).unwrap();
    assert_eq!(code(sim.capture_end(stream(2))), Code::ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(code(sim.capture_end(stream(1))), Code::ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(&sim, 1);
    sim.capture_end(stream(1)).unwrap();
}

#[test]
fn waiting_for_work_outside_of_the_capture_is_an_isolation_error_and_invalidates() {
    let sim = sim();
    begin(&sim, 1);
    assert_eq!(code(order(&sim, 2, 1)), Code::ERROR_STREAM_CAPTURE_ISOLATION);
    assert_eq!(status(&sim, 1), CaptureStatus::Invalidated);
    assert_eq!(code(sim.launch(stream(1), 1, &[], &[])), Code::ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_eq!(code(sim.capture_end(stream(1))), Code::ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_eq!(status(&sim, 1), CaptureStatus::None);
}

#[test]
fn two_captures_cannot_be_merged() {
    let sim = sim();
    begin(&sim, 1);
    begin(&sim, 2);
    assert_eq!(code(order(&sim, 1, 2)), Code::ERROR_STREAM_CAPTURE_MERGE);
    assert_eq!((status(&sim, 1), status(&sim, 2)), (CaptureStatus::Invalidated, CaptureStatus::Invalidated));
}

#[test]
fn a_captured_event_can_be_neither_queried_nor_waited_for_by_the_host() {
    let sim = sim();
    for ask in [|sim: &Sim, event| sim.event_query(event).map(|_| ()), |sim: &Sim, event| sim.event_synchronize(event)]
    {
        begin(&sim, 1);
        let event = order(&sim, 1, 2).unwrap();
        sim.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
        assert_eq!(code(ask(&sim, event)), Code::ERROR_CAPTURED_EVENT, "in every mode");
        sim.exchange_capture_mode(CaptureMode::Global).unwrap();
        assert_eq!(code(sim.capture_end(stream(1))), Code::ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_eq!(code(ask(&sim, event)), Code::ERROR_CAPTURED_EVENT, "also when the capture is over");
        sim.event_record(event, stream(1)).unwrap();
        ask(&sim, event).unwrap();
    }
}

#[test]
fn a_capturing_stream_cannot_be_synchronised() {
    let sim = sim();
    begin(&sim, 1);
    sim.stream_synchronize(stream(2)).unwrap();
    assert_eq!(status(&sim, 1), CaptureStatus::Active);
    assert_eq!(code(sim.stream_synchronize(stream(1))), Code::ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(status(&sim, 1), CaptureStatus::Invalidated);
}

#[test]
fn unsafe_calls_invalidate_a_capture_unless_the_mode_allows_them() {
    use CaptureMode::{Global, Relaxed, ThreadLocal};
    // (mode of the capture, mode of the calling thread, in the capturing thread?, forbidden?)
    let cases = [
        (Global, Global, true, true),
        (Global, ThreadLocal, true, true),
        (Global, Relaxed, true, false),
        (ThreadLocal, Global, true, true),
        (Relaxed, Global, true, false),
        (Relaxed, ThreadLocal, true, false),
        (Global, Global, false, true),
        (Global, ThreadLocal, false, false),
        (Global, Relaxed, false, false),
        (ThreadLocal, Global, false, false),
    ];
    let calls: [fn(&Sim, u64) -> Result<()>; 4] = [
        |sim, _| sim.mem_alloc(D, 1).map(|_| ()),
        |sim, addr| sim.mem_free(D, addr),
        |sim, _| sim.device_synchronize(D),
        |sim, _| sim.host_alloc(1, HostFlags::default()).map(|_| ()),
    ];
    for (capture, thread, same, forbidden) in cases {
        for call in calls {
            let sim = sim();
            let addr = sim.mem_alloc(D, 1).unwrap();
            sim.capture_begin(stream(1), capture).unwrap();
            let run = || {
                let before = sim.exchange_capture_mode(thread).unwrap();
                let result = call(&sim, addr);
                assert_eq!(sim.exchange_capture_mode(before), Ok(thread));
                result
            };
            let result = if same { run() } else { std::thread::scope(|scope| scope.spawn(run).join().unwrap()) };
            let expected = if forbidden { CaptureStatus::Invalidated } else { CaptureStatus::Active };
            assert_eq!(status(&sim, 1), expected, "{capture:?} {thread:?} {same}");
            assert_eq!(
                result.err().map(|error| error.code),
                forbidden.then_some(Code::ERROR_STREAM_CAPTURE_UNSUPPORTED)
            );
        }
    }
}

#[test]
fn asking_an_ordinary_event_is_unsafe_only_if_the_machine_says_so() {
    for (event_query_unsafe, expected) in [(false, CaptureStatus::Active), (true, CaptureStatus::Invalidated)] {
        let sim = Sim::new(SimConfig { event_query_unsafe, ..SimConfig::default() });
        let event = sim.event_create(D).unwrap();
        begin(&sim, 1);
        assert_eq!(sim.event_query(event).is_err(), event_query_unsafe);
        assert_eq!(status(&sim, 1), expected);
    }
}

#[test]
fn a_capture_that_is_not_relaxed_ends_in_the_thread_where_it_began() {
    let sim = sim();
    let end = || std::thread::scope(|scope| scope.spawn(|| sim.capture_end(stream(1))).join().unwrap());
    sim.capture_begin(stream(1), CaptureMode::ThreadLocal).unwrap();
    assert_eq!(code(end()), Code::ERROR_STREAM_CAPTURE_WRONG_THREAD);
    sim.capture_end(stream(1)).unwrap();
    sim.capture_begin(stream(1), CaptureMode::Relaxed).unwrap();
    end().unwrap();
}

#[test]
fn without_checks_a_capture_behaves_as_in_the_golden_recordings() {
    let sim = unchecked();
    begin(&sim, 1);
    let addr = sim.mem_alloc(D, 1).unwrap();
    sim.mem_free(D, addr).unwrap();
    sim.device_synchronize(D).unwrap();
    sim.stream_synchronize(stream(1)).unwrap();
    order(&sim, 3, 1).unwrap();
    let event = order(&sim, 1, 2).unwrap();
    assert_eq!(sim.event_query(event), Ok(true));
    work(&sim, 2);
    assert_eq!(status(&sim, 1), CaptureStatus::Active);
    sim.capture_end(stream(1)).unwrap();
}

#[test]
fn recordings_inside_of_a_capture_are_not_pending_events() {
    let sim = Sim::new(SimConfig { events: millpond_sim::EventMode::Manual, ..SimConfig::default() });
    begin(&sim, 1);
    order(&sim, 1, 2).unwrap();
    assert_eq!(sim.pending_events(), 0);
    order(&sim, 3, 4).unwrap();
    assert_eq!(sim.pending_events(), 1);
}

#[test]
fn destroying_a_stream_ends_the_capture_that_began_on_it_and_invalidates_others() {
    let sim = sim();
    begin(&sim, 1);
    order(&sim, 1, 2).unwrap();
    sim.stream_destroy(stream(2)).unwrap();
    assert_eq!(status(&sim, 1), CaptureStatus::Invalidated);
    order(&sim, 3, 4).unwrap();
    begin(&sim, 3);
    order(&sim, 3, 4).unwrap();
    sim.stream_destroy(stream(1)).unwrap();
    sim.stream_destroy(stream(3)).unwrap();
    assert_eq!(status(&sim, 4), CaptureStatus::None);
    sim.mem_alloc(D, 1).unwrap();
}

#[test]
fn events_from_before_a_capture_complete_when_the_stream_is_synchronised_without_checks() {
    let manual = SimConfig { events: millpond_sim::EventMode::Manual, capture_checks: false, ..SimConfig::default() };
    let sim = Sim::new(manual);
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, stream(1)).unwrap();
    begin(&sim, 1);
    sim.stream_synchronize(stream(1)).unwrap();
    assert_eq!(sim.event_query(event), Ok(true));
}
