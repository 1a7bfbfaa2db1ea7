//! `backend:cudaMallocAsync` on the simulated device's driver pools: the rules of section 6, C79 and C81.

use std::sync::Arc;

use millpond::{DriverPoolError, Error, Metric, Operation, StreamOrdered};
use millpond_driver::{
    Async, Bytes, Capture as _, CaptureMode, Code, Device, Memory, Order, PoolAttribute, Status, Stream,
};
use millpond_sim::{CallKind, DeviceConfig, EventMode, FaultRule, Sim, SimConfig};

const MIB: u64 = 1 << 20;
const D: Device = Device(0);
const A: Stream = Stream::new(D, 0x101);
const B: Stream = Stream::new(D, 0x102);

fn bench(capacity_mib: u64, events: EventMode) -> (Arc<Sim>, StreamOrdered) {
    let config = SimConfig { events, log: true, ..SimConfig::with_capacity(Bytes(capacity_mib * MIB)) };
    let sim = Sim::new(config);
    (sim.clone(), StreamOrdered::new(sim))
}

fn oom(error: Error) -> millpond::PoolOom {
    assert!(error.is_out_of_memory());
    match error {
        Error::DriverPool(DriverPoolError::OutOfMemory(oom)) => *oom,
        other => panic!("{other}"),
    }
}

#[test]
fn r6_1_every_request_is_one_driver_allocation_of_exactly_its_size() {
    let (sim, allocator) = bench(100, EventMode::Immediate);
    let addr = allocator.alloc(12345, A).unwrap();
    let asked: Vec<u64> =
        sim.take_log().iter().filter(|call| call.kind == CallKind::PoolAlloc).map(|call| call.size).collect();
    assert_eq!(asked, [12345]);
    assert_eq!(allocator.base_allocation(addr).unwrap(), (addr, 12345));
    assert_eq!(allocator.alloc(0, A).unwrap(), 0);
    assert!(matches!(allocator.alloc(1 << 60, A), Err(Error::TooLarge { .. })));
    allocator.free(addr).unwrap();
    assert!(matches!(allocator.free(addr), Err(Error::UnknownAddress { .. })));
    allocator.free(0).unwrap();
}

#[test]
fn r6_2_a_device_is_set_up_at_its_first_use() {
    let (sim, allocator) = bench(100, EventMode::Immediate);
    assert_eq!(allocator.stats(D).unwrap(), Default::default());
    allocator.empty_cache().unwrap();
    assert_eq!(sim.calls_made(), 0, "nobody asks a device that was not used (R6.7)");
    allocator.alloc(1, A).unwrap();
    let pool = sim.default_mem_pool(D).unwrap();
    assert_eq!(sim.mem_pool_get(pool, PoolAttribute::ReleaseThreshold), Ok(u64::MAX));
    for reuse in [
        PoolAttribute::ReuseFollowEventDependencies,
        PoolAttribute::ReuseAllowOpportunistic,
        PoolAttribute::ReuseAllowInternalDependencies,
    ] {
        assert_eq!(sim.mem_pool_get(pool, reuse), Ok(1));
    }
    allocator.alloc(1, B).unwrap();
    assert_eq!(sim.count(CallKind::StreamCreate), 1, "one unifier");
}

#[test]
fn c79_r6_3_a_pool_that_still_caches_is_trimmed_once() {
    let (sim, allocator) = bench(1000, EventMode::Immediate);
    let a = allocator.alloc(600 * MIB, A).unwrap();
    allocator.free(a).unwrap();
    allocator.alloc(700 * MIB, A).unwrap();
    assert_eq!((sim.count(CallKind::PoolTrim), sim.count(CallKind::PoolAlloc)), (1, 3));
    assert_eq!(sim.peek_last_error(), None);

    let (sim, allocator) = bench(1000, EventMode::Immediate);
    allocator.alloc(600 * MIB, A).unwrap();
    let error = allocator.alloc(700 * MIB, A).unwrap_err();
    assert_eq!((sim.count(CallKind::PoolTrim), sim.count(CallKind::PoolAlloc)), (1, 3));
    assert_eq!(sim.peek_last_error(), None, "a caught failure leaves no error behind (C71)");
    let oom = oom(error);
    assert_eq!((oom.allocated, oom.requested, oom.device_free), (600 * MIB, 700 * MIB, 400 * MIB));
    let text = oom.to_string();
    for line in [
        "Currently allocated     : 600.00 MiB",
        "Requested               : 700.00 MiB",
        "Device limit            : 1000.00 MiB",
        "Free (according to CUDA): 400.00 MiB",
        "PyTorch limit           : none",
    ] {
        assert!(text.contains(line), "{line:?} is not in:\n{text}");
    }
}

#[test]
fn c81_one_wait_and_retry_before_oom_and_what_nobody_knows_is_unknown() {
    let (sim, allocator) = bench(1000, EventMode::Manual);
    let freed = std::thread::scope(|scope| {
        let threads = [A, B].map(|stream| {
            let (sim, allocator) = (&sim, &allocator);
            scope.spawn(move || {
                let addr = allocator.alloc(400 * MIB, stream).unwrap();
                sim.launch(stream, 100, &[], &[(addr, MIB)]).unwrap();
                allocator.free(addr).unwrap();
            })
        });
        threads.into_iter().all(|thread| thread.join().is_ok())
    });
    assert!(freed);
    allocator.alloc(600 * MIB, A).unwrap();
    assert_eq!((sim.count(CallKind::StreamSynchronize), sim.count(CallKind::PoolTrim)), (1, 1));
    let oom = oom(allocator.alloc(900 * MIB, B).unwrap_err());
    assert_eq!(sim.count(CallKind::StreamSynchronize), 2);
    assert_eq!(oom.fragmentation(), None);
    assert!(oom.to_string().contains("Fragmentation inside it : unknown"));
}

#[test]
fn r6_3_the_limit_is_an_oom_without_a_driver_allocation() {
    let (sim, allocator) = bench(1000, EventMode::Immediate);
    assert!(allocator.memory_fraction(D).unwrap() > 1e9, "huge without a limit (R6.9)");
    assert!(matches!(allocator.set_memory_fraction(D, 1.5), Err(Error::InvalidFraction { .. })));
    allocator.set_memory_fraction(D, 0.5).unwrap();
    assert_eq!(allocator.memory_fraction(D).unwrap(), 0.5);
    let a = allocator.alloc(400 * MIB, A).unwrap();
    let oom = oom(allocator.alloc(101 * MIB, A).unwrap_err());
    assert_eq!((oom.limit, sim.count(CallKind::PoolAlloc)), (Some(500 * MIB), 1));
    allocator.free(a).unwrap();
    allocator.alloc(500 * MIB, A).unwrap();
}

#[test]
fn r6_3_a_failed_wait_is_an_error_of_its_own() {
    let (sim, allocator) = bench(100, EventMode::Immediate);
    allocator.alloc(60 * MIB, A).unwrap();
    sim.fail(FaultRule::nth(CallKind::StreamSynchronize, 1, Code::ERROR_LAUNCH_FAILED));
    let error = allocator.alloc(60 * MIB, A).unwrap_err();
    assert!(matches!(error, Error::Driver(error) if error.code == Code::ERROR_LAUNCH_FAILED));
}

#[test]
fn r6_4_memory_of_several_streams_is_freed_behind_all_of_them() {
    let (sim, allocator) = bench(1000, EventMode::Manual);
    let a = allocator.alloc(MIB, A).unwrap();
    allocator.record_stream(a, A).unwrap();
    allocator.free(a).unwrap();
    assert_eq!(sim.count(CallKind::StreamWaitEvent), 0, "its own stream has no effect (R6.5)");
    let b = allocator.alloc(MIB, A).unwrap();
    allocator.record_stream(b, B).unwrap();
    allocator.free(b).unwrap();
    let joins = [CallKind::EventRecord, CallKind::StreamWaitEvent, CallKind::EventDestroy];
    assert_eq!(joins.map(|kind| sim.count(kind)), [2, 2, 2]);
    assert!(allocator.record_stream(b, B).is_err());
}

#[test]
fn r6_6_one_flag_for_captures_defers_frees_of_what_was_there_before() {
    let (sim, allocator) = bench(1000, EventMode::Immediate);
    let before = allocator.alloc(MIB, A).unwrap();
    sim.capture_begin(A, CaptureMode::Relaxed).unwrap();
    allocator.begin_allocate_to_pool().unwrap();
    let second = allocator.begin_allocate_to_pool().unwrap_err();
    assert!(second.to_string().contains("only one capture at a time"));

    let (captured, shared, kept) =
        (allocator.alloc(MIB, A).unwrap(), allocator.alloc(MIB, A).unwrap(), allocator.alloc(MIB, A).unwrap());
    allocator.free(before).unwrap();
    assert_eq!(sim.count(CallKind::PoolFree), 0, "deferred");
    assert!(allocator.free(before).is_err(), "freed already");
    allocator.free(captured).unwrap();
    allocator.record_stream(shared, B).unwrap();
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, A).unwrap();
    sim.stream_wait_event(B, event).unwrap();
    allocator.free(shared).unwrap();
    assert_eq!(sim.count(CallKind::PoolFree), 2);
    // The unifier has taken part in the capture; it joins, and so does B through it.
    allocator.end_allocate_to_pool(A).unwrap();
    sim.capture_end(A).unwrap();
    assert!(allocator.end_allocate_to_pool(A).is_err());
    allocator.release_pool();

    allocator.alloc(MIB, A).unwrap();
    assert_eq!(sim.count(CallKind::PoolFree), 3, "freed at the next allocation");
    allocator.free(kept).unwrap();
}

#[test]
fn r6_7_r6_8_statistics_are_what_the_pool_says() {
    let (sim, allocator) = bench(1000, EventMode::Immediate);
    let a = allocator.alloc(64 * MIB, A).unwrap();
    allocator.free(a).unwrap();
    let stats = allocator.stats(D).unwrap();
    let used = stats.all(Metric::AllocatedBytes);
    assert_eq!((used.current, used.peak), (0, 64 * MIB));
    assert_eq!(stats.all(Metric::ActiveBytes), used);
    assert_eq!(stats.all(Metric::ReservedBytes).current as u64, 64 * MIB);
    assert_eq!(stats.all(Metric::InactiveSplitBytes), Default::default());
    allocator.reset_accumulated_stats();
    allocator.reset_peak_stats(D).unwrap();
    assert_eq!(allocator.stats(D).unwrap().all(Metric::AllocatedBytes).peak, 0);
    allocator.empty_cache().unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 1000 * MIB);
    assert_eq!(sim.count(CallKind::DeviceSynchronize), 1);
}

#[test]
fn r6_10_what_it_cannot_do_is_a_named_error() {
    let (_, allocator) = bench(100, EventMode::Immediate);
    let error = allocator.unsupported::<()>(Operation::Snapshot).unwrap_err();
    assert_eq!(error.to_string(), "backend:cudaMallocAsync does not support snapshots; use backend:native");
    assert!(!error.is_out_of_memory());
    assert!(allocator.is_enabled());
}

#[test]
fn r6_11_the_largest_block_is_found_by_halving() {
    let (_, allocator) = bench(1000, EventMode::Immediate);
    allocator.alloc(300 * MIB, A).unwrap();
    allocator.set_memory_fraction(D, 0.9).unwrap();
    assert_eq!(allocator.largest_block(A).unwrap(), 600 * MIB, "no more than the limit leaves");
    // What the pool holds now is not free on the device: half of what is left, and so on.
    assert_eq!(allocator.largest_block(A).unwrap(), 100 * MIB);
}

#[test]
fn r6_11_peers_get_access_to_the_pool_and_copies_know_them() {
    let config = SimConfig {
        devices: vec![DeviceConfig::with_capacity(Bytes(100 * MIB)); 2],
        backing: true,
        ..SimConfig::default()
    };
    let sim = Sim::new(config);
    let allocator = StreamOrdered::new(sim.clone());
    let (other, on_other) = (Device(1), Stream::new(Device(1), 0x103));
    let (a, b) = (allocator.alloc(MIB, A).unwrap(), allocator.alloc(MIB, on_other).unwrap());
    sim.write(a, &[7; 64]).unwrap();
    allocator.memcpy((b, other), (a, D), MIB, A, false).unwrap();
    assert_eq!((sim.count(CallKind::MemcpyPeer), sim.read(b, 64).unwrap()), (1, vec![7; 64]));
    assert!(sim.launch(on_other, 1, &[(a, MIB)], &[]).is_err());
    sim.clear_faults();
    allocator.enable_peer_access(D, other).unwrap();
    sim.launch(on_other, 1, &[(a, MIB)], &[]).unwrap();
    allocator.memcpy((b, other), (a, D), MIB, on_other, true).unwrap();
    assert_eq!(sim.count(CallKind::MemcpyPeer), 1);
}
