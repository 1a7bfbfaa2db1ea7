//! Sleep and wake of memory pools: the default one, users' and graphs' (C49).

use std::sync::Arc;

use millpond::config::Settings;
use millpond::{
    Action, Allocator, Caller, Error, HistoryOptions, HostCache, MemPool, MemPoolOptions, Metric, PoolId, Slept,
};
use millpond_driver::{Bytes, CaptureMode, Code, Device, Memory, Status as _, Stream};
use millpond_sim::{CallKind, FaultRule, Sim, SimConfig};

const MIB: u64 = 1 << 20;
const D: Device = Device(0);
const STREAM: Stream = Stream::new(D, 0x101);
const CALLER: Caller<'static> = Caller::on(STREAM);

struct Bench {
    sim: Arc<Sim>,
    allocator: Allocator,
    host: HostCache,
}

impl Bench {
    fn new() -> Bench {
        let config = SimConfig { backing: true, log: true, ..SimConfig::with_capacity(Bytes(512 * MIB)) };
        let sim = Sim::new(config);
        let (settings, _) = Settings::parse("expandable_segments:True").unwrap();
        let allocator = Allocator::with_settings(sim.clone(), D, settings).unwrap();
        let host = HostCache::new(sim.clone(), allocator.world().clone());
        Bench { sim, allocator, host }
    }

    fn alloc(&self, mib: u64) -> u64 {
        let addr = self.allocator.alloc(mib * MIB, STREAM, &CALLER).unwrap();
        self.sim.write(addr, &(addr ^ 0x5555).to_le_bytes()).unwrap();
        addr
    }

    fn is_marked(&self, addr: u64) -> bool {
        self.sim.read(addr, 8).is_ok_and(|bytes| bytes == (addr ^ 0x5555).to_le_bytes())
    }

    fn reserved(&self) -> u64 {
        self.allocator.verify().unwrap();
        self.allocator.stats().all(Metric::ReservedBytes).current as u64
    }

    fn used(&self) -> u64 {
        let (free, total) = self.sim.mem_info(D).unwrap();
        total - free
    }

    fn free(&self, addr: u64) {
        self.allocator.free(addr, &CALLER).unwrap();
    }
}

#[test]
fn c49_live_blocks_keep_addresses_and_contents_and_free_pages_go() {
    let bench = Bench::new();
    let [a, b, c] = [30, 50, 20].map(|mib| bench.alloc(mib));
    bench.free(b);
    assert_eq!(bench.reserved(), 100 * MIB);
    let slept = bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER).unwrap();
    // Pages of 20 MiB: two under a, one under c, and none under b alone.
    assert_eq!(slept, Slept { bytes: 60 * MIB, contents: 60 * MIB });
    assert_eq!((bench.reserved(), bench.used()), (0, 0));
    assert!(bench.sim.read(a, 1).is_err());
    let again = bench.allocator.sleep(PoolId::DEFAULT, None, &CALLER).unwrap_err();
    assert_eq!(again.to_string(), "memory pool (0, 0) is asleep; wake it first");

    // Somebody else has the memory meanwhile; so has a request, in a cudaMalloc segment.
    let other = bench.sim.mem_alloc(D, 400 * MIB).unwrap();
    let meanwhile = bench.alloc(4);
    assert_eq!(bench.reserved(), 20 * MIB);
    bench.sim.mem_free(D, other).unwrap();

    assert_eq!(bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap(), slept);
    assert_eq!(bench.reserved(), 80 * MIB);
    assert!([a, c, meanwhile].into_iter().all(|addr| bench.is_marked(addr)));
    assert!(matches!(bench.allocator.wake(PoolId::DEFAULT, &CALLER), Err(Error::PoolAwake { .. })));
    let more = bench.alloc(30);
    assert!(more > a && more < c + 20 * MIB, "expandable segments serve again");
    [a, c, meanwhile, more].into_iter().for_each(|addr| bench.free(addr));
    bench.allocator.empty_cache(&CALLER).unwrap();
    assert_eq!((bench.reserved(), bench.used()), (0, 0));
}

#[test]
fn c49_a_graph_finds_its_addresses_and_contents_only_when_kept() {
    let bench = Bench::new();
    let pool = MemPool::for_graphs(&bench.allocator).unwrap();
    let capture = pool.capture(STREAM, CaptureMode::Relaxed).unwrap();
    let addr = bench.allocator.alloc(30 * MIB, STREAM, &CALLER).unwrap();
    bench.sim.launch(STREAM, 10, &[], &[(addr, 30 * MIB)]).unwrap();
    let graph = capture.end().unwrap();
    let outside = bench.alloc(20);
    for keep in [Some(&bench.host), None] {
        bench.sim.write(addr, &(addr ^ 0x5555).to_le_bytes()).unwrap();
        bench.allocator.sleep(pool.id(), keep, &CALLER).unwrap();
        assert_eq!(bench.used(), 20 * MIB, "other pools stay awake");
        assert!(bench.allocator.is_asleep(pool.id()) && bench.is_marked(outside));
        bench.allocator.wake(pool.id(), &CALLER).unwrap();
        bench.sim.graph_launch(graph.graph(), STREAM).unwrap();
        assert_eq!(bench.is_marked(addr), keep.is_some());
    }
}

#[test]
fn what_is_freed_in_its_sleep_does_not_wake() {
    let bench = Bench::new();
    let [a, b, c] = [20, 20, 20].map(|mib| bench.alloc(mib));
    bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER).unwrap();
    bench.free(b);
    bench.allocator.verify().unwrap();
    let meanwhile = bench.alloc(20);
    assert_ne!(meanwhile, b, "no address without memory is handed out");
    bench.free(meanwhile);
    let slept = bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap();
    assert_eq!(slept, Slept { bytes: 40 * MIB, contents: 40 * MIB });
    assert!(bench.is_marked(a) && bench.is_marked(c));
    assert_eq!(bench.reserved(), bench.used());
}

#[test]
fn a_user_pool_that_goes_in_its_sleep_leaves_nothing() {
    let bench = Bench::new();
    let pool = MemPool::new(&bench.allocator, MemPoolOptions::default()).unwrap();
    let scope = pool.enter().unwrap();
    let addr = bench.alloc(20);
    drop(scope);
    bench.allocator.sleep(pool.id(), Some(&bench.host), &CALLER).unwrap();
    bench.allocator.empty_cache(&CALLER).unwrap();
    bench.free(addr);
    drop(pool);
    bench.allocator.verify().unwrap();
    assert_eq!(bench.allocator.expandable_segments(true).len(), 0);
    assert_eq!(bench.sim.count(CallKind::AddrFree), bench.sim.count(CallKind::Reserve));
}

#[test]
fn waking_without_enough_memory_sleeps_on() {
    let bench = Bench::new();
    let [a, b] = [100, 100].map(|mib| bench.alloc(mib));
    bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER).unwrap();
    let other = bench.sim.mem_alloc(D, 400 * MIB).unwrap();
    let error = bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap_err();
    let text = "memory pool (0, 0) needs 200MiB to wake up and 112MiB can be had; it sleeps on with all it kept";
    assert_eq!(error.to_string(), text);
    assert!(error.is_out_of_memory() && bench.sim.take_last_error().is_none(), "it must not come up again (C71)");
    assert_eq!((bench.used(), bench.reserved()), (400 * MIB, 0));
    bench.sim.mem_free(D, other).unwrap();
    bench.allocator.set_memory_fraction(0.25).unwrap();
    let error = bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap_err();
    assert!(matches!(error, Error::NoRoomToWake { needed, free, .. } if (needed, free) == (200 * MIB, 128 * MIB)));
    bench.allocator.set_memory_fraction(1.0).unwrap();
    bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap();
    assert!(bench.is_marked(a) && bench.is_marked(b));
}

#[test]
fn waking_takes_back_what_the_allocator_caches() {
    let bench = Bench::new();
    let pool = MemPool::new(&bench.allocator, MemPoolOptions::default()).unwrap();
    let scope = pool.enter().unwrap();
    let addr = bench.alloc(200);
    drop(scope);
    bench.allocator.sleep(pool.id(), Some(&bench.host), &CALLER).unwrap();
    let meanwhile = bench.alloc(400);
    bench.free(meanwhile);
    assert_eq!(bench.reserved(), 400 * MIB);
    bench.allocator.wake(pool.id(), &CALLER).unwrap();
    assert!(bench.is_marked(addr));
    assert_eq!(bench.reserved(), 200 * MIB);
}

#[test]
fn the_history_maps_and_unmaps_every_address_once() {
    let bench = Bench::new();
    bench.allocator.record_history(Some(HistoryOptions::default()));
    let [a, b] = [20, 20].map(|mib| bench.alloc(mib));
    bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER).unwrap();
    bench.free(a);
    bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap();
    bench.free(b);
    bench.allocator.empty_cache(&CALLER).unwrap();
    let events = bench.allocator.take_history();
    let of = |action| {
        let events = events.iter().filter(move |event| event.action == action);
        events.map(|event| (event.addr, event.size)).collect::<Vec<_>>()
    };
    let pages = [(a, 20 * MIB), (b, 20 * MIB)];
    assert_eq!((of(Action::SegmentMap), of(Action::SegmentUnmap)), (pages.to_vec(), pages.to_vec()));
}

#[test]
fn a_capture_is_not_disturbed_and_a_saved_state_waits() {
    let bench = Bench::new();
    let pool = MemPool::for_graphs(&bench.allocator).unwrap();
    let capture = pool.capture(STREAM, CaptureMode::Relaxed).unwrap();
    let addr = bench.allocator.alloc(30 * MIB, STREAM, &CALLER).unwrap();
    let asleep = bench.allocator.sleep(pool.id(), None, &CALLER);
    assert!(matches!(asleep, Err(Error::PoolInCapture { .. })), "{asleep:?}");
    let _graph = capture.end().unwrap();
    let saved = pool.checkpoint(&CALLER).unwrap();
    bench.allocator.sleep(pool.id(), Some(&bench.host), &CALLER).unwrap();
    assert!(matches!(pool.restore(&saved, &CALLER), Err(Error::PoolAsleep { .. })));
    bench.allocator.wake(pool.id(), &CALLER).unwrap();
    assert_eq!(pool.restore(&saved, &CALLER).unwrap().live, [addr]);
    bench.allocator.verify().unwrap();
}

#[test]
fn sleeping_and_waking_have_a_bounded_number_of_calls() {
    let bench = Bench::new();
    // One run of five pages.
    let _live = [30, 50, 20].map(|mib| bench.alloc(mib));
    let calls = |kinds: &[CallKind], act: &dyn Fn()| {
        let count = || kinds.iter().map(|&kind| bench.sim.count(kind)).collect::<Vec<_>>();
        let before = count();
        act();
        count().iter().zip(before).map(|(now, then)| now - then).collect::<Vec<_>>()
    };
    let sleeping = [CallKind::Memcpy, CallKind::Unmap, CallKind::Release, CallKind::AddrFree];
    let asleep = calls(&sleeping, &|| {
        bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER).unwrap();
    });
    assert_eq!(asleep, [1, 1, 5, 0], "one copy and one unmapping a run, one release a page");
    let waking = [CallKind::Create, CallKind::Map, CallKind::SetAccess, CallKind::Memcpy, CallKind::Reserve];
    let awake = calls(&waking, &|| {
        bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap();
    });
    assert_eq!(awake, [5, 5, 1, 1, 0], "a page and a mapping each; access and contents a run");
}

#[test]
fn whatever_fails_in_sleep_or_waking_no_contents_are_lost_and_nothing_leaks() {
    for index in 0.. {
        let bench = Bench::new();
        let [a, b] = [30, 20].map(|mib| bench.alloc(mib));
        bench.sim.fail(FaultRule::at(bench.sim.calls_made() + index, Code::ERROR_UNKNOWN));
        let slept = bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER);
        let woken = slept.and_then(|_| bench.allocator.wake(PoolId::DEFAULT, &CALLER));
        let was_hit = bench.sim.faults_injected() > 0;
        bench.sim.clear_faults();
        if woken.is_err() {
            bench.allocator.verify().unwrap();
            if !bench.allocator.is_asleep(PoolId::DEFAULT) {
                bench.allocator.sleep(PoolId::DEFAULT, Some(&bench.host), &CALLER).unwrap();
            }
            bench.allocator.wake(PoolId::DEFAULT, &CALLER).unwrap();
        }
        assert!(bench.is_marked(a) && bench.is_marked(b), "call {index}");
        [a, b].into_iter().for_each(|addr| bench.free(addr));
        bench.allocator.empty_cache(&CALLER).unwrap();
        assert_eq!((bench.used(), bench.reserved()), (0, 0), "call {index}");
        if !was_hit {
            assert!(index > 15);
            return;
        }
    }
}

#[test]
fn an_unknown_pool_and_an_exact_address_are_clear_errors() {
    let bench = Bench::new();
    let unknown = PoolId(7, 0);
    assert!(matches!(bench.allocator.sleep(unknown, None, &CALLER), Err(Error::UnknownPool { .. })));
    assert!(matches!(bench.allocator.wake(unknown, &CALLER), Err(Error::UnknownPool { .. })));
    let addr = bench.alloc(20);
    bench.allocator.sleep(PoolId::DEFAULT, None, &CALLER).unwrap();
    bench.free(addr);
    let exact = bench.allocator.alloc_at(addr, 20 * MIB, STREAM, &CALLER);
    assert!(matches!(exact, Err(Error::PoolAsleep { .. })));
}
