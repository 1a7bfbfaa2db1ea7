//! Cases from the public record: streams and events (C11–C15), graph pools (C17–C25), threads (C77). Figures as recorded on
//! PyTorch 2.15; where PyTorch is at fault the `millpond` preset does what should happen.

mod common;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::{BASE, GIB, MIB, Machine, lenient, machine, manual, on, stream};
use millpond::{Caller, Error, HistoryOptions, MemPool, Stack, StackSource};
use millpond_driver::{Bytes, CaptureMode, Order};
use millpond_sim::{CallKind, SimConfig};
use millpond_snapshot::Frame;

const EXPANDABLE: &str = "expandable_segments:True";
const BOTH: [&str; 2] = ["", EXPANDABLE];

/// One queue for each stream: a late event of one does not hold what others have finished.
#[test]
fn c11_a_late_event_does_not_block_the_events_of_other_streams() {
    for conf in BOTH {
        let m = manual(80 * GIB, conf);
        let [a, b] = [100 * MIB; 2].map(|size| m.alloc(size));
        m.record(a, 1);
        m.record(b, 2);
        m.free_all([a, b]);
        // Stream 1 is busy for ever, stream 2 is idle.
        m.sim.stream_synchronize(stream(2)).unwrap();
        assert_eq!(m.alloc(100 * MIB), b, "{conf}");
        assert_eq!((m.reserved(), m.allocated()), (200 * MIB, 100 * MIB), "{conf}");
        assert_eq!(m.stat("active_bytes.all.current"), 200 << 20, "{conf}");
    }
}

#[test]
fn c13a_memory_of_one_stream_is_used_again_at_once() {
    for (conf, reserved) in [("", 12308), (EXPANDABLE, 12320)] {
        let m = manual(80 * GIB, conf);
        for _ in 0..20 {
            m.alloc(MIB);
            m.free(m.alloc(12 * GIB));
        }
        assert_eq!((m.reserved() / MIB, m.stat("num_alloc_retries")), (reserved, 0), "{conf}");
    }
}

/// It waits for the other stream, gives all pending segments back to the driver and asks anew: never an OOM.
#[test]
fn c13b_pending_frees_are_waited_for_before_a_request_fails() {
    for (conf, peak) in [("", 73748), (EXPANDABLE, 73760)] {
        let m = manual(80 * GIB, conf);
        for _ in 0..20 {
            m.alloc(MIB);
            let block = m.alloc(12 * GIB);
            m.record(block, 1);
            m.free(block);
        }
        assert_eq!(
            ["num_alloc_retries", "num_sync_all_streams", "num_ooms"].map(|key| m.stat(key)),
            [3, 3, 0],
            "{conf}"
        );
        assert_eq!(m.stat("reserved_bytes.all.peak") >> 20, peak, "{conf}");
        if conf.is_empty() {
            assert_eq!((m.calls(CallKind::Free), m.calls(CallKind::Malloc)), (18, 33), "30 successful, 3 failed");
            assert_eq!(m.reserved() / MIB, 24596);
        }
    }
}

#[test]
fn c15_without_record_stream_memory_comes_back_at_once_with_it_after_the_event() {
    for (conf, alone, beside) in [("", 64, 128), (EXPANDABLE, 80, 140)] {
        let m = manual(80 * GIB, conf);
        let a = m.alloc(64 * MIB);
        m.free(a);
        assert_eq!((m.alloc(64 * MIB), m.reserved() / MIB), (a, alone), "{conf}: correct, and dangerous");
        m.record(a, 1);
        m.free(a);
        assert_ne!(m.alloc(64 * MIB), a);
        assert_eq!((m.reserved() / MIB, m.allocated() / MIB), (beside, 64), "{conf}");
        assert_eq!(m.stat("active_bytes.all.current") >> 20, 128, "{conf}");
        m.sim.advance(1);
        assert_eq!(m.alloc(64 * MIB), a, "{conf}");
    }
}

#[test]
fn c17_captures_on_two_streams_share_a_pool_but_no_blocks() {
    for (conf, one, two) in [("", 64, 128), (EXPANDABLE, 80, 160)] {
        for (second, reserved) in [(1, one), (2, two)] {
            let m = machine(80 * GIB, conf);
            let pool = MemPool::for_graphs(&m.a).unwrap();
            let mut graphs = Vec::new();
            for raw in [1, second] {
                let capture = pool.capture(stream(raw), CaptureMode::Global).unwrap();
                m.free(m.alloc_on(64 * MIB, raw));
                graphs.push(capture.end().unwrap());
            }
            assert_eq!(m.reserved() / MIB, reserved, "{conf}, second capture on stream {second}");
        }
    }
}

/// Ten rounds of: a block of stream 1, used by stream 2. Reserved MiB at the end of the capture.
fn c19(conf: &str, joined: bool, freed_before_the_join: bool, work: bool) -> u64 {
    let m = lenient(80 * GIB, conf);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    for _ in 0..10 {
        let block = m.alloc_on(64 * MIB, 1);
        if work {
            m.work(1, block, 64 * MIB);
        }
        m.wait(2, 1);
        if work {
            m.work(2, block, 64 * MIB);
        }
        m.a.record_stream(block, stream(2), &on(1)).unwrap();
        if freed_before_the_join {
            m.a.free(block, &on(1)).unwrap();
        }
        if joined {
            m.wait(1, 2);
        }
        if !freed_before_the_join {
            m.a.free(block, &on(1)).unwrap();
        }
    }
    let reserved = m.reserved() / MIB;
    drop(capture.end());
    reserved
}

#[test]
fn c19_record_stream_in_a_capture() {
    let reuse = "graph_capture_record_stream_reuse:True";
    let expandable = format!("{reuse},{EXPANDABLE}");
    for before in [false, true] {
        assert_eq!(c19("", true, before, true), 640, "off");
        assert_eq!(c19(reuse, true, before, true), 64, "on");
        assert_eq!(c19(&expandable, true, before, true), 80, "on, expandable");
        assert_eq!(c19(reuse, false, before, true), 640, "never joined");
    }
    assert_eq!(c19(reuse, true, true, false), 640, "c19d: no nodes, no markers");
}

/// A cached block of 400 MiB of 1000, then 900 in the same capture.
fn c21(m: &Machine) -> (MemPool, millpond::Result<u64>, u64) {
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Global).unwrap();
    m.a.free(m.alloc_on(400 * MIB, 1), &on(1)).unwrap();
    let frees = m.calls(CallKind::Free);
    let outcome = m.a.alloc(900 * MIB, stream(1), &on(1));
    let frees = m.calls(CallKind::Free) - frees;
    drop(capture.end().expect("the capture can be ended"));
    (pool, outcome, frees)
}

#[test]
fn c21_torch_frees_an_oversize_segment_in_a_capture() {
    let m = lenient(1000 * MIB, "max_split_size_mb:64");
    let (_pool, outcome, frees) = c21(&m);
    let Err(Error::OutOfMemory(oom)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((frees, oom.device_free), (1, 1000 * MIB), "cudaFree in the capture, and OOM all the same");
    assert_eq!(["num_alloc_retries", "num_ooms"].map(|key| m.stat(key)), [0, 1]);

    let m = lenient(1000 * MIB, "");
    let (pool, outcome, frees) = c21(&m);
    assert!(matches!(outcome, Err(Error::OutOfMemory(_))));
    assert_eq!((frees, m.reserved()), (0, 400 * MIB));
    drop(pool);
    m.empty();
    assert_eq!(m.reserved(), 0);

    let m = lenient(1000 * MIB, EXPANDABLE);
    assert_eq!(c21(&m).1.unwrap(), BASE, "expandable: it grows in place");
}

/// What should happen: a clean OOM, no cudaFree between the begin and the end of a capture, and the capture goes on.
#[test]
fn c21_millpond_does_not_free_in_a_capture() {
    let config = SimConfig::with_capacity(Bytes(1000 * MIB));
    let m = Machine::written(config, "preset:millpond,max_split_size_mb:64");
    let (_pool, outcome, frees) = c21(&m);
    assert!(matches!(outcome, Err(Error::OutOfMemory(_))), "{outcome:?}");
    assert_eq!((frees, m.reserved()), (0, 400 * MIB));
}

#[test]
fn c23_a_pool_without_owners_is_not_captured_into_again() {
    for conf in BOTH {
        let m = machine(GIB, conf);
        let id = m.a.world().graph_pool_id();
        m.a.begin_allocate_to_pool(id, millpond::Filter::Any).unwrap();
        let kept = m.alloc_on(4 * MIB, 1);
        m.free(m.alloc_on(8 * MIB, 1));
        m.a.end_allocate_to_pool(id).unwrap();
        m.a.release_pool(id).unwrap();
        let error = m.a.begin_allocate_to_pool(id, millpond::Filter::Any).unwrap_err();
        assert!(matches!(error, Error::PoolReleased { .. }), "{conf}: a live block is in it: {error}");
        m.free(kept);
        let error = m.a.begin_allocate_to_pool(id, millpond::Filter::Any).unwrap_err();
        assert!(matches!(error, Error::PoolReleased { .. }), "{conf}: a segment is cached: {error}");
    }
}

#[test]
fn c23_an_anchor_keeps_the_pool() {
    for conf in BOTH {
        let m = machine(GIB, conf);
        let anchor = MemPool::for_graphs(&m.a).unwrap();
        let capture = anchor.capture(stream(1), CaptureMode::Global).unwrap();
        let kept = m.alloc_on(4 * MIB, 1);
        let freed = m.alloc_on(8 * MIB, 1);
        m.a.free(freed, &on(1)).unwrap();
        drop(capture.end().unwrap());
        let capture = anchor.capture(stream(1), CaptureMode::Global).unwrap();
        assert_eq!((m.alloc_on(8 * MIB, 1), m.reserved()), (freed, 20 * MIB), "{conf}");
        drop(capture.end().unwrap());
        m.free_all([kept, freed]);
    }
}

/// Two tensors of each size in a graph of its own, freed before the next capture. Reserved MiB.
fn c25(conf: &str, sizes: [u64; 3], shared: bool) -> u64 {
    let m = machine(80 * GIB, conf);
    let pools = [(); 3].map(|()| MemPool::for_graphs(&m.a).unwrap());
    let mut graphs = Vec::new();
    for (i, size) in sizes.into_iter().enumerate() {
        let capture = pools[if shared { 0 } else { i }].capture(stream(1), CaptureMode::Global).unwrap();
        let blocks = [size * MIB; 2].map(|size| m.alloc_on(size, 1));
        blocks.iter().for_each(|&addr| m.a.free(addr, &on(1)).unwrap());
        graphs.push(capture.end().unwrap());
    }
    m.reserved() / MIB
}

#[test]
fn c25_the_order_of_captures_in_a_shared_pool() {
    let (ascending, descending) = ([64, 128, 256], [256, 128, 64]);
    assert_eq!([c25("", ascending, true), c25("", descending, true)], [896, 512]);
    assert_eq!([c25(EXPANDABLE, ascending, true), c25(EXPANDABLE, descending, true)], [520, 520]);
    assert_eq!([c25("", ascending, false), c25("", descending, false)], [896, 896]);
    assert_eq!([c25(EXPANDABLE, ascending, false), c25(EXPANDABLE, descending, false)], [920, 920]);
}

/// Takes a lock for each stack, as a binding takes its interpreter's; and allocates, as an interpreter might.
struct Locking<'a>(&'a Mutex<()>, &'a Machine);

impl StackSource for Locking<'_> {
    fn capture(&self) -> Option<Stack> {
        let _held = self.0.lock().unwrap();
        self.1.a.on(stream(3)).alloc(512).unwrap();
        Some(Arc::from([Frame::new("f", "f.py", 1)]))
    }
}

#[test]
fn c77_stacks_are_taken_under_none_of_the_allocators_locks() {
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        let m = machine(GIB, "");
        m.a.record_history(Some(HistoryOptions { max_entries: 100, ..HistoryOptions::default() }));
        let interpreter = Mutex::new(());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for size in 1..2000 {
                    let source = Locking(&interpreter, &m);
                    let caller = Caller { stack: Some(&source), ..on(1) };
                    let addr = m.a.alloc(size * 5000, stream(1), &caller).unwrap();
                    m.a.free(addr, &caller).unwrap();
                }
            });
            scope.spawn(|| {
                for size in 1..2000 {
                    let _held = interpreter.lock().unwrap();
                    m.a.free(m.alloc_on(size * 5000, 2), &on(2)).unwrap();
                    if size % 100 == 0 {
                        m.a.snapshot(None, true);
                    }
                }
            });
        });
        m.verify();
        done.send(()).unwrap();
    });
    finished.recv_timeout(Duration::from_secs(60)).expect("no deadlock");
}
