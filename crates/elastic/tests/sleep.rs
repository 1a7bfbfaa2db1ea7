//! Sleep and wake: addresses stay, memory goes, contents are kept or dropped.

mod common;

use std::sync::Arc;

use common::*;
use millpond::config::Settings;
use millpond::{Allocator, Caller, HostCache, MemPool, PoolId, Slept, World};
use millpond_driver::{Access, Bytes, CaptureMode, Code, Location, Memory, Stream, Virtual};
use millpond_elastic::{Error, Keep, Sleeper, Step};
use millpond_sim::{CallKind, EventMode, FaultRule, Sim, SimConfig};

struct Bench {
    sim: Arc<Sim>,
    sleeper: Sleeper,
}

impl Bench {
    fn on(config: SimConfig) -> Bench {
        let sim = Sim::new(config);
        let host = HostCache::new(sim.clone(), World::new(Settings::default()));
        let sleeper = Sleeper::new(sim.clone(), STREAM, host);
        Bench { sim, sleeper }
    }

    /// Two allocations of two pages under one tag, marked.
    fn graph(&self) -> [u64; 2] {
        [1, 2].map(|seed| {
            let addr = self.sleeper.alloc("graph", 2 * PAGE - 5).unwrap();
            (0..2).for_each(|page| mark(&self.sim, addr + page * PAGE, PAGE, 10 * seed + page));
            addr
        })
    }

    fn is_intact(&self, [a, b]: [u64; 2]) -> bool {
        let pages = [(a, 10), (a + PAGE, 11), (b, 20), (b + PAGE, 21)];
        pages.into_iter().all(|(addr, seed)| is_marked(&self.sim, addr, PAGE, seed))
    }

    fn free(&self) -> u64 {
        self.sim.mem_info(D).unwrap().0
    }
}

#[test]
fn c49_addresses_stay_contents_only_when_kept_and_registrations_go_stale() {
    let bench = Bench::on(machine(64));
    let graph = bench.graph();
    let outside = bench.sleeper.alloc("buffers registered with NCCL", PAGE).unwrap();
    let [registered, kept] = [graph[0], outside].map(|addr| bench.sleeper.register(addr).unwrap());
    bench.sleeper.check(registered).unwrap();
    for keep in [Keep::Contents, Keep::Nothing] {
        let contents = if keep == Keep::Contents { 4 * PAGE } else { 0 };
        let expected = Slept { bytes: 4 * PAGE, contents };
        assert_eq!(bench.sleeper.sleep("graph", keep).unwrap(), expected);
        assert_eq!((bench.free(), bench.sleeper.is_asleep("graph")), (64 * MIB - PAGE, true));
        assert!(bench.sim.read(graph[0], 1).is_err(), "no memory is there");
        // Somebody else uses the memory meanwhile.
        let other = bench.sim.mem_alloc(D, 60 * MIB).unwrap();
        bench.sim.write(other, &[0xee; 4096]).unwrap();
        bench.sim.mem_free(D, other).unwrap();
        assert_eq!(bench.sleeper.wake("graph").unwrap(), expected);
        for addr in graph {
            assert_eq!(bench.sim.mem_get_access(addr, Location::Device(D)), Ok(Access::ReadWrite));
        }
        assert_eq!(bench.is_intact(graph), keep == Keep::Contents);
    }
    let stale = bench.sleeper.check(registered).unwrap_err();
    assert!(matches!(stale, Error::StaleRegistration { addr } if addr == graph[0]), "{stale}");
    bench.sleeper.check(bench.sleeper.register(graph[0]).unwrap()).unwrap();
    bench.sleeper.check(kept).unwrap();
}

#[test]
fn what_makes_no_sense_is_a_clear_error() {
    let bench = Bench::on(machine(64));
    let [a, b] = bench.graph();
    let unknown = bench.sleeper.sleep("weights", Keep::Nothing).unwrap_err();
    assert_eq!(unknown.to_string(), "no allocation or memory pool has the tag 'weights'");
    assert!(matches!(bench.sleeper.wake("weights"), Err(Error::UnknownTag { .. })));
    assert!(matches!(bench.sleeper.wake("graph"), Err(Error::Awake { .. })));
    bench.sleeper.sleep("graph", Keep::Contents).unwrap();
    let twice = bench.sleeper.sleep("graph", Keep::Contents).unwrap_err();
    assert_eq!(twice.to_string(), "'graph' is asleep already; wake it first");
    assert!(matches!(bench.sleeper.alloc("graph", PAGE), Err(Error::Asleep { .. })));
    assert!(matches!(bench.sleeper.register(a), Err(Error::Asleep { .. })));
    assert!(matches!(bench.sleeper.free(a + 4096), Err(Error::UnknownAddress { .. })));
    assert!(matches!(bench.sleeper.alloc("empty", 0), Err(Error::Capacity { .. })));
    bench.sleeper.free(b).unwrap();
    bench.sleeper.wake("graph").unwrap();
    assert!(is_marked(&bench.sim, a, PAGE, 10));
}

#[test]
fn freeing_while_asleep_gives_addresses_and_saved_contents_back() {
    let bench = Bench::on(machine(64));
    let graph = bench.graph();
    bench.sleeper.sleep("graph", Keep::Contents).unwrap();
    graph.into_iter().for_each(|addr| bench.sleeper.free(addr).unwrap());
    assert!(matches!(bench.sleeper.wake("graph"), Err(Error::UnknownTag { .. })));
    let sim = bench.sim.clone();
    assert_eq!(Ledger::default().held(&sim), Held { device_free: 64 * MIB, ..Held::default() });
    drop(bench);
    assert_eq!(sim.page_locked(), 0);
}

#[test]
fn waking_without_enough_memory_sleeps_on_with_all_contents() {
    let bench = Bench::on(machine(64));
    let graph = bench.graph();
    bench.sleeper.sleep("graph", Keep::Contents).unwrap();
    // Room for one of the two.
    let other = bench.sim.mem_alloc(D, 64 * MIB - 3 * PAGE).unwrap();
    let error = bench.sleeper.wake("graph").unwrap_err();
    assert!(error.is_out_of_memory() && error.step() == Some(Step::Create), "{error}");
    assert_eq!((bench.free(), bench.sleeper.is_asleep("graph")), (3 * PAGE, true));
    assert!(bench.sleeper.wake("graph").is_err());
    bench.sim.mem_free(D, other).unwrap();
    bench.sleeper.wake("graph").unwrap();
    assert!(bench.is_intact(graph));
}

#[test]
fn without_pinned_memory_for_the_contents_nothing_goes_to_sleep() {
    let bench = Bench::on(SimConfig { page_locked: Bytes(3 * PAGE), ..machine(64) });
    let graph = bench.graph();
    let error = bench.sleeper.sleep("graph", Keep::Contents).unwrap_err();
    assert!(matches!(error, Error::Pinned(_)) && error.is_out_of_memory());
    assert!(!bench.sleeper.is_asleep("graph") && bench.is_intact(graph));
    bench.sleeper.sleep("graph", Keep::Nothing).unwrap();
}

#[test]
fn sleeping_and_waking_have_a_bounded_number_of_calls() {
    let bench = Bench::on(machine(64));
    bench.sleeper.allow(PEER).unwrap();
    let graph = bench.graph();
    let count = |kinds: &[CallKind]| kinds.iter().map(|&kind| bench.sim.count(kind)).collect::<Vec<_>>();
    let sleeping = [CallKind::Memcpy, CallKind::Unmap, CallKind::Release];
    let before = count(&sleeping);
    bench.sleeper.sleep("graph", Keep::Contents).unwrap();
    assert_eq!(count(&sleeping).iter().zip(&before).map(|(now, then)| now - then).collect::<Vec<_>>(), [2, 2, 2]);
    let waking = [CallKind::Create, CallKind::Map, CallKind::SetAccess, CallKind::Memcpy, CallKind::Reserve];
    let before = count(&waking);
    bench.sleeper.wake("graph").unwrap();
    let calls: Vec<_> = count(&waking).iter().zip(&before).map(|(now, then)| now - then).collect();
    assert_eq!(calls, [2, 2, 4, 2, 0], "one handle each, access for the device and its peer");
    assert_eq!(bench.sim.mem_get_access(graph[1], Location::Device(PEER)), Ok(Access::ReadWrite));
}

#[test]
fn sleep_waits_for_the_streams_that_use_the_memory() {
    let bench = Bench::on(SimConfig { events: EventMode::Timed, hazards: true, ..machine(64) });
    let [a, b] = bench.graph();
    let other = Stream::new(D, 0x102);
    for addr in [a, b] {
        bench.sleeper.use_on(addr, other).unwrap();
        bench.sim.launch(other, 500, &[], &[(addr, PAGE)]).unwrap();
    }
    bench.sleeper.sleep("graph", Keep::Contents).unwrap();
    assert!(bench.sim.hazards().is_empty(), "{:?}", bench.sim.hazards());
    bench.sleeper.wake("graph").unwrap();
    assert!(bench.sleeper.use_on(a + 1, other).is_err());
}

#[test]
fn c47_whatever_fails_while_falling_asleep_no_contents_are_lost() {
    for index in 0.. {
        let bench = Bench::on(machine(64));
        let graph = bench.graph();
        bench.sim.fail(FaultRule::at(bench.sim.calls_made() + index, Code::ERROR_UNKNOWN));
        let slept = bench.sleeper.sleep("graph", Keep::Contents);
        let was_hit = bench.sim.faults_injected() > 0;
        bench.sim.clear_faults();
        if slept.is_err() && !bench.sleeper.is_asleep("graph") {
            assert!(bench.is_intact(graph), "call {index}");
        }
        if slept.is_err() {
            // What was awake sleeps now too, if anything was.
            let again = bench.sleeper.sleep("graph", Keep::Contents);
            assert!(matches!(again, Ok(_) | Err(Error::Asleep { .. })), "{again:?}");
        }
        bench.sleeper.wake("graph").unwrap();
        assert!(bench.is_intact(graph), "call {index}");
        let sim = bench.sim.clone();
        drop(bench);
        assert_eq!(Ledger::default().held(&sim), Held { device_free: 64 * MIB, ..Held::default() }, "call {index}");
        assert_eq!(sim.page_locked(), 0, "call {index}");
        if !was_hit {
            assert!(index > 8);
            return;
        }
    }
}

#[test]
fn c47_whatever_fails_while_waking_everything_sleeps_on() {
    let setup = |sim: &Arc<Sim>| {
        let host = HostCache::new(sim.clone(), World::new(Settings::default()));
        let bench = Bench { sim: sim.clone(), sleeper: Sleeper::new(sim.clone(), STREAM, host) };
        let graph = bench.graph();
        bench.sleeper.sleep("graph", Keep::Contents).unwrap();
        (bench, graph)
    };
    let wake = |(bench, graph): &mut (Bench, [u64; 2])| {
        bench.sleeper.wake("graph")?;
        assert!(bench.is_intact(*graph));
        Ok::<_, Error>(())
    };
    sweep(&machine(64), setup, wake, |_, (bench, _)| assert!(bench.sleeper.is_asleep("graph")));
}

#[test]
fn c47_a_failure_anywhere_in_allocating_leaves_nothing_behind() {
    let setup = |sim: &Arc<Sim>| {
        let host = HostCache::new(sim.clone(), World::new(Settings::default()));
        Sleeper::new(sim.clone(), STREAM, host)
    };
    sweep(&machine(64), setup, |sleeper| sleeper.alloc("graph", PAGE).map(drop), |_, _| ());
}

// ── Memory pools under a tag ──

const CALLER: Caller<'static> = Caller::on(STREAM);

/// An allocator with expandable segments on the bench's machine, with a marked block of 20 MiB in its default pool.
fn allocator(bench: &Bench) -> (Allocator, u64) {
    let (settings, _) = Settings::parse("expandable_segments:True").unwrap();
    let allocator = Allocator::with_settings(bench.sim.clone(), D, settings).unwrap();
    let addr = allocator.alloc(20 * MIB, STREAM, &CALLER).unwrap();
    mark(&bench.sim, addr, 20 * MIB, 7);
    (allocator, addr)
}

#[test]
fn allocations_the_default_pool_and_a_graphs_pool_sleep_under_one_tag() {
    let bench = Bench::on(machine(256));
    let graph = bench.graph();
    let (allocator, addr) = allocator(&bench);
    let pool = MemPool::for_graphs(&allocator).unwrap();
    let capture = pool.capture(STREAM, CaptureMode::Relaxed).unwrap();
    let captured = allocator.alloc(20 * MIB, STREAM, &CALLER).unwrap();
    let _graph = capture.end().unwrap();
    mark(&bench.sim, captured, 20 * MIB, 8);
    bench.sleeper.add_pool("graph", &allocator, PoolId::DEFAULT).unwrap();
    bench.sleeper.add_pool("graph", &allocator, pool.id()).unwrap();
    let all = Slept { bytes: 4 * PAGE + 40 * MIB, contents: 4 * PAGE + 40 * MIB };
    assert_eq!(bench.sleeper.sleep("graph", Keep::Contents).unwrap(), all);
    assert_eq!((bench.free(), bench.sleeper.is_asleep("graph")), (256 * MIB, true));
    allocator.verify().unwrap();
    assert!(matches!(bench.sleeper.sleep("graph", Keep::Contents), Err(Error::Asleep { .. })));
    assert_eq!(bench.sleeper.wake("graph").unwrap(), all);
    assert!(bench.is_intact(graph));
    assert!(is_marked(&bench.sim, addr, 20 * MIB, 7) && is_marked(&bench.sim, captured, 20 * MIB, 8));
    allocator.verify().unwrap();
    assert!(matches!(bench.sleeper.wake("graph"), Err(Error::Awake { .. })));
}

#[test]
fn a_pool_that_cannot_wake_lets_everything_of_its_tag_sleep_on() {
    let bench = Bench::on(machine(64));
    let graph = bench.graph();
    let (allocator, addr) = allocator(&bench);
    let pool = MemPool::for_graphs(&allocator).unwrap();
    let scope = pool.enter().unwrap();
    let second = allocator.alloc(20 * MIB, STREAM, &CALLER).unwrap();
    drop(scope);
    mark(&bench.sim, second, 20 * MIB, 8);
    bench.sleeper.add_pool("graph", &allocator, PoolId::DEFAULT).unwrap();
    bench.sleeper.add_pool("graph", &allocator, pool.id()).unwrap();
    bench.sleeper.sleep("graph", Keep::Contents).unwrap();
    // Room for the allocations and for one of the two pools.
    let other = bench.sim.mem_alloc(D, 20 * MIB).unwrap();
    let error = bench.sleeper.wake("graph").unwrap_err();
    assert!(matches!(error, Error::Pool(millpond::Error::NoRoomToWake { .. })) && error.is_out_of_memory(), "{error}");
    assert!(allocator.is_asleep(PoolId::DEFAULT) && allocator.is_asleep(pool.id()));
    assert_eq!(bench.free(), 44 * MIB);
    allocator.verify().unwrap();
    bench.sim.mem_free(D, other).unwrap();
    bench.sleeper.wake("graph").unwrap();
    assert!(bench.is_intact(graph));
    assert!(is_marked(&bench.sim, addr, 20 * MIB, 7) && is_marked(&bench.sim, second, 20 * MIB, 8));
}

#[test]
fn a_pool_that_cannot_sleep_keeps_its_tag_awake() {
    let bench = Bench::on(SimConfig { page_locked: Bytes(48 * MIB), ..machine(64) });
    let (allocator, addr) = allocator(&bench);
    let pool = MemPool::for_graphs(&allocator).unwrap();
    let scope = pool.enter().unwrap();
    let second = allocator.alloc(20 * MIB, STREAM, &CALLER).unwrap();
    drop(scope);
    mark(&bench.sim, second, 20 * MIB, 8);
    bench.sleeper.add_pool("pools", &allocator, PoolId::DEFAULT).unwrap();
    bench.sleeper.add_pool("pools", &allocator, pool.id()).unwrap();
    let error = bench.sleeper.sleep("pools", Keep::Contents).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert!(!bench.sleeper.is_asleep("pools"));
    assert!(is_marked(&bench.sim, addr, 20 * MIB, 7) && is_marked(&bench.sim, second, 20 * MIB, 8));
    allocator.verify().unwrap();
}

#[test]
fn a_pool_that_is_gone_or_elsewhere_is_a_clear_error() {
    let bench = Bench::on(machine(64));
    let (allocator, _) = allocator(&bench);
    let unknown = bench.sleeper.add_pool("pool", &allocator, PoolId(7, 0)).unwrap_err();
    assert_eq!(unknown.to_string(), "no memory pool (7, 0) exists on this device");
    let pool = MemPool::for_graphs(&allocator).unwrap();
    bench.sleeper.add_pool("pool", &allocator, pool.id()).unwrap();
    drop(pool);
    assert!(matches!(bench.sleeper.sleep("pool", Keep::Nothing), Err(Error::UnknownTag { .. })));
    let there = Allocator::with_settings(bench.sim.clone(), PEER, Settings::default()).unwrap();
    let error = bench.sleeper.add_pool("pool", &there, PoolId::DEFAULT).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { device: PEER, expected: D }), "{error}");
}
