//! Several threads at once: they allocate, free their own blocks and each other's, record streams and empty the cache, while
//! another looks at everything and changes everything. `ci/tsan.sh` runs the same under ThreadSanitizer, with C77 of
//! `cases_streams.rs`, where a stack source takes a lock and allocates.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::{DEVICE, KIB, MIB, on, stream};
use millpond::config::{Dialect, Settings};
use millpond::{Action, Allocator, Event, Filter, HistoryOptions, Metric, Observer, SegmentState, Thread, World};
use millpond_driver::Bytes;
use millpond_sim::{Sim, SimConfig};

const WORKERS: u64 = 4;
/// Steps of each worker: a second in all, some more under ThreadSanitizer.
const ROUNDS: u64 = 20_000;
/// How long anything here may take before it counts as blocked for good.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test in a thread of its own and fails if it does not end.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let runner = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match wait.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end after {PATIENCE:?}: threads wait for each other"),
        // Done, or dropped by a panic, which `join` hands on.
        _ => runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn allocator(conf: &str) -> Allocator {
    let (settings, _) = Settings::parse(conf).unwrap();
    let sim = Sim::new(SimConfig::with_capacity(Bytes(64 << 30)));
    Allocator::new(sim, DEVICE, World::new(settings)).unwrap()
}

/// A small generator of our own: the same numbers in every run, whatever the threads do.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn bytes(&mut self) -> u64 {
        match self.roll(16) {
            0 => (1 + self.roll(24)) * MIB,
            1..4 => (1 + self.roll(2048)) * KIB,
            _ => 1 + self.roll(64 * KIB),
        }
    }
}

/// What the threads share.
struct Stage {
    a: Allocator,
    /// Blocks that whoever comes by frees. A lock that spins, for ThreadSanitizer sees into it.
    adrift: spin::Mutex<Vec<u64>>,
    done: AtomicBool,
}

impl Stage {
    /// One worker's requests; what it holds in the end.
    fn work(&self, worker: u64) -> Vec<u64> {
        let (a, mut dice, mut mine) = (&self.a, Dice(worker + 1), Vec::new());
        let own = on(worker);
        for round in 0..ROUNDS {
            match dice.roll(16) {
                0..8 => mine.push(a.alloc(dice.bytes(), stream(worker), &own).unwrap()),
                8..12 if !mine.is_empty() => {
                    let addr = mine.swap_remove(dice.roll(mine.len() as u64) as usize);
                    a.free(addr, &own).unwrap();
                }
                12 if !mine.is_empty() => {
                    let addr = mine[dice.roll(mine.len() as u64) as usize];
                    assert!(a.record_stream(addr, stream(dice.roll(WORKERS)), &own).unwrap());
                }
                13 if !mine.is_empty() => self.adrift.lock().push(mine.swap_remove(0)),
                14 => {
                    let found = self.adrift.lock().pop();
                    found.into_iter().for_each(|addr| a.free(addr, &own).unwrap());
                }
                15 if round % 64 == 0 => a.empty_cache(&own).unwrap(),
                15 => a.process_events(&own).unwrap(),
                _ => {}
            }
        }
        mine
    }

    /// Looks at everything and changes everything until the workers are done; how often it came round.
    fn meddle(&self) -> u64 {
        let (a, caller) = (&self.a, on(9));
        let mut rounds = 0;
        while !self.done.load(Relaxed) {
            let stats = a.stats();
            for stat in stats.metrics.iter().flatten() {
                assert!(stat.current <= stat.peak as i64, "more is held than at the peak: {stat:?}");
                assert_eq!(stat.current, stat.allocated as i64 - stat.freed as i64);
            }
            let tiled = |segment: &SegmentState| {
                segment.blocks.windows(2).all(|pair| pair[0].addr + pair[0].size == pair[1].addr)
            };
            assert!(a.segments().iter().all(tiled), "blocks of one segment with a gap between");
            drop(a.snapshot(None, true));
            a.verify().unwrap_or_else(|wrong| panic!("round {rounds}: {wrong:?}"));
            let divisions = ["", "roundup_power2_divisions:4", "garbage_collection_threshold:0.5"];
            a.world().configure(divisions[rounds as usize % 3], Dialect::Torch).unwrap();
            a.set_memory_fraction([1.0, 0.9][rounds as usize % 2]).unwrap();
            let pool = a.world().user_pool_id();
            a.begin_allocate_to_pool(pool, Filter::Thread(Thread::current())).unwrap();
            let addr = a.alloc(MIB, stream(9), &caller).unwrap();
            a.end_allocate_to_pool(pool).unwrap();
            a.free(addr, &caller).unwrap();
            a.release_pool(pool).unwrap();
            let history = HistoryOptions { max_entries: 256, ..HistoryOptions::default() };
            a.record_history((rounds % 2 == 0).then_some(history));
            a.reset_peak_stats();
            rounds += 1;
        }
        a.record_history(None);
        rounds
    }
}

fn stress(conf: &str) {
    let stage = Stage { a: allocator(conf), adrift: spin::Mutex::default(), done: AtomicBool::new(false) };
    let (held, rounds) = thread::scope(|scope| {
        let meddler = scope.spawn(|| stage.meddle());
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn({
                    let stage = &stage;
                    move || stage.work(worker)
                })
            })
            .collect();
        let held: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stage.done.store(true, Relaxed);
        let held: Vec<u64> = held.into_iter().flat_map(|held| held.expect("a worker")).collect();
        (held, meddler.join().expect("the meddler"))
    });
    let a = &stage.a;
    let live: Vec<u64> = held.into_iter().chain(stage.adrift.lock().drain(..)).collect();
    a.verify().unwrap_or_else(|wrong| panic!("{wrong:?}"));
    assert!(rounds > 1 && !live.is_empty(), "{rounds} rounds of the meddler, {} live blocks", live.len());
    let blocks: BTreeMap<u64, (u64, u64)> = live.iter().map(|&addr| (addr, a.size_of(addr).expect("live"))).collect();
    assert_eq!(blocks.len(), live.len(), "no address is handed out twice");
    let mut end = 0;
    for (&addr, &(_, bytes)) in &blocks {
        assert!(addr >= end, "{addr:#x} overlaps the block before it");
        end = addr + bytes;
    }
    let stats = a.stats();
    let held = |metric| stats.all(metric).current as u64;
    assert_eq!(held(Metric::Allocation), blocks.len() as u64);
    assert_eq!(held(Metric::AllocatedBytes), blocks.values().map(|(_, bytes)| bytes).sum::<u64>());
    for addr in live {
        a.free(addr, &on(0)).unwrap();
    }
    a.empty_cache(&on(0)).unwrap();
    a.verify().unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let stats = a.stats();
    for metric in [Metric::Allocation, Metric::ActiveBytes, Metric::RequestedBytes, Metric::ReservedBytes] {
        assert_eq!(stats.all(metric).current, 0, "{}", metric.key());
    }
    let (free, total) = a.driver().mem_info(DEVICE).unwrap();
    assert_eq!(free, total, "the device is empty");
}

#[test]
fn threads_leave_exact_sums_with_segments() {
    ends(|| stress(""));
}

#[test]
fn threads_leave_exact_sums_with_expandable_segments() {
    ends(|| stress("expandable_segments:True"));
}

/// Counts what is live, as an observer sees it.
#[derive(Default)]
struct Balance(AtomicU64);

impl Observer for Balance {
    fn events(&self, events: &[Event]) {
        for event in events {
            match event.action {
                Action::Alloc => self.0.fetch_add(event.size, Relaxed),
                Action::FreeCompleted => self.0.fetch_sub(event.size, Relaxed),
                _ => 0,
            };
        }
    }
}

#[test]
fn observers_see_every_event_once_and_in_order_whoever_delivers() {
    ends(|| {
        let stage = Stage { a: allocator(""), adrift: spin::Mutex::default(), done: AtomicBool::new(false) };
        let balance = Arc::new(Balance::default());
        stage.a.attach_observer(balance.clone());
        thread::scope(|scope| {
            for worker in 0..WORKERS {
                let stage = &stage;
                scope.spawn(move || stage.work(worker));
            }
        });
        // Whoever found a delivery under way left its events to that one; one more call delivers what came last.
        stage.a.process_events(&on(0)).unwrap();
        let requested = stage.a.stats().all(Metric::RequestedBytes).current as u64;
        assert_eq!(balance.0.load(Relaxed), requested);
    });
}
