//! The pinned host cache on the simulated device: the rules of section 7, C69 and C71.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond::config::{Dialect, Settings};
use millpond::{Action, Caller, Error, Filter, HistoryOptions, HostCache, Level, PoolId, Stack, StackSource, World};
use millpond_driver::{Bytes, Capture as _, CaptureMode, Code, Device, Memory, Order, Status, Stream};
use millpond_sim::{CallKind, EventMode, FaultRule, Sim, SimConfig};
use millpond_snapshot::{BlockState, Frame, SegmentType, Snapshot};

const MIB: u64 = 1 << 20;
const DEFAULT: Stream = Stream::default_of(Device(0));
const COPY: Stream = Stream::new(Device(0), 7);
const OTHER: Stream = Stream::new(Device(0), 9);

struct Bench {
    sim: Arc<Sim>,
    world: Arc<World>,
    cache: HostCache,
}

impl Bench {
    fn new(text: &str, events: EventMode) -> Bench {
        Bench::on(SimConfig { events, ..SimConfig::default() }, text)
    }

    fn on(config: SimConfig, text: &str) -> Bench {
        let mut settings = Settings::default();
        settings.apply(text, Dialect::Millpond).unwrap();
        let (sim, world) = (Sim::new(config), World::new(settings));
        let cache = HostCache::new(sim.clone(), world.clone());
        Bench { sim, world, cache }
    }

    fn configure(&self, text: &str) {
        self.world.configure(text, Dialect::Millpond).unwrap();
    }

    fn alloc(&self, size: u64) -> u64 {
        self.cache.alloc(size, &Caller::on(DEFAULT)).unwrap()
    }

    fn free(&self, addr: u64) {
        self.cache.free(addr, &Caller::on(DEFAULT)).unwrap();
    }

    fn counts<const N: usize>(&self, kinds: [CallKind; N]) -> [u64; N] {
        kinds.map(|kind| self.sim.count(kind))
    }
}

fn immediate(text: &str) -> Bench {
    Bench::new(text, EventMode::Immediate)
}

#[test]
fn r7_3_zero_bytes_are_no_block() {
    let bench = immediate("");
    assert_eq!(bench.alloc(0), 0);
    bench.free(0);
    assert_eq!(bench.sim.calls_made(), 0);
}

#[test]
fn r7_1_one_block_is_one_driver_allocation_and_is_handed_out_again() {
    let bench = immediate("");
    let (a, b) = (bench.alloc(3 * MIB), bench.alloc(3 * MIB));
    bench.free(a);
    bench.free(b);
    assert_eq!(bench.alloc(4 * MIB), b, "the most recently freed first (R7.7)");
    assert_eq!(bench.alloc(2 * MIB + 1), a);
    assert_eq!(bench.counts([CallKind::HostAlloc, CallKind::HostFree]), [2, 0]);
    let c = bench.alloc(2 * MIB);
    assert!(c != a && c != b, "a smaller request does not take a larger block");
    assert!(matches!(bench.cache.free(a + 4096, &Caller::on(DEFAULT)), Err(Error::UnknownAddress { .. })));
    bench.free(a);
    assert!(bench.cache.free(a, &Caller::on(DEFAULT)).is_err(), "freed twice");
}

#[test]
fn r7_6_rounding_stops_at_the_smaller_of_both_limits() {
    let bench = immediate("pinned_max_round_threshold_mb:8,pinned_max_cached_size_mb:4");
    for (asked, size) in [(3 * MIB, 4 * MIB), (4 * MIB, 4 * MIB), (4 * MIB + 1, 4 * MIB + 1), (9 * MIB, 9 * MIB)] {
        let addr = bench.alloc(asked);
        assert_eq!(bench.cache.size_of(addr), Some((size, true)));
    }
}

#[test]
fn r7_18_blocks_above_the_cached_limit_are_destroyed_when_they_are_free() {
    let bench = Bench::new("pinned_max_cached_size_mb:4", EventMode::Manual);
    let (small, large, used) = (bench.alloc(4 * MIB), bench.alloc(5 * MIB), bench.alloc(6 * MIB));
    assert!(bench.cache.record_stream(used, COPY));
    [small, large, used].into_iter().for_each(|addr| bench.free(addr));
    assert_eq!(bench.sim.count(CallKind::HostFree), 1, "one is cached, one waits");
    bench.sim.sync();
    bench.cache.process_events().unwrap();
    assert_eq!(bench.sim.count(CallKind::HostFree), 2);
    assert_eq!(bench.cache.stats().allocated_bytes.current as u64, 4 * MIB);
}

#[test]
fn r7_15_r7_17_events_are_taken_oldest_first_up_to_the_first_that_is_not_done() {
    let bench = Bench::new("", EventMode::Manual);
    let (a, b) = (bench.alloc(MIB), bench.alloc(MIB));
    assert!(!bench.cache.record_stream(a + 4096, COPY), "unknown (R7.14)");
    for (addr, stream) in [(a, COPY), (a, OTHER), (b, COPY)] {
        assert!(bench.cache.record_stream(addr, stream));
    }
    bench.free(a);
    bench.free(b);
    let active = || bench.cache.stats().active_requests.current;
    assert_eq!(active(), 2, "blocks are active until their events are done (R7.23)");
    // COPY has passed, so b's event is done; a's second event, which is older, is not.
    bench.sim.stream_synchronize(COPY).unwrap();
    bench.cache.process_events().unwrap();
    assert_eq!(active(), 2);
    let c = bench.alloc(MIB);
    assert!(c != a && c != b);
    bench.sim.stream_synchronize(OTHER).unwrap();
    assert_eq!(bench.alloc(MIB), b, "requests look at the events first (R7.5)");
    assert_eq!(bench.alloc(MIB), a);
    assert_eq!(bench.sim.count(CallKind::EventCreate), 3);
    for addr in [a, b] {
        bench.cache.record_stream(addr, COPY);
        bench.free(addr);
    }
    assert_eq!(bench.sim.count(CallKind::EventCreate), 3, "events are used again");
}

#[test]
fn r7_15_a_block_without_its_event_is_never_used_again() {
    let bench = immediate("");
    let a = bench.alloc(MIB);
    bench.cache.record_stream(a, COPY);
    bench.sim.fail(FaultRule::nth(CallKind::EventRecord, 1, Code::ERROR_INVALID_HANDLE));
    bench.free(a);
    assert_ne!(bench.alloc(MIB), a);
    bench.cache.empty_cache().unwrap();
    assert_eq!(bench.cache.size_of(a), Some((MIB, false)));
    assert_eq!(bench.cache.stats().active_requests.current, 2);
}

#[test]
fn r7_8_with_background_threads_a_thread_caches_what_is_done() {
    let bench = immediate("pinned_use_background_threads:True");
    let a = bench.alloc(MIB);
    bench.cache.record_stream(a, COPY);
    bench.free(a);
    let patience = Instant::now() + Duration::from_secs(10);
    while bench.cache.stats().active_requests.current > 0 {
        assert!(Instant::now() < patience, "no thread processes events");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.alloc(MIB), a);
    assert!(bench.cache.last_error().is_none());
}

#[test]
fn r7_5_with_background_threads_requests_do_not_look_at_the_default_pools_events() {
    let bench = immediate("");
    let a = bench.alloc(MIB);
    bench.cache.record_stream(a, COPY);
    bench.free(a);
    let b = bench.alloc(2 * MIB);
    bench.free(b);
    bench.configure("pinned_use_background_threads:True");
    let c = bench.alloc(2 * MIB);
    assert_eq!((c, bench.sim.count(CallKind::EventQuery)), (b, 1), "a hit starts no thread");
}

#[test]
fn r7_10_registered_memory_is_touched_before_it_is_locked() {
    let bench = immediate("pinned_use_cuda_host_register:True");
    let a = bench.alloc(MIB);
    assert_eq!(bench.sim.host_touched(a), MIB);
    let kinds = [CallKind::HostAlloc, CallKind::HostMalloc, CallKind::HostTouch, CallKind::HostRegister];
    assert_eq!(bench.counts(kinds), [0, 1, 1, 1]);
}

#[test]
fn r7_11_touching_runs_on_threads_if_each_has_a_page() {
    for (size, touches) in [(16 << 12, 8), (8 << 12, 8), (4 << 12, 1)] {
        let bench = immediate("pinned_use_cuda_host_register:True,pinned_num_register_threads:8");
        let a = bench.alloc(size);
        assert_eq!(bench.sim.count(CallKind::HostTouch), touches, "{size} bytes");
        assert_eq!(bench.sim.host_touched(a), size);
    }
}

#[test]
fn c69_r7_12_memory_goes_back_by_the_call_that_matches_how_it_was_made() {
    let bench = immediate("pinned_use_cuda_host_register:False");
    let a = bench.alloc(MIB);
    bench.configure("pinned_use_cuda_host_register:True");
    let b = bench.alloc(MIB);
    bench.free(a);
    bench.free(b);
    bench.configure("pinned_use_cuda_host_register:False");
    bench.cache.empty_cache().unwrap();
    let kinds = [CallKind::HostFree, CallKind::HostUnregister, CallKind::HostMallocFree];
    assert_eq!(bench.counts(kinds), [1, 1, 1]);
    assert_eq!(bench.sim.page_locked(), 0);
}

#[test]
fn c71_a_caught_failure_leaves_no_error_behind() {
    let small = SimConfig { page_locked: Bytes(MIB), ..SimConfig::with_capacity(Bytes(64 * MIB)) };
    for text in ["", "pinned_use_cuda_host_register:True"] {
        let bench = Bench::on(small.clone(), text);
        let error = bench.cache.alloc(2 * MIB, &Caller::on(DEFAULT)).unwrap_err();
        assert!(matches!(&error, Error::Driver(error) if error.is_out_of_memory()));
        assert!(!error.is_out_of_memory(), "PyTorch raises AcceleratorError here, not OutOfMemoryError");
        assert_eq!(bench.sim.peek_last_error(), None);
        let addr = bench.sim.mem_alloc(Device(0), MIB).unwrap();
        bench.sim.launch(DEFAULT, 1, &[], &[(addr, MIB)]).unwrap();
        assert_eq!(bench.sim.peek_last_error(), None, "the launch check sees no error");
    }
}

#[test]
fn a_failed_step_leaves_nothing_behind() {
    for (text, kinds) in [
        ("", &[CallKind::HostAlloc, CallKind::ExchangeCaptureMode, CallKind::CaptureStatus][..]),
        (
            "pinned_use_cuda_host_register:True,pinned_num_register_threads:2",
            &[CallKind::HostMalloc, CallKind::HostTouch, CallKind::HostRegister],
        ),
        ("pinned_reserve_segment_size_mb:4", &[CallKind::HostAlloc]),
    ] {
        for &kind in kinds {
            let bench = immediate(text);
            bench.sim.fail(FaultRule::nth(kind, 1, Code::ERROR_UNKNOWN));
            bench.cache.alloc(MIB, &Caller::on(DEFAULT)).unwrap_err();
            assert_eq!(bench.sim.page_locked(), 0, "{kind}");
            let made = bench.sim.count(CallKind::HostMalloc) - u64::from(kind == CallKind::HostMalloc);
            assert_eq!(bench.sim.count(CallKind::HostMallocFree), made, "{kind}");
            assert_eq!(bench.cache.stats().allocations.current, 0, "{kind}");
            bench.alloc(MIB);
        }
    }
}

#[test]
fn a_block_that_the_driver_does_not_take_back_stays_cached() {
    let bench = immediate("");
    let a = bench.alloc(MIB);
    bench.free(a);
    bench.sim.fail(FaultRule::nth(CallKind::HostFree, 1, Code::ERROR_UNKNOWN));
    assert!(bench.cache.empty_cache().is_err());
    assert_eq!(bench.cache.stats().allocations.freed, 0);
    assert_eq!(bench.alloc(MIB), a);
}

#[test]
fn r7_13_blocks_of_the_reserve_segment_are_cached_but_release_nothing() {
    let bench = immediate("pinned_reserve_segment_size_mb:4");
    let (a, b) = (bench.alloc(MIB), bench.alloc(3));
    assert_eq!((b, bench.sim.page_locked()), (a + MIB, 4 * MIB));
    let c = bench.alloc(3);
    assert_eq!(c, b + 4096, "in steps of 4 KiB (R7.9)");
    bench.free(a);
    assert_eq!(bench.alloc(MIB), a);
    bench.free(a);
    bench.cache.empty_cache().unwrap();
    assert_eq!(bench.sim.page_locked(), 4 * MIB);
    let d = bench.alloc(MIB);
    assert_eq!(d, c + 4096, "the range of a is lost");
    bench.configure("pinned_reserve_segment_size_mb:64");
    let e = bench.alloc(4 * MIB);
    assert_eq!(
        bench.counts([CallKind::HostAlloc, CallKind::HostFree]),
        [2, 0],
        "what does not fit comes from the driver"
    );
    [b, c, d, e].into_iter().for_each(|addr| bench.free(addr));
    let sim = bench.sim.clone();
    drop(bench);
    assert_eq!(sim.page_locked(), 0, "the cache's last owner gives the region back");
}

#[test]
fn size_classes_of_eighths_split_and_merge_the_reserve_segment() {
    let bench = immediate("pinned_size_classes:True,pinned_reserve_segment_size_mb:16");
    let blocks: Vec<u64> = (0..16).map(|_| bench.alloc(MIB)).collect();
    assert_eq!(bench.counts([CallKind::HostAlloc]), [1]);
    blocks[..9].iter().for_each(|&addr| bench.free(addr));
    let large = bench.alloc(8 * MIB + 1);
    assert_eq!(bench.cache.size_of(large), Some((9 * MIB, true)), "12.5 % at the most");
    assert_eq!((large, bench.counts([CallKind::HostAlloc])), (blocks[0], [1]), "nine neighbours in one");
    bench.free(large);
    blocks[9..].iter().for_each(|&addr| bench.free(addr));
    assert_eq!(bench.alloc(16 * MIB), blocks[0]);
    assert_eq!(bench.cache.stats().allocations.current, 1);
}

#[test]
fn size_classes_of_eighths_take_22_gib_for_20_4() {
    let bench = immediate("pinned_size_classes:True");
    let addr = bench.alloc((20.4 * f64::from(1 << 30)) as u64);
    assert_eq!(bench.cache.size_of(addr), Some((22 << 30, true)));
    bench.free(addr);
    assert_eq!(bench.alloc(21 << 30), addr, "one class");
    assert_ne!(bench.alloc(20 << 30), addr, "the class below");
}

#[test]
fn r7_4_the_oldest_scope_that_accepts_takes_the_request() {
    let bench = immediate("");
    let (first, second) = (PoolId(1, 0), PoolId(2, 0));
    bench.cache.begin_allocate_to_pool(first, Filter::Stream(COPY)).unwrap();
    bench.cache.begin_allocate_to_pool(second, Filter::Any).unwrap();
    bench.cache.record_history(Some(HistoryOptions::default()));
    for stream in [COPY, OTHER] {
        bench.cache.alloc(MIB, &Caller::on(stream)).unwrap();
    }
    let pools: Vec<PoolId> = bench.cache.take_history().iter().map(|event| event.pool).collect();
    assert_eq!(pools, [first, first, second, second]);
}

#[test]
fn r7_21_scopes_and_references_are_counted_as_on_the_device() {
    let bench = immediate("");
    let pool = PoolId(1, 0);
    assert!(matches!(bench.cache.end_allocate_to_pool(pool), Err(Error::ScopeNotOpen { .. })));
    assert!(matches!(bench.cache.release_pool(pool), Err(Error::UnknownPool { .. })));
    bench.cache.begin_allocate_to_pool(pool, Filter::Any).unwrap();
    assert!(matches!(bench.cache.begin_allocate_to_pool(pool, Filter::Any), Err(Error::ScopeOpen { .. })));
    bench.cache.end_allocate_to_pool(pool).unwrap();
    bench.cache.begin_allocate_to_pool(pool, Filter::Any).unwrap();
    bench.cache.end_allocate_to_pool(pool).unwrap();
    assert_eq!(bench.cache.pool_use_count(pool).unwrap(), 2);
    bench.cache.release_pool(pool).unwrap();
    bench.cache.release_pool(pool).unwrap();
    assert!(matches!(bench.cache.release_pool(pool), Err(Error::PoolReleased { .. })));
    assert!(matches!(bench.cache.begin_allocate_to_pool(pool, Filter::Any), Err(Error::PoolReleased { .. })));
    assert!(bench.cache.release_pool(PoolId::DEFAULT).is_err());
}

#[test]
fn r7_20_emptying_frees_graph_pools_without_owners_and_keeps_their_figures() {
    let bench = immediate("");
    let pool = PoolId(1, 0);
    bench.cache.begin_allocate_to_pool(pool, Filter::Any).unwrap();
    let (a, b) = (bench.alloc(MIB), bench.alloc(MIB));
    bench.cache.end_allocate_to_pool(pool).unwrap();
    bench.free(a);
    bench.cache.empty_cache().unwrap();
    assert_eq!(bench.sim.count(CallKind::HostFree), 0, "the pool has an owner");
    let c = bench.alloc(MIB);
    assert_ne!(c, a, "pools do not share blocks");
    bench.cache.release_pool(pool).unwrap();
    bench.cache.empty_cache().unwrap();
    assert_eq!(bench.sim.count(CallKind::HostFree), 1);
    assert_eq!(bench.cache.pool_use_count(pool).unwrap(), 0, "b keeps it");
    bench.free(b);
    bench.cache.empty_cache().unwrap();
    assert!(bench.cache.pool_use_count(pool).is_err());
    let stats = bench.cache.stats();
    assert_eq!((stats.active_requests.allocated, stats.active_requests.current), (3, 1));
}

#[test]
fn r7_16_a_block_used_in_the_capture_it_was_made_in_is_never_used_again() {
    let bench = immediate("");
    let caller = Caller::on(COPY);
    bench.sim.capture_begin(COPY, CaptureMode::Global).unwrap();
    let (used, unused) = (bench.cache.alloc(MIB, &caller).unwrap(), bench.cache.alloc(MIB, &caller).unwrap());
    assert!(bench.cache.record_stream(used, COPY));
    bench.cache.free(used, &caller).unwrap();
    bench.cache.free(unused, &caller).unwrap();
    assert_eq!(bench.cache.alloc(MIB, &caller).unwrap(), unused, "unused ones are cached");
    assert_eq!(bench.sim.count(CallKind::EventRecord), 0);
    let graph = bench.sim.capture_end(COPY);
    assert!(graph.is_ok(), "page-locking under the relaxed mode does not invalidate the capture (R7.10)");
    bench.cache.empty_cache().unwrap();
    assert_eq!(bench.cache.size_of(used), Some((MIB, false)));
}

#[test]
fn a_block_used_by_a_capturing_stream_is_not_handed_out_while_the_graph_may_run() {
    let bench = immediate("");
    let block = bench.alloc(MIB);
    bench.sim.capture_begin(COPY, CaptureMode::Relaxed).unwrap();
    bench.cache.record_stream(block, COPY);
    bench.free(block);
    bench.sim.capture_end(COPY).unwrap();
    assert_ne!(bench.alloc(MIB), block);
    assert!(bench.cache.process_events().is_ok(), "no event of a capture is in the queue");
}

#[test]
fn r7_19_with_catch_all_a_failing_free_only_warns() {
    let bench = immediate("pinned_free_catch_all:True");
    assert!(bench.cache.free(0x1234, &Caller::on(DEFAULT)).is_ok());
    bench.configure("pinned_free_catch_all:False");
    assert!(bench.cache.free(0x1234, &Caller::on(DEFAULT)).is_err());
}

#[test]
fn r7_22_r7_23_r7_24_statistics() {
    let bench = immediate("");
    let (a, b) = (bench.alloc(MIB), bench.alloc(3 * MIB));
    bench.free(a);
    let c = bench.alloc(3 * MIB);
    bench.free(b);
    bench.cache.empty_cache().unwrap();
    let stats = bench.cache.stats();
    let flat = stats.flatten();
    for (key, value) in [
        ("num_host_alloc", 3),
        ("num_host_free", 2),
        ("allocations.current", 1),
        ("allocated_bytes.peak", 9 * MIB),
        ("allocated_bytes.current", 4 * MIB),
        ("active_requests.current", 1),
        // The peaks of both bins together; at no moment were three blocks in use.
        ("active_requests.peak", 3),
        ("active_bytes.allocated", 9 * MIB),
        ("host_alloc_time.count", 3),
        ("host_free_time.count", 2),
    ] {
        assert_eq!(flat[key] as u64, value, "{key}");
    }
    assert!(flat["host_alloc_time.min"] <= flat["host_alloc_time.avg"] && flat["host_alloc_time.total"] > 0);
    assert_eq!((stats.allocations_by_bin[20], stats.allocations_by_bin[22]), (1, 2));
    bench.cache.reset_peak_stats();
    bench.cache.reset_accumulated_stats();
    let flat = bench.cache.stats().flatten();
    assert!(flat.iter().filter(|(key, _)| key.contains("_time.")).all(|(_, &value)| value == 0));
    assert_eq!((flat["active_requests.peak"], flat["active_bytes.peak"] as u64), (1, 4 * MIB));
    assert_eq!((flat["allocations.allocated"], flat["active_requests.freed"]), (0, 0));
    bench.free(c);
}

struct Here;

impl StackSource for Here {
    fn capture(&self) -> Option<Stack> {
        Some([Frame { name: "load".into(), filename: "data.py".into(), line: 7, ..Frame::default() }].into())
    }
}

#[test]
fn r9_16_r9_17_host_segments_and_traces_in_the_snapshot() {
    let bench = Bench::new("", EventMode::Manual);
    let mut snapshot = Snapshot::default();
    bench.alloc(MIB);
    bench.cache.write_into(&mut snapshot, true);
    assert!(snapshot.host_segments.is_empty(), "only while a history is kept");

    bench.cache.record_history(Some(HistoryOptions { level: Level::All, ..HistoryOptions::default() }));
    let caller = Caller { stack: Some(&Here), ..Caller::on(DEFAULT) };
    let pending = bench.cache.alloc(3 * MIB, &caller).unwrap();
    let cached = bench.alloc(5 * MIB);
    bench.cache.record_stream(pending, COPY);
    bench.cache.free(pending, &caller).unwrap();
    bench.free(cached);
    bench.cache.register(0x7fff_0000_0000, 4096).unwrap();
    bench.cache.write_into(&mut snapshot, true);
    let states: Vec<_> = snapshot
        .host_segments
        .iter()
        .map(|segment| {
            assert_eq!((segment.device, segment.stream, segment.blocks.len()), (-1, 0, 1));
            assert_eq!((segment.segment_type, segment.is_expandable), (SegmentType::Small, false));
            assert_eq!(segment.requested_size, segment.total_size);
            (segment.total_size, segment.allocated_size, segment.active_size, segment.blocks[0].state)
        })
        .collect();
    let expected = [
        (MIB, MIB, MIB, BlockState::ActiveAllocated),
        (4 * MIB, 0, 4 * MIB, BlockState::ActivePendingFree),
        (8 * MIB, 0, 0, BlockState::Inactive),
        (4096, 4096, 4096, BlockState::ActiveAllocated),
    ];
    assert_eq!(states, expected);
    assert!(snapshot.host_segments.is_sorted_by_key(|segment| segment.address));

    let actions: Vec<_> = snapshot.host_traces.iter().map(|entry| (entry.action.as_str(), entry.size)).collect();
    let expected = [
        ("segment_alloc", 4 * MIB),
        ("alloc", 4 * MIB),
        ("segment_alloc", 8 * MIB),
        ("alloc", 8 * MIB),
        ("free_requested", 4 * MIB),
        ("free_requested", 8 * MIB),
        ("free_completed", 8 * MIB),
    ];
    assert_eq!(actions, expected);
    assert!(snapshot.host_traces[0].stack.is_some() && snapshot.host_traces[2].stack.is_none());

    let mut without = Snapshot::default();
    bench.cache.write_into(&mut without, false);
    assert_eq!((without.host_segments.len(), without.host_traces.len()), (4, 0), "without traces");
    bench.cache.write_into(&mut without, true);
    assert_eq!((without.host_segments.len(), without.host_traces.len()), (8, 7), "added to what is there");
    bench.cache.empty_cache().unwrap();
    let history = bench.cache.take_history();
    assert_eq!(history.last().map(|event| event.action), Some(Action::SegmentFree));
    bench.cache.unregister(0x7fff_0000_0000).unwrap();
    assert!(bench.cache.unregister(0x7fff_0000_0000).is_err());
}

#[test]
fn a_dropped_buffer_waits_for_the_streams_it_was_used_on() {
    let bench = Bench::new("", EventMode::Manual);
    let buffer = bench.cache.buffer(MIB, DEFAULT).unwrap();
    let addr = buffer.addr();
    assert_eq!(buffer.use_on(COPY).stream(), COPY);
    drop(buffer);
    let other = bench.cache.buffer(MIB, DEFAULT).unwrap();
    assert_ne!(other.addr(), addr);
    bench.sim.sync();
    assert_eq!(bench.cache.buffer(MIB, DEFAULT).unwrap().addr(), addr);
    let raw = other.into_raw();
    assert_eq!(bench.cache.size_of(raw), Some((MIB, true)));
    bench.free(raw);
    assert!(bench.cache.last_error().is_none());
}

#[test]
fn the_last_owner_gives_everything_back_that_nobody_holds() {
    let bench = Bench::new("", EventMode::Manual);
    let (held, cached, waiting) = (bench.alloc(MIB), bench.alloc(2 * MIB), bench.alloc(4 * MIB));
    bench.cache.record_stream(waiting, COPY);
    bench.free(cached);
    bench.free(waiting);
    let sim = bench.sim.clone();
    drop(bench);
    assert_eq!(sim.page_locked(), MIB, "somebody has the address {held:#x}");
    assert_eq!(sim.count(CallKind::EventCreate), sim.count(CallKind::EventDestroy));
}

#[test]
fn hits_of_many_threads_go_on_while_one_page_locks() {
    let bench = immediate("");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = &bench.cache;
            scope.spawn(move || {
                let caller = Caller::on(DEFAULT);
                for round in 0..200 {
                    let addr = cache.alloc(MIB << (round % 3), &caller).unwrap();
                    cache.record_stream(addr, Stream::new(Device(0), thread));
                    cache.free(addr, &caller).unwrap();
                }
            });
        }
    });
    bench.cache.process_events().unwrap();
    let stats = bench.cache.stats();
    assert_eq!((stats.active_requests.current, stats.active_requests.allocated), (0, 800));
    bench.cache.empty_cache().unwrap();
    assert_eq!(bench.sim.page_locked(), 0);
}
