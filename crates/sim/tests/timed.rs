//! Timed mode: work has a duration on a virtual clock.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{CallKind, CostTable, EventMode, Sim, SimConfig};

const D: Device = Device(0);
const A: Stream = Stream::new(D, 1);
const B: Stream = Stream::new(D, 2);

fn sim() -> Arc<Sim> {
    Sim::new(SimConfig { events: EventMode::Timed, cost: CostTable::free(), ..SimConfig::default() })
}

fn work(sim: &Sim, stream: Stream, us: u64) {
    sim.launch(stream, us, &[], &[]).unwrap();
}

fn record(sim: &Sim, stream: Stream) -> Event {
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, stream).unwrap();
    event
}

#[test]
fn an_event_completes_when_the_work_before_it_is_done_and_streams_are_fifo() {
    let sim = sim();
    work(&sim, A, 10);
    let first = record(&sim, A);
    work(&sim, A, 5);
    let second = record(&sim, A);
    let other = record(&sim, B);
    assert_eq!(sim.event_query(other), Ok(true), "stream B has nothing to do");
    assert_eq!(sim.pending_events(), 2);
    for (us, expected) in [(9, [false, false]), (1, [true, false]), (4, [true, false]), (1, [true, true])] {
        sim.advance_clock(us);
        assert_eq!([first, second].map(|event| sim.event_query(event).unwrap()), expected, "at {}", sim.now_us());
    }
}

#[test]
fn work_starts_when_it_is_submitted_not_when_the_stream_became_idle() {
    let sim = sim();
    sim.advance_clock(100);
    work(&sim, A, 10);
    sim.stream_synchronize(A).unwrap();
    assert_eq!(sim.now_us(), 110);
}

#[test]
fn waiting_orders_streams_and_synchronising_moves_the_clock() {
    let sim = sim();
    work(&sim, A, 10);
    let event = record(&sim, A);
    work(&sim, A, 100);
    sim.stream_wait_event(B, event).unwrap();
    work(&sim, B, 3);
    sim.stream_synchronize(B).unwrap();
    assert_eq!(sim.now_us(), 13);
    sim.event_synchronize(event).unwrap();
    assert_eq!(sim.now_us(), 13, "long done");
    sim.device_synchronize(D).unwrap();
    assert_eq!(sim.now_us(), 110);
}

#[test]
fn allocating_freeing_and_unmapping_wait_for_the_device_but_creating_and_mapping_do_not() {
    let g = 2 << 20;
    let sim = sim();
    let base = sim.mem_address_reserve(g, 0, 0).unwrap();
    let addr = sim.mem_alloc(D, 1).unwrap();
    work(&sim, A, 10);
    let page = sim.mem_create(g, HandleProps::on(D)).unwrap();
    sim.mem_map(base, g, 0, page).unwrap();
    sim.mem_set_access(base, g, Location::Device(D), Access::ReadWrite).unwrap();
    assert_eq!(sim.now_us(), 0);
    sim.mem_unmap(base, g).unwrap();
    assert_eq!(sim.now_us(), 10);
    work(&sim, B, 10);
    sim.mem_free(D, addr).unwrap();
    assert_eq!(sim.now_us(), 20);
    work(&sim, B, 10);
    sim.mem_alloc(D, 1).unwrap();
    assert_eq!(sim.now_us(), 30);
    work(&sim, B, 10);
    sim.host_alloc(1, HostFlags::default()).unwrap();
    assert_eq!(sim.now_us(), 40);
}

#[test]
fn a_device_that_cannot_map_beside_kernels_makes_the_host_wait() {
    let g = 2 << 20;
    let mut config = SimConfig { events: EventMode::Timed, cost: CostTable::free(), ..SimConfig::default() };
    config.devices[0].caps.map_beside_kernels = false;
    let sim = Sim::new(config);
    let base = sim.mem_address_reserve(g, 0, 0).unwrap();
    let page = sim.mem_create(g, HandleProps::on(D)).unwrap();
    work(&sim, A, 10);
    sim.mem_map(base, g, 0, page).unwrap();
    assert_eq!(sim.now_us(), 10);
}

#[test]
fn copies_take_time_by_their_size_and_graphs_by_their_longest_path() {
    let cost = r#"{"calls": {}, "work": {"copy": {"gb_per_s": 1, "source": "test"}}}"#;
    let config =
        SimConfig { events: EventMode::Timed, cost: CostTable::from_json(cost).unwrap(), ..SimConfig::default() };
    let sim = Sim::new(config);
    let addr = sim.mem_alloc(D, 1 << 20).unwrap();
    sim.memcpy_async(addr, addr + 500_000, 100_000, A).unwrap();
    sim.stream_synchronize(A).unwrap();
    assert_eq!(sim.now_us(), 100);

    sim.capture_begin(A, CaptureMode::Global).unwrap();
    work(&sim, A, 10);
    let fork = record(&sim, A);
    sim.stream_wait_event(B, fork).unwrap();
    work(&sim, A, 5);
    work(&sim, B, 20);
    let join = record(&sim, B);
    sim.stream_wait_event(A, join).unwrap();
    work(&sim, A, 1);
    let graph = sim.capture_end(A).unwrap();
    sim.stream_synchronize(A).unwrap();
    assert_eq!(sim.now_us(), 100, "captured work does not run");
    sim.graph_launch(graph, B).unwrap();
    sim.stream_synchronize(B).unwrap();
    assert_eq!(sim.now_us(), 131);
}

#[test]
fn calls_cost_what_the_table_says_and_the_clock_shows_it() {
    let cost = r#"{"calls": {
        "cuMemCreate": {"fixed_us": 10, "per_mib_us": 1, "source": "test"},
        "cuMemSetAccess": {"per_handle_us": 7, "source": "test"},
        "cuMemAlloc": {"per_live_range_us": 100, "source": "test"}}, "work": {}}"#;
    let sim = Sim::new(SimConfig { cost: CostTable::from_json(cost).unwrap(), ..SimConfig::default() });
    let g = 2 << 20;
    let base = sim.mem_address_reserve(3 * g, 0, 0).unwrap();
    for page in 0..3 {
        let handle = sim.mem_create(g, HandleProps::on(D)).unwrap();
        sim.mem_map(base + page * g, g, 0, handle).unwrap();
    }
    assert_eq!(sim.driver_time_us(), 3 * 12);
    sim.mem_set_access(base, 3 * g, Location::Device(D), Access::ReadWrite).unwrap();
    assert_eq!(sim.driver_time_us(), 36 + 21);
    sim.mem_alloc(D, 1).unwrap();
    assert_eq!((sim.driver_time_us(), sim.now_us()), (157, 157), "one range was live");
    let times = sim.call_times_us();
    assert_eq!(times[0], ("cuMemAlloc", 100));
    assert_eq!(sim.call_counts().iter().find(|(name, _)| *name == "cuMemMap"), Some(&("cuMemMap", 3)));
    assert_eq!(sim.count(CallKind::Create), 3);
    sim.advance_clock(1000);
    assert_eq!((sim.driver_time_us(), sim.now_us()), (157, 1157));
}
