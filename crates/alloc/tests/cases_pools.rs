//! Cases from the public record: MemPool (C27–C37), accounting and messages (C39, C63, C65), limits and rounding (C51–C55, C61).

mod common;

use std::sync::{Arc, Barrier};

use common::{BASE, GIB, MIB, Machine, Scripted, machine, manual, stream};
use millpond::config::{Dialect, Settings};
use millpond::{Caller, CustomAllocator, Error, Hint, MemPool, MemPoolOptions, PoolId};
use millpond_driver::{Bytes, Memory};
use millpond_sim::{CallKind, DeviceConfig, SimConfig};

const EXPANDABLE: &str = "expandable_segments:True";
const BOTH: [&str; 2] = ["", EXPANDABLE];

fn pool_of(m: &Machine, addr: u64) -> PoolId {
    let segments = m.a.segments();
    segments.into_iter().find(|s| s.base <= addr && addr < s.base + s.size).expect("a segment").pool
}

fn alloc_in(m: &Machine, pool: &MemPool, size: u64) -> u64 {
    let _scope = pool.enter().unwrap();
    m.alloc(size)
}

fn with(m: &Machine, custom: &Arc<Scripted>) -> MemPool {
    let custom: Arc<dyn CustomAllocator> = custom.clone();
    MemPool::new(&m.a, MemPoolOptions { custom: Some(custom), ..MemPoolOptions::default() }).unwrap()
}

fn oom(m: &Machine, size: u64) -> Box<millpond::Oom> {
    match m.try_alloc(size) {
        Err(Error::OutOfMemory(oom)) => oom,
        outcome => panic!("no OOM but {outcome:?}"),
    }
}

#[test]
fn c27_blocks_of_a_user_pool_come_back_when_their_streams_have_passed() {
    for conf in BOTH {
        for active_throughout in [true, false] {
            let m = manual(GIB, conf);
            let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
            let scope = active_throughout.then(|| pool.enter().unwrap());
            let alloc = || if active_throughout { m.alloc(MIB) } else { alloc_in(&m, &pool, MIB) };
            let a = alloc();
            m.record(a, 2);
            m.free(a);
            m.sim.sync();
            assert_eq!(alloc(), a, "{conf}");
            drop(scope);
            m.free(a);
        }
    }
}

#[test]
fn c29_a_pool_is_entered_by_one_thread() {
    let m = machine(GIB, "");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let barrier = Barrier::new(2);
    let (inside, beside) = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let _scope = pool.enter().unwrap();
            barrier.wait();
            let addr = m.alloc(4 * MIB);
            barrier.wait();
            addr
        });
        let second = scope.spawn(|| {
            barrier.wait();
            let addr = m.alloc(4 * MIB);
            barrier.wait();
            addr
        });
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!((pool_of(&m, inside), pool_of(&m, beside)), (pool.id(), PoolId::DEFAULT));
}

#[test]
fn c31_a_pool_shares_the_ownership_of_its_allocator() {
    let m = machine(GIB, "");
    let custom = Scripted::new(&[Some(0x7000_0000)]);
    let watch = Arc::downgrade(&custom);
    let pool = with(&m, &custom);
    let a = alloc_in(&m, &pool, 4 * MIB);
    drop(pool);
    assert_eq!(custom.returned.lock().unwrap().len(), 0, "a block is live");
    m.free(a);
    m.empty();
    assert_eq!(*custom.returned.lock().unwrap(), [(0x7000_0000, 20 * MIB)], "once, with its size");
    drop(custom);
    assert!(watch.upgrade().is_none(), "nobody holds the allocator any more");
}

#[test]
fn c31_the_allocator_lives_as_long_as_its_blocks() {
    let m = machine(GIB, "");
    let custom = Scripted::new(&[Some(0x7000_0000)]);
    let watch = Arc::downgrade(&custom);
    let pool = with(&m, &custom);
    drop(custom);
    let a = alloc_in(&m, &pool, 4 * MIB);
    drop(pool);
    assert!(watch.upgrade().is_some());
    m.free(a);
    m.empty();
    assert!(watch.upgrade().is_none());
}

/// A limit of 80 MiB; two pools that cache 40 MiB each, one of which may lend.
fn c33(conf: &str, lends: bool) -> (Machine, [MemPool; 2], u64, millpond::Result<u64>) {
    let m = machine(800 * MIB, conf);
    m.a.set_memory_fraction(0.1).unwrap();
    let lender = MemPool::new(&m.a, MemPoolOptions { use_on_oom: lends, ..MemPoolOptions::default() }).unwrap();
    let other = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let lent = alloc_in(&m, &lender, 40 * MIB);
    m.free(lent);
    m.free(alloc_in(&m, &other, 40 * MIB));
    let outcome = m.try_alloc(40 * MIB);
    (m, [lender, other], lent, outcome)
}

#[test]
fn c33_the_default_pool_borrows_as_a_last_resort() {
    let (m, pools, lent, outcome) = c33("", true);
    assert_eq!(outcome.unwrap(), lent);
    assert_eq!((m.stat("num_alloc_retries"), pool_of(&m, lent)), (0, pools[0].id()));
    assert_eq!(m.a.segments_of(pools[1].id())[0].blocks.len(), 1, "the other pool is untouched");
    m.free(lent);

    let (m, _pools, _, outcome) = c33("", false);
    assert!(matches!(outcome, Err(Error::OutOfMemory(_))));
    assert_eq!(m.stat("num_alloc_retries"), 1);
    let (_m, _pools, _, outcome) = c33(EXPANDABLE, true);
    assert!(matches!(outcome, Err(Error::OutOfMemory(_))), "only non-expandable blocks are lent");
}

#[test]
fn c35_a_pools_own_allocator_is_asked_also_with_expandable_segments() {
    let m = machine(GIB, EXPANDABLE);
    let custom = Scripted::new(&[Some(0x7000_0000)]);
    let pool = with(&m, &custom);
    assert_eq!(alloc_in(&m, &pool, 64 * MIB), 0x7000_0000);
    assert_eq!(*custom.asked.lock().unwrap(), [(64 * MIB, 0)]);
    assert_eq!(m.calls(CallKind::Create), 0);
    m.alloc(64 * MIB);
    assert_eq!((m.calls(CallKind::Create), m.reserved()), (4, 144 * MIB));
    assert!(m.a.world().settings().expandable_segments);
}

/// What should happen with a custom allocator that gives memory twice: the second request is refused, the pointer is named, and
/// the allocator stays usable.
#[test]
fn c37_memory_that_a_custom_allocator_gives_twice_is_refused() {
    for preset in ["preset:torch", "preset:millpond"] {
        for again in [0x1000, 0x1000 + 2 * MIB] {
            let m = Machine::written(SimConfig::with_capacity(Bytes(GIB)), preset);
            let custom = Scripted::new(&[Some(0x1000), Some(again), Some(0x9000_0000)]);
            let pool = with(&m, &custom);
            let a = alloc_in(&m, &pool, 30 * MIB);
            let scope = pool.enter().unwrap();
            let error = m.try_alloc(30 * MIB).unwrap_err();
            assert!(matches!(error, Error::CustomOverlap { addr, .. } if addr == again), "{preset}: {error}");
            assert!(error.to_string().contains(&format!("{again:#x}")), "{error}");
            assert_eq!((m.allocated(), m.reserved()), (30 * MIB, 30 * MIB));
            let b = m.alloc(30 * MIB);
            drop(scope);
            assert_eq!(b, 0x9000_0000);
            m.free_all([a, b]);
        }
    }
}

/// A custom allocator whose memory comes from the allocator that it serves.
#[derive(Debug)]
struct RoundAbout {
    allocator: millpond::Allocator,
    /// Asks on a thread of its own, which no scope sends to the pool.
    elsewhere: bool,
}

impl CustomAllocator for RoundAbout {
    fn raw_alloc(&self, bytes: u64, stream: millpond_driver::Stream) -> Option<u64> {
        let ask = || self.allocator.alloc(bytes, stream, &Caller::on(stream)).ok();
        if self.elsewhere { std::thread::scope(|scope| scope.spawn(ask).join().unwrap()) } else { ask() }
    }

    fn raw_delete(&self, addr: u64, _: u64, stream: millpond_driver::Stream) {
        self.allocator.free(addr, &Caller::on(stream)).unwrap();
    }
}

#[test]
fn a_custom_allocator_that_asks_for_memory_of_its_own_pool_is_refused() {
    for conf in BOTH {
        let m = machine(GIB, conf);
        let custom = Arc::new(RoundAbout { allocator: m.a.clone(), elsewhere: false });
        let options = MemPoolOptions { custom: Some(custom), ..MemPoolOptions::default() };
        let pool = MemPool::new(&m.a, options).unwrap();
        let scope = pool.enter().unwrap();
        for _ in 0..2 {
            let error = m.try_alloc(30 * MIB).unwrap_err();
            assert!(matches!(error, Error::CustomAsksItself { pool: asked } if asked == pool.id()), "{error}");
        }
        drop(scope);
        assert_eq!((m.allocated(), m.reserved(), m.stat("num_ooms")), (0, 0, 0));
        m.free(m.alloc(30 * MIB));
        m.a.verify().unwrap();
    }
}

#[test]
fn memory_that_a_custom_allocator_had_from_the_allocator_itself_is_refused_and_goes_back() {
    for conf in BOTH {
        for before in [0, 8 * MIB] {
            let m = machine(GIB, conf);
            let kept = (before > 0).then(|| m.alloc(before));
            let custom = Arc::new(RoundAbout { allocator: m.a.clone(), elsewhere: true });
            let options = MemPoolOptions { custom: Some(custom), ..MemPoolOptions::default() };
            let pool = MemPool::new(&m.a, options).unwrap();
            let scope = pool.enter().unwrap();
            let error = m.try_alloc(MIB).unwrap_err();
            drop(scope);
            assert!(matches!(error, Error::CustomOverlap { .. }), "{error}");
            assert!(error.to_string().contains("from this allocator"), "{error}");
            assert_eq!(m.allocated(), before);
            m.a.verify().unwrap();
            m.free_all(kept);
        }
    }
}

#[test]
fn c39_the_oom_text_suggests_expandable_segments_only_while_they_are_off() {
    let m = machine(100 * MIB, EXPANDABLE);
    let error = oom(&m, 200 * MIB);
    assert_eq!(error.hint, Hint::AddressSpace);
    assert!(!error.to_string().contains("expandable_segments:True"), "{error}");
    let m = machine(100 * MIB, "");
    m.free(m.alloc(60 * MIB));
    m.alloc(16 * MIB);
    let error = oom(&m, 200 * MIB);
    assert!(error.to_string().contains("expandable_segments:True to avoid fragmentation"), "{error}");
    assert!(error.to_string().contains("44.00 MiB is reserved by PyTorch but unallocated"), "{error}");
}

#[test]
fn c63_the_oom_text_states_the_limit() {
    let m = machine(80 * GIB, "per_process_memory_fraction:0.5");
    m.alloc(39 * GIB);
    let error = oom(&m, 2 * GIB);
    let text = error.to_string();
    assert!(text.contains("total capacity of 80.00 GiB of which 41.00 GiB is free"), "{text}");
    assert!(text.contains("40.00 GiB allowed; Of the allocated memory 39.00 GiB is allocated"), "{text}");
    assert_eq!((error.limit, error.reserved), (Some(40 * GIB), 39 * GIB));
}

#[test]
fn c65_memory_of_others_shows_in_what_is_free() {
    let device = DeviceConfig { others: Bytes(17 * GIB), ..DeviceConfig::with_capacity(Bytes(24 * GIB)) };
    let m = Machine::with(SimConfig { devices: vec![device], ..SimConfig::default() }, "");
    m.alloc(5 * GIB);
    assert_eq!(m.sim.mem_info(common::DEVICE).unwrap(), (2 * GIB, 24 * GIB));
    let text = oom(&m, 3 * GIB).to_string();
    assert!(text.contains("24.00 GiB of which 2.00 GiB is free"), "{text}");
    assert!(text.contains("this process has 5.00 GiB memory in use"), "{text}");
}

#[test]
fn c51_divisions_by_the_power_of_two_below_the_size() {
    let active = |conf: &str, sizes: &[u64]| {
        sizes
            .iter()
            .map(|&size| {
                let m = machine(80 * GIB, &format!("{conf},{EXPANDABLE}"));
                m.alloc(size * MIB);
                m.stat("active_bytes.all.current") >> 20
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(active("roundup_power2_divisions:4", &[1200, 1290, 1540, 1800]), [1280, 1536, 1792, 2048]);
    assert_eq!(active("roundup_power2_divisions:[1:1,4:2,16:4]", &[5, 9, 17, 40]), [6, 9, 20, 40]);
}

#[test]
fn c53_the_collection_threshold_lies_inside_of_0_and_1() {
    let parse = |value: &str| Settings::parse(&format!("garbage_collection_threshold:{value}"));
    assert_eq!(parse("0.8").unwrap().0.garbage_collection_threshold, 0.8);
    assert_eq!(Settings::default().garbage_collection_threshold, 0.0);
    for bad in ["1.0", "1", "0", "0.0", "1.5", "nan", "-0.5", "abc", "0,8"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn c55_max_non_split_rounding() {
    for (more, reserved, allocated) in
        [("", 1524, 500), (",max_non_split_rounding_mb:20", 1524, 500), (",max_non_split_rounding_mb:600", 1024, 1024)]
    {
        let m = machine(80 * GIB, &format!("max_split_size_mb:400{more}"));
        m.free(m.alloc(1024 * MIB));
        m.alloc(500 * MIB);
        assert_eq!((m.reserved() / MIB, m.allocated() / MIB), (reserved, allocated), "{more}");
        assert_eq!(m.stat("requested_bytes.all.current"), 500 << 20);
    }
}

#[test]
fn c61_a_limit_from_the_start_is_an_ordinary_oom_without_a_driver_call() {
    let m = machine(1000 * MIB, "per_process_memory_fraction:0.95,throw_on_cudamalloc_oom:True");
    let a = m.alloc(900 * MIB);
    assert!(matches!(m.try_alloc(100 * MIB), Err(Error::OutOfMemory(_))));
    assert_eq!(m.calls(CallKind::Malloc), 1);
    assert_eq!(["num_alloc_retries", "num_ooms", "num_oom_rejections"].map(|key| m.stat(key)), [1, 1, 0]);
    m.free(a);
    m.alloc(100 * MIB);
}

#[test]
fn c61_a_limit_from_the_key_alone_is_a_rejection() {
    let beyond = machine(1000 * MIB, "throw_on_cudamalloc_oom:True");
    assert!(matches!(beyond.try_alloc(1200 * MIB), Err(Error::Rejected { .. })));
    let changed = machine(1000 * MIB, "throw_on_cudamalloc_oom:True");
    changed.a.world().configure("per_process_memory_fraction:0.95", Dialect::Torch).unwrap();
    changed.alloc(900 * MIB);
    assert!(matches!(changed.try_alloc(100 * MIB), Err(Error::Rejected { .. })));
    for m in [&beyond, &changed] {
        assert_eq!(["num_alloc_retries", "num_ooms", "num_oom_rejections"].map(|key| m.stat(key)), [0, 0, 1]);
    }
    for bad in ["1", "true"] {
        assert!(Settings::parse(&format!("throw_on_cudamalloc_oom:{bad}")).is_err(), "{bad}");
    }
    assert_eq!(changed.a.alloc(20 * MIB, stream(0), &common::on(0)).unwrap(), BASE + 900 * MIB);
}
