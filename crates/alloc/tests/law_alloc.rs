//! Requests and frees: R2.2–R2.8, R2.38–R2.45, R2.56–R2.57, R3.1, R3.6–R3.7.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::{BASE, GIB, KIB, MIB, Machine, machine, manual, on, stream};
use millpond::{Allocator, BlockUse, Error, FreeMemoryCallback, MemPool, Oom, OomObserver};
use millpond_driver::{Bytes, Capture, CaptureMode, Code, Device, Memory, Peers};
use millpond_sim::{CallKind, DeviceConfig, FaultRule, SimConfig};

#[test]
fn r2_1_an_eib_or_more_is_refused_at_once() {
    let m = machine(64 * MIB, "");
    let error = m.try_alloc(1 << 60).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }) && error.is_out_of_memory());
    assert!(error.to_string().contains("more than 1EB"), "{error}");
    assert_eq!(m.stat("num_ooms"), 0);
    assert!(matches!(m.try_alloc((1 << 60) - 1), Err(Error::OutOfMemory(_))), "one byte less goes the whole way");
    assert_eq!(m.stat("num_ooms"), 1);
}

#[test]
fn r2_2_without_caching_every_request_is_a_driver_call_and_nothing_is_counted() {
    let m = machine(64 * MIB, "");
    m.record_all();
    m.a.enable_caching(false);
    let a = m.alloc(1000);
    assert_eq!(m.sim.take_log()[0].size, 1000, "exactly what was asked");
    let _ = m.try_alloc(0);
    assert_eq!(m.calls(CallKind::Malloc), 2, "even 0 bytes are asked of the driver");
    m.a.record_stream(a, stream(1), &on(0)).unwrap();
    assert_eq!((m.stat("allocation.all.allocated"), m.reserved(), m.stat("num_device_alloc")), (0, 0, 0));
    assert_eq!(m.take_history(), []);
    m.free(a);
    assert_eq!((m.calls(CallKind::Free), m.sim.mem_info(common::DEVICE).unwrap().0), (1, 64 * MIB));
}

#[test]
fn r2_2_blocks_of_both_times_are_freed_the_way_they_were_made() {
    let m = machine(64 * MIB, "");
    let cached = m.alloc(4 * MIB);
    m.a.enable_caching(false);
    let plain = m.alloc(4 * MIB);
    m.free(cached);
    assert_eq!(m.calls(CallKind::Free), 0, "back to its pool");
    m.a.enable_caching(true);
    m.free(plain);
    assert_eq!(m.calls(CallKind::Free), 1, "back to the driver");
    assert_eq!(m.alloc(4 * MIB), cached);
}

#[test]
fn r2_2_without_caching_a_capture_is_refused() {
    let m = machine(64 * MIB, "");
    m.a.enable_caching(false);
    m.sim.capture_begin(stream(1), CaptureMode::Relaxed).unwrap();
    m.a.mark_capture_begin();
    let error = m.a.alloc(1000, stream(1), &on(1)).unwrap_err();
    assert!(matches!(error, Error::CachingDisabled { .. }), "{error}");
    m.a.mark_capture_end();
}

#[test]
fn r2_3_nothing_is_given_for_nothing() {
    let m = machine(64 * MIB, "");
    m.record_all();
    let calls = m.sim.calls_made();
    assert_eq!(m.alloc(0), 0);
    assert_eq!((m.sim.calls_made(), m.stat("allocation.all.allocated")), (calls, 0));
    m.free(0);
    assert_eq!(m.take_history(), []);
}

#[test]
fn r2_4_the_stream_of_a_request_need_not_be_the_callers() {
    let m = machine(64 * MIB, "");
    let block = m.a.alloc(4 * MIB, stream(3), &on(1)).unwrap();
    m.a.free(block, &on(2)).unwrap();
    assert_ne!(m.alloc_on(4 * MIB, 1), block);
    assert_eq!(m.alloc_on(4 * MIB, 3), block);
}

/// Frees one live block when it is called, and says what it is told to say.
struct Freeing {
    a: Allocator,
    block: Mutex<Option<u64>>,
    says: bool,
    calls: AtomicUsize,
}

impl std::fmt::Debug for Freeing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Freeing({})", self.says)
    }
}

impl FreeMemoryCallback for Freeing {
    fn free_memory(&self) -> bool {
        self.calls.fetch_add(1, SeqCst);
        if let Some(block) = self.block.lock().unwrap().take() {
            self.a.free(block, &on(0)).unwrap();
        }
        self.says
    }
}

fn freeing(m: &Machine, block: Option<u64>, says: bool) -> Arc<Freeing> {
    let callback = Arc::new(Freeing { a: m.a.clone(), block: Mutex::new(block), says, calls: AtomicUsize::new(0) });
    m.a.attach_free_memory_callback(callback.clone());
    callback
}

#[test]
fn r2_8_every_callback_runs_and_the_pool_is_searched_again_when_one_freed() {
    let m = machine(64 * MIB, "");
    let block = m.alloc(40 * MIB);
    let callbacks = [freeing(&m, Some(block), true), freeing(&m, None, false), freeing(&m, None, true)];
    assert_eq!(m.alloc(40 * MIB), block);
    assert_eq!(callbacks.each_ref().map(|callback| callback.calls.load(SeqCst)), [1, 1, 1], "no short circuit");
    assert_eq!((m.calls(CallKind::Malloc), m.stat("num_alloc_retries")), (1, 0));
}

#[test]
fn r2_8_without_an_answer_the_ladder_goes_on() {
    let m = machine(64 * MIB, "");
    let block = m.alloc(40 * MIB);
    freeing(&m, Some(block), false);
    m.alloc(40 * MIB);
    // The block was free, but nobody looked: the driver refused, the segment was released and made again.
    assert_eq!((m.calls(CallKind::Malloc), m.calls(CallKind::Free), m.stat("num_alloc_retries")), (3, 1, 1));
}

#[test]
fn r2_8_a_hit_calls_nobody() {
    let m = machine(64 * MIB, "");
    let callback = freeing(&m, None, true);
    m.free(m.alloc(4 * MIB));
    let before = callback.calls.load(SeqCst);
    m.alloc(4 * MIB);
    assert_eq!(callback.calls.load(SeqCst), before);
}

#[test]
fn r2_38_fractions_are_checked_and_rounded() {
    let m = machine(100 * MIB, "");
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(m.a.set_memory_fraction(bad), Err(Error::InvalidFraction { .. })));
    }
    assert_eq!(m.a.memory_fraction(), 1.0);
    m.a.set_memory_fraction(0.5).unwrap();
    assert_eq!(m.a.memory_fraction(), 0.5);
    m.alloc(50 * MIB);
    let calls = m.calls(CallKind::Malloc);
    let Error::OutOfMemory(oom) = m.try_alloc(1000).unwrap_err() else { panic!("no OOM") };
    assert_eq!((oom.limit, m.calls(CallKind::Malloc)), (Some(50 * MIB), calls), "R2.11: the driver is not asked");
    m.a.set_memory_fraction(1.0).unwrap();
    m.alloc(1000);
}

/// E6, R2.39: the key sets the limit once, at the start.
#[test]
fn r2_39_the_fraction_of_the_settings_counts_at_the_start_only() {
    for fraction in [0.0, 0.5, 1.0] {
        let m = machine(100 * MIB, &format!("per_process_memory_fraction:{fraction}"));
        assert_eq!(m.a.memory_fraction(), fraction);
        m.a.world().configure("per_process_memory_fraction:0.25", millpond::config::Dialect::Torch).unwrap();
        assert_eq!(m.a.memory_fraction(), fraction);
    }
}

/// E7.
#[test]
fn r2_11_both_kinds_of_segment_count_towards_the_limit() {
    let m = machine(200 * MIB, "per_process_memory_fraction:0.6");
    let set = |on: &str| {
        let conf = format!("expandable_segments:{on}");
        m.a.world().configure(&conf, millpond::config::Dialect::Torch).unwrap();
    };
    let mut blocks = Vec::new();
    for on in ["False", "True", "False"] {
        set(on);
        blocks.push(m.alloc(40 * MIB));
    }
    assert!(matches!(m.try_alloc(40 * MIB), Err(Error::OutOfMemory(_))));
    m.free_all(blocks);
    m.alloc(120 * MIB);
}

struct Told(Mutex<mpsc::Sender<(u64, Oom)>>, Allocator);

impl OomObserver for Told {
    fn out_of_memory(&self, oom: &Oom) {
        // Outside of all locks, so it may ask the allocator.
        let ooms = self.1.stats().num_ooms;
        self.0.lock().unwrap().send((ooms, oom.clone())).unwrap();
    }
}

fn told(m: &Machine) -> (Arc<Told>, mpsc::Receiver<(u64, Oom)>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Told(Mutex::new(sender), m.a.clone())), receiver)
}

/// R2.43, R2.44: (device, alloc_size, limit or total, free), after num_ooms went up and before the error is raised.
#[test]
fn r2_44_an_oom_observer_sees_the_segment_size_and_the_limit() {
    let m = machine(64 * MIB, "");
    let (observer, seen) = told(&m);
    m.a.attach_oom_observer(observer);
    m.alloc(30 * MIB);
    m.try_alloc(40 * MIB - 1000).unwrap_err();
    let (ooms, oom) = seen.try_recv().unwrap();
    assert_eq!((ooms, oom.device, oom.stream), (1, common::DEVICE, stream(0)));
    assert_eq!((oom.requested, oom.rounded, oom.alloc_size), (40 * MIB - 1000, 40 * MIB - 512, 40 * MIB));
    assert_eq!((oom.limit, oom.device_total, oom.device_free), (None, 64 * MIB, 34 * MIB));
    m.a.set_memory_fraction(0.5).unwrap();
    m.try_alloc(5 * MIB).unwrap_err();
    let (ooms, oom) = seen.try_recv().unwrap();
    assert_eq!((ooms, oom.limit, oom.alloc_size), (2, Some(32 * MIB), 20 * MIB));
    assert!(seen.try_recv().is_err(), "once for each error");
}

/// R2.40, R2.41, E8.
#[test]
fn r2_41_a_rejection_is_short_and_told_to_its_own_observers() {
    let m = machine(GIB, "throw_on_cudamalloc_oom:True");
    let ((rejections, rejected), (ooms, out_of_memory)) = (told(&m), told(&m));
    m.a.attach_rejection_observer(rejections);
    m.a.attach_oom_observer(ooms);
    m.record_all();
    let live = m.alloc(100 * MIB);
    m.free(m.alloc(200 * MIB));
    m.a.take_history();
    m.a.world().configure("per_process_memory_fraction:0.5", millpond::config::Dialect::Torch).unwrap();
    let calls = m.calls(CallKind::Malloc);
    let error = m.try_alloc(300 * MIB + 1).unwrap_err();
    assert!(matches!(error, Error::Rejected { requested } if requested == 300 * MIB + 1), "{error}");
    assert!(error.is_out_of_memory());
    let text = error.to_string();
    assert!(text.contains("preemptively rejected") && text.contains("per_process_memory_fraction"), "{text}");
    assert!(text.contains("300.00 MiB") && !text.contains("GPU 0"), "the requested size, nothing else: {text}");
    assert_eq!((m.stat("num_oom_rejections"), m.stat("num_ooms"), m.stat("num_alloc_retries")), (1, 0, 0));
    assert_eq!((m.calls(CallKind::Malloc), m.reserved()), (calls, 300 * MIB), "no retry released the 200 MiB");
    assert_eq!(m.take_history(), [], "no OOM entry");
    // On another thread, so it may take a moment.
    let (_, oom) = rejected.recv_timeout(Duration::from_secs(10)).expect("a rejection observer was told");
    assert_eq!((oom.alloc_size, oom.reserved, oom.device_total), (302 * MIB, 300 * MIB, GIB));
    assert!(out_of_memory.try_recv().is_err(), "OOM observers are not told");
    m.free(live);
}

/// R2.40: the check reads the fraction in force and the whole device by default; R2.11 comes first.
#[test]
fn r2_40_the_limit_comes_before_the_policy() {
    let m = machine(GIB, "throw_on_cudamalloc_oom:True");
    assert!(matches!(m.try_alloc(2 * GIB), Err(Error::Rejected { .. })), "beyond the device");
    let m = machine(GIB, "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5");
    assert!(matches!(m.try_alloc(600 * MIB), Err(Error::OutOfMemory(_))), "the limit of the start");
    assert_eq!((m.stat("num_oom_rejections"), m.stat("num_ooms"), m.stat("num_alloc_retries")), (0, 1, 1));
}

/// R2.45: up to and with a power of 1024 the smaller unit.
#[test]
fn r2_45_sizes_are_written_with_two_decimals() {
    use millpond::size::format_size;
    assert_eq!(format_size(1024), "1024 bytes");
    assert_eq!(format_size(1025), "1.00 KiB");
    assert_eq!(format_size(MIB), "1024.00 KiB");
    assert_eq!(format_size(MIB + MIB / 2), "1.50 MiB");
    assert_eq!(format_size(GIB), "1024.00 MiB");
    assert_eq!(format_size(20 * GIB), "20.00 GiB");
}

#[test]
fn r2_56_the_largest_block_of_any_pool_counts() {
    let m = machine(100 * MIB, "");
    assert_eq!(m.a.largest_block(0).unwrap(), 100 * MIB, "0 stands for the device's free memory");
    m.free(m.alloc(40 * MIB));
    assert_eq!(m.a.largest_block(1).unwrap(), 40 * MIB);
    let pool = MemPool::new(&m.a, Default::default()).unwrap();
    let scope = pool.enter().unwrap();
    m.free(m.alloc(50 * MIB));
    drop(scope);
    assert_eq!(m.a.largest_block(1).unwrap(), 50 * MIB, "private pools too");
    assert_eq!(m.a.largest_block(60 * MIB).unwrap(), 60 * MIB, "never below what was given");
    assert_eq!(m.a.largest_block(0).unwrap(), 50 * MIB, "10 MiB are free on the device");
}

#[test]
fn r2_57_the_base_of_an_allocation_is_its_segments() {
    let m = machine(100 * MIB, "");
    let blocks = [4 * MIB; 3].map(|size| m.alloc(size));
    for block in blocks {
        assert_eq!(m.a.base_allocation(block).unwrap(), (BASE, 20 * MIB));
    }
    assert!(matches!(m.a.base_allocation(BASE + 512), Err(Error::UnknownAddress { .. })));
    m.a.world().configure("expandable_segments:True", millpond::config::Dialect::Torch).unwrap();
    let inside = m.alloc(30 * MIB);
    let error = m.a.base_allocation(inside).unwrap_err();
    assert!(matches!(error, Error::Expandable { .. }) && error.to_string().contains("expandable_segments:False"));
}

#[test]
fn r3_1_only_the_start_of_a_live_block_can_be_freed() {
    let m = machine(100 * MIB, "");
    let block = m.alloc(4 * MIB);
    for wrong in [block + 512, block + 4 * MIB, 0x1000] {
        let error = m.a.free(wrong, &on(0)).unwrap_err();
        assert!(error.to_string().starts_with("invalid device pointer: "), "{error}");
    }
    m.free(block);
    assert!(matches!(m.a.free(block, &on(0)), Err(Error::UnknownAddress { .. })), "a second time");
    m.free(0);
    assert_eq!(m.stat("allocation.all.freed"), 1);
}

#[test]
fn r3_6_recording_a_use_of_something_else_is_ignored() {
    let m = manual(100 * MIB, "");
    assert!(!m.record(0, 1) && !m.record(0x1234_5600, 1));
    let block = m.alloc(4 * MIB);
    assert!(!m.record(block + 512, 1), "not its start");
    m.free(block);
    assert!(!m.record(block, 1), "not live any more");
    assert_eq!(m.alloc(4 * MIB), block);
}

#[test]
fn r3_7_a_use_by_the_blocks_own_stream_is_no_use() {
    let m = manual(100 * MIB, "");
    let block = m.alloc_on(4 * MIB, 2);
    m.record(block, 2);
    m.free(block);
    assert_eq!((m.sim.pending_events(), m.stat("active.all.current")), (0, 0));
    assert_eq!(m.alloc_on(4 * MIB, 2), block);
    // Twice the same stream is one event; the block's own among others still none.
    for raw in [1, 1, 2, 3] {
        m.record(block, raw);
    }
    m.free(block);
    assert_eq!((m.sim.pending_events(), m.stat("active.all.current")), (2, 1));
}

/// R2.9: an error that somebody's earlier call left pending is thrown by a request that needs the driver, once; a hit does not
/// look.
#[test]
fn r2_9_a_pending_error_is_thrown_before_the_driver_is_asked() {
    let device = DeviceConfig::with_capacity(Bytes(GIB));
    let m = Machine::with(SimConfig { devices: vec![device.clone(), device], ..SimConfig::default() }, "");
    m.free(m.alloc(4 * MIB));
    for _ in 0..2 {
        let _ = m.sim.enable_peer_access(Device(0), Device(1));
    }
    m.alloc(4 * MIB);
    let error = m.try_alloc(30 * MIB).unwrap_err();
    assert!(matches!(&error, Error::Driver(d) if d.code == Code::ERROR_PEER_ACCESS_ALREADY_ENABLED), "{error}");
    assert_eq!(m.calls(CallKind::Malloc), 1);
    m.alloc(30 * MIB);
}

/// An error that the allocator has returned is not pending any more: the next request does not raise it again.
#[test]
fn r2_9_a_returned_error_is_not_raised_again() {
    for kind in
        [CallKind::EventRecord, CallKind::EventQuery, CallKind::EventSynchronize, CallKind::Free, CallKind::Malloc]
    {
        let m = manual(GIB, "");
        let block = m.alloc(30 * MIB);
        m.free(m.alloc(50 * MIB));
        m.record(block, 1);
        m.sim.fail(FaultRule::nth(kind, 1, Code::ERROR_UNKNOWN));
        let outcomes = [
            m.a.free(block, &on(0)),
            m.a.process_events(&on(0)),
            m.a.empty_cache(&on(0)),
            m.try_alloc(80 * MIB).map(drop),
        ];
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(failed, 1, "{kind}: {outcomes:?}");
        m.alloc(90 * MIB);
    }
}

/// R3.10, R2.35: neighbours that were freed one after the other are one block when the cache is emptied, whichever pools were
/// used in between.
#[test]
fn r3_10_neighbours_are_merged_before_segments_are_released() {
    let m = machine(GIB, "");
    let pool = MemPool::new(&m.a, Default::default()).unwrap();
    let inside = {
        let _scope = pool.enter().unwrap();
        m.alloc(MIB + 1)
    };
    let other = m.alloc_on(10 * MIB - 512, 1);
    m.free_all([inside, other]);
    let [x, y] = [MIB + 1; 2].map(|size| m.alloc(size));
    m.free_all([y, x]);
    m.empty();
    assert_eq!(m.reserved(), 20 * MIB, "the private pool keeps its segment");
}

/// The same for errors of requests without caching, and of questions.
#[test]
fn r2_9_errors_of_plain_calls_are_not_raised_again_either() {
    let m = machine(100 * MIB, "");
    m.a.enable_caching(false);
    assert!(m.try_alloc(200 * MIB).is_err());
    m.a.enable_caching(true);
    m.alloc(4 * MIB);
    m.sim.fail(FaultRule::nth(CallKind::MemInfo, 1, Code::ERROR_UNKNOWN));
    assert!(m.a.largest_block(0).is_err());
    m.alloc(30 * MIB);
    m.a.enable_caching(false);
    let plain = m.alloc(MIB);
    m.a.enable_caching(true);
    m.sim.fail(FaultRule::nth(CallKind::Free, 1, Code::ERROR_UNKNOWN));
    assert!(m.a.free(plain, &on(0)).is_err());
    m.alloc(40 * MIB);
    // What the driver did not take back is still there to be freed.
    m.free(plain);
    assert_eq!(m.calls(CallKind::Free), 2);
}

/// R3.10: neighbours become one block in whatever order they come back, and whichever was handed out last (the merge of that
/// one is put off). Nothing looks at the pool in between, for a look would make up for the merge.
#[test]
fn r3_10_neighbours_merge_in_any_order_whichever_was_handed_out_last() {
    let orders = (0..256_usize).map(|n| [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6]);
    let orders = orders.filter(|order| (0..4).all(|i| order.contains(&i)));
    for (conf, order, last) in orders.flat_map(|order| {
        ["", "expandable_segments:True"].map(|conf| (0..4).map(move |last| (conf, order, last))).into_iter().flatten()
    }) {
        let m = machine(GIB, conf);
        let blocks = [512 * KIB; 4].map(|size| m.alloc(size));
        m.free(blocks[last]);
        assert_eq!(m.alloc(512 * KIB), blocks[last]);
        for index in order {
            m.free(blocks[index]);
        }
        m.verify();
        let idle = m.mapped_blocks(Default::default());
        assert!(matches!(*idle, [(_, size, BlockUse::Free)] if size == 2 * MIB), "{conf} {order:?} {last}: {idle:?}");
        m.empty();
        assert_eq!(m.reserved(), 0);
    }
}
