//! Small programs, correct ones and ones that lack a wait or a `record_stream`.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{EventMode, HazardKind, Hint, Sim, SimConfig};

use HazardKind::*;

const D: Device = Device(0);
const A: Stream = Stream::new(D, 1);
const B: Stream = Stream::new(D, 2);
const C: Stream = Stream::new(D, 3);
const M: u64 = 1 << 20;

/// A machine with 8 MiB at an address, of which tests hand out parts.
struct Program {
    sim: Arc<Sim>,
    base: u64,
}

impl Program {
    fn new() -> Self {
        Self::with(EventMode::Immediate)
    }

    fn with(events: EventMode) -> Self {
        let sim = Sim::new(SimConfig { hazards: true, events, capture_checks: true, ..SimConfig::default() });
        let base = sim.mem_alloc(D, 8 * M).unwrap();
        Program { sim, base }
    }

    fn alloc(&self, label: &str, at: u64, mib: u64, stream: Stream) -> (u64, u64) {
        self.sim.hand_out(self.base + at * M, mib * M, stream, label);
        (self.base + at * M, mib * M)
    }

    fn free(&self, block: (u64, u64)) {
        self.sim.give_back(block.0, "");
    }

    fn write(&self, stream: Stream, block: (u64, u64)) {
        self.sim.launch(stream, 10, &[], &[block]).unwrap();
    }

    fn read(&self, stream: Stream, block: (u64, u64)) {
        self.sim.launch(stream, 10, &[block], &[]).unwrap();
    }

    fn record(&self, stream: Stream) -> Event {
        let event = self.sim.event_create(D).unwrap();
        self.sim.event_record(event, stream).unwrap();
        event
    }

    /// `to` waits for all work of `from`.
    fn order(&self, from: Stream, to: Stream) {
        let event = self.record(from);
        self.sim.stream_wait_event(to, event).unwrap();
    }

    /// What an allocator does with a block freed after `record_stream`: it asks an event of that stream.
    fn seen_done(&self, stream: Stream) -> bool {
        let event = self.record(stream);
        self.sim.event_query(event).unwrap()
    }

    fn kinds(&self) -> Vec<HazardKind> {
        self.sim.hazards().into_iter().map(|hazard| hazard.kind).collect()
    }
}

#[test]
fn work_on_one_stream_never_collides() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.read(A, x);
    p.write(A, x);
    p.free(x);
    let y = p.alloc("y", 1, 2, A);
    p.write(A, y);
    assert_eq!(p.kinds(), []);
}

#[test]
fn a_read_on_another_stream_without_a_wait_collides_with_the_write() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.sim.launch_as("producer", A, 10, &[], &[x]).unwrap();
    p.sim.launch_as("consumer", B, 10, &[(x.0 + M, 512)], &[]).unwrap();
    let [hazard] = &p.sim.hazards()[..] else { panic!("one hazard") };
    assert_eq!((hazard.kind, hazard.hint), (UseStillRunning, Hint::Wait { waiter: B, awaited: A }));
    assert_eq!((hazard.first.stream, &*hazard.first.label, hazard.first.write), (A, "producer", true));
    assert_eq!((hazard.second.stream, &*hazard.second.label, hazard.second.write), (B, "consumer", false));
    let block = hazard.block.as_ref().unwrap();
    assert_eq!((&*block.label, block.addr, block.size, block.stream), ("x", x.0, 2 * M, A));
    let text = hazard.to_string();
    for part in ["producer", "consumer", "stream 0x1", "stream 0x2", "wait"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_wait_before_the_use_makes_it_right_and_one_recorded_too_early_does_not() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.order(A, B);
    p.read(B, x);
    assert_eq!(p.kinds(), []);
    p.order(B, A);
    let event = p.record(A);
    p.write(A, (x.0, 4));
    p.sim.stream_wait_event(C, event).unwrap();
    p.read(C, (x.0 + 4, 4));
    assert_eq!(p.kinds(), []);
    p.read(C, x);
    assert_eq!(p.kinds(), [UseStillRunning]);
}

#[test]
fn reads_do_not_collide_with_each_other_but_a_write_does_with_each_of_them() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.order(A, B);
    p.order(A, C);
    p.read(B, x);
    p.read(C, x);
    assert_eq!(p.kinds(), []);
    p.order(B, A);
    p.write(A, x);
    let [hazard] = &p.sim.hazards()[..] else { panic!("one hazard") };
    assert_eq!((hazard.first.stream, hazard.second.stream), (C, A));
}

#[test]
fn order_passes_through_a_third_stream() {
    let p = Program::new();
    let x = p.alloc("x", 0, 1, A);
    p.write(A, x);
    p.order(A, C);
    p.order(C, B);
    p.write(B, x);
    assert_eq!(p.kinds(), []);
}

#[test]
fn disjoint_bytes_do_not_collide() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, (x.0, M));
    p.write(B, (x.0 + M, M));
    assert_eq!(p.kinds(), []);
}

#[test]
fn a_use_on_a_side_stream_without_record_stream_collides_with_the_next_owner() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.order(A, B);
    p.read(B, x);
    p.free(x);
    let y = p.alloc("y", 0, 1, A);
    p.write(A, y);
    let [hazard] = &p.sim.hazards()[..] else { panic!("one hazard") };
    assert_eq!((hazard.kind, hazard.hint), (HandedOutTooEarly, Hint::RecordStream { stream: B }));
    assert_eq!((&*hazard.first.label, &*hazard.second.label), ("x", "y"));
    assert!(hazard.to_string().contains("record_stream"), "{hazard}");
}

#[test]
fn record_stream_makes_it_right() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.order(A, B);
    p.read(B, x);
    p.free(x);
    assert!(p.seen_done(B));
    let y = p.alloc("y", 0, 2, A);
    p.write(A, y);
    assert_eq!(p.kinds(), []);
}

#[test]
fn an_event_that_is_not_seen_done_orders_nothing() {
    let p = Program::with(EventMode::Manual);
    let x = p.alloc("x", 0, 2, A);
    p.read(B, x);
    p.free(x);
    assert!(!p.seen_done(B));
    let y = p.alloc("y", 0, 2, A);
    p.write(A, y);
    assert_eq!(p.kinds(), [HandedOutTooEarly]);
}

#[test]
fn joining_the_side_stream_before_the_free_makes_it_right() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.read(B, x);
    p.order(B, A);
    p.free(x);
    let y = p.alloc("y", 0, 2, A);
    p.write(A, y);
    assert_eq!(p.kinds(), []);
}

#[test]
fn an_allocator_that_gives_memory_to_another_stream_must_wait() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.free(x);
    let y = p.alloc("y", 0, 2, B);
    p.read(B, y);
    let [hazard] = &p.sim.hazards()[..] else { panic!("one hazard") };
    assert_eq!((hazard.kind, hazard.hint), (HandedOutTooEarly, Hint::Wait { waiter: B, awaited: A }));
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.free(x);
    p.sim.stream_synchronize(A).unwrap();
    let y = p.alloc("y", 0, 2, B);
    p.write(B, y);
    assert_eq!(p.kinds(), []);
}

#[test]
fn a_new_block_used_elsewhere_must_wait_for_its_own_stream() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.free(x);
    let y = p.alloc("y", 0, 2, A);
    p.write(B, y);
    let [hazard] = &p.sim.hazards()[..] else { panic!("one hazard") };
    assert_eq!((hazard.kind, hazard.hint), (HandedOutTooEarly, Hint::Wait { waiter: B, awaited: A }));
}

#[test]
fn use_after_free_is_one_on_every_stream_once_a_block() {
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.sim.give_back(x.0, "drop of x");
    p.read(A, x);
    p.read(A, x);
    let [hazard] = &p.sim.hazards()[..] else { panic!("one hazard") };
    assert_eq!((hazard.kind, hazard.hint, &*hazard.first.label), (UseAfterFree, Hint::GiveBackLater, "drop of x"));
}

#[test]
fn host_synchronisation_orders_everything_after_it() {
    let syncs: [fn(&Program); 4] = [
        |p| p.sim.stream_synchronize(A).unwrap(),
        |p| p.sim.device_synchronize(D).unwrap(),
        |p| p.sim.sync(),
        |p| {
            let event = p.record(A);
            p.sim.event_synchronize(event).unwrap();
        },
    ];
    for sync in syncs {
        let p = Program::with(EventMode::Manual);
        let x = p.alloc("x", 0, 2, A);
        p.write(A, x);
        sync(&p);
        p.write(B, x);
        assert_eq!(p.kinds(), []);
    }
    let p = Program::new();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.sim.stream_synchronize(C).unwrap();
    p.write(B, x);
    assert_eq!(p.kinds(), [UseStillRunning], "the wrong stream");
}

#[test]
fn freeing_device_memory_waits_for_the_device_as_the_real_driver_does() {
    let p = Program::new();
    let other = p.sim.mem_alloc(D, 1).unwrap();
    let x = p.alloc("x", 0, 2, A);
    p.write(A, x);
    p.sim.mem_free(D, other).unwrap();
    p.write(B, x);
    assert_eq!(p.kinds(), []);
}

#[test]
fn copies_and_fills_are_uses() {
    let p = Program::new();
    let (x, y) = (p.alloc("x", 0, 1, A), p.alloc("y", 1, 1, A));
    p.sim.memset_async(x.0, 0, M, A).unwrap();
    p.sim.memcpy_async(y.0, x.0, M, B).unwrap();
    p.sim.memcpy_async(y.0, x.0 + M / 2, 4, C).unwrap();
    assert_eq!(p.kinds(), [UseStillRunning; 3], "fill and copies of x, and both writes of y");
}

#[test]
fn the_same_pair_is_reported_once() {
    let p = Program::new();
    let x = p.alloc("x", 0, 1, A);
    p.write(A, x);
    for at in 0..10 {
        p.read(B, (x.0 + at * 512, 512));
    }
    assert_eq!(p.kinds(), [UseStillRunning]);
}

#[test]
fn inside_of_a_capture_order_comes_from_forks_and_joins() {
    for joined in [true, false] {
        let p = Program::new();
        p.sim.capture_begin(A, CaptureMode::Global).unwrap();
        let x = p.alloc("x", 0, 1, A);
        p.write(A, x);
        p.order(A, B);
        p.read(B, x);
        if joined {
            p.order(B, A);
        }
        p.free(x);
        let y = p.alloc("y", 0, 1, A);
        p.write(A, y);
        p.order(B, A);
        p.sim.capture_end(A).unwrap();
        let expected = if joined { vec![] } else { vec![HandedOutTooEarly] };
        assert_eq!(p.kinds(), expected);
    }
}

#[test]
fn captured_work_does_not_run_until_its_graph_is_launched() {
    let p = Program::new();
    let x = p.alloc("x", 0, 1, A);
    p.write(B, x);
    p.sim.capture_begin(A, CaptureMode::Global).unwrap();
    p.write(A, x);
    let graph = p.sim.capture_end(A).unwrap();
    assert_eq!(p.kinds(), []);
    p.free(x);
    p.order(B, C);
    p.sim.graph_launch(graph, C).unwrap();
    assert_eq!(p.kinds(), [], "a graph may use memory that was freed while it was captured");
    p.sim.graph_launch(graph, A).unwrap();
    assert_eq!(p.kinds(), [UseStillRunning], "with the launch on C, which came after B's write");
}

#[test]
fn memory_of_a_driver_pool_is_ordered_by_the_driver() {
    let p = Program::with(EventMode::Manual);
    let pool = p.sim.mem_pool_create(D).unwrap();
    let x = p.sim.mem_alloc_async(pool, 4 * M, A).unwrap();
    p.write(A, (x, M));
    p.sim.mem_free_async(x, A).unwrap();
    p.order(A, B);
    assert_eq!(p.sim.mem_alloc_async(pool, 4 * M, B), Ok(x));
    p.write(B, (x, M));
    assert_eq!(p.kinds(), []);
    p.write(C, (x, M));
    assert_eq!(p.kinds(), [UseStillRunning]);
}

#[test]
fn nothing_is_checked_when_it_is_off() {
    let sim = Sim::new(SimConfig::default());
    let addr = sim.mem_alloc(D, M).unwrap();
    sim.hand_out(addr, M, A, "x");
    sim.launch(A, 1, &[], &[(addr, 1)]).unwrap();
    sim.launch(B, 1, &[], &[(addr, 1)]).unwrap();
    assert_eq!(sim.hazards(), []);
}

#[test]
fn memory_that_has_moved_to_another_address_is_the_same_memory() {
    for waits in [false, true] {
        let sim = Sim::new(SimConfig { hazards: true, events: EventMode::Manual, ..SimConfig::default() });
        let base = sim.mem_address_reserve(4 * M, 0, 0).unwrap();
        let page = sim.mem_create(2 * M, HandleProps::on(D)).unwrap();
        let here = |addr: u64| {
            sim.mem_map(addr, 2 * M, 0, page).unwrap();
            sim.mem_set_access(addr, 2 * M, Location::Device(D), Access::ReadWrite).unwrap();
        };
        here(base);
        sim.hand_out(base, 2 * M, A, "first");
        sim.launch(A, 1, &[], &[(base, 2 * M)]).unwrap();
        sim.give_back(base, "");
        here(base + 2 * M);
        sim.hand_out(base + 2 * M, 2 * M, B, "second");
        if waits {
            let guard = sim.guard_create(D).unwrap();
            sim.event_record(guard, A).unwrap();
            sim.stream_wait_event(B, guard).unwrap();
        }
        sim.launch(B, 1, &[], &[(base + 3 * M, M)]).unwrap();
        let kinds: Vec<_> = sim.hazards().iter().map(|hazard| hazard.kind).collect();
        assert_eq!(kinds, if waits { vec![] } else { vec![HandedOutTooEarly] });
    }
}
