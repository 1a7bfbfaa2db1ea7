//! `page_reuse`: free pages move to where they are needed.

mod common;

use common::{DEVICE, GIB, MIB, Machine, on, stream};
use millpond::{Error, MemPool, MemPoolOptions, PoolId};
use millpond_driver::{Access, Bytes, CaptureMode, Code, Device, Location, Virtual};
use millpond_sim::{CallKind, DeviceConfig, EventMode, FaultRule, SimConfig};

const PAGES: &str = "expandable_segments:True,page_size_mb:2,page_reuse:";

fn config(capacity: u64) -> SimConfig {
    SimConfig::with_capacity(Bytes(capacity))
}

/// A machine on which pages of 2 MiB move.
fn machine(capacity: u64, reuse: &str) -> Machine {
    Machine::written(config(capacity), &format!("{PAGES}{reuse}"))
}

/// Events complete when a test says so.
fn manual(reuse: &str) -> Machine {
    let config = SimConfig { events: EventMode::Manual, ..config(GIB) };
    Machine::written(config, &format!("{PAGES}{reuse}"))
}

/// Four blocks of 16 MiB, of which the first and the third are free again.
fn holes(m: &Machine) -> [u64; 4] {
    let blocks = [0; 4].map(|_| m.alloc(16 * MIB));
    m.free_all([blocks[0], blocks[2]]);
    blocks
}

fn alloc_in(m: &Machine, pool: &MemPool, size: u64) -> u64 {
    let _scope = pool.enter().unwrap();
    m.alloc(size)
}

/// Physical memory that the device has handed over.
fn used(m: &Machine) -> u64 {
    m.sim.peak_use(DEVICE)
}

/// Runs a request of 32 MiB on the default stream and returns how many pages had to be made for it.
fn new_pages(m: &Machine) -> u64 {
    let before = m.calls(CallKind::Create);
    let addr = m.alloc(32 * MIB);
    m.verify();
    m.free(addr);
    m.calls(CallKind::Create) - before
}

// ── What is served ──

#[test]
fn two_holes_serve_what_neither_could_alone() {
    for (reuse, capacity) in [("pressure", 64 * MIB), ("always", 64 * MIB), ("always", GIB)] {
        let m = machine(capacity, reuse);
        holes(&m);
        let wide = m.alloc(32 * MIB);
        m.verify();
        assert_eq!((used(&m), m.reserved()), (64 * MIB, 64 * MIB), "{reuse}");
        assert_eq!((m.stat("num_ooms"), m.stat("num_alloc_retries")), (0, 0), "{reuse}");
        m.free(wide);
        m.verify();
    }
    // Without moving the device is waited for and the holes are given back.
    let m = machine(64 * MIB, "off");
    holes(&m);
    m.alloc(32 * MIB);
    assert_eq!(m.stat("num_alloc_retries"), 1);
    // Under pressure nothing moves while there is other memory.
    let m = machine(GIB, "pressure");
    holes(&m);
    m.alloc(32 * MIB);
    assert_eq!(m.reserved(), 96 * MIB);
}

#[test]
fn parts_of_pages_at_the_edges_of_a_hole_stay() {
    let m = machine(GIB, "always");
    let [a, hole, b] = [9 * MIB, 6 * MIB, 5 * MIB].map(|size| m.alloc(size));
    m.free(hole);
    // From 9 to 15 MiB there are two whole pages, 10 to 14.
    m.alloc(8 * MIB);
    m.verify();
    assert_eq!(m.reserved(), 24 * MIB, "20 of before, 2 pages moved, 2 made");
    let edges: Vec<_> = m.blocks().into_iter().filter(|block| block.2 == millpond::BlockUse::Free).collect();
    assert_eq!(edges.iter().map(|&(at, size, _)| (at, size)).collect::<Vec<_>>(), [(9 * MIB, MIB), (14 * MIB, MIB)]);
    m.free_all([a, b]);
}

#[test]
fn memory_of_another_stream_comes_after_its_work_and_the_host_waits_for_nothing() {
    for reuse in ["pressure", "always"] {
        let config = SimConfig { events: EventMode::Manual, hazards: true, ..config(64 * MIB) };
        let m = Machine::written(config, &format!("{PAGES}{reuse}"));
        let waits = [CallKind::StreamSynchronize, CallKind::EventSynchronize, CallKind::DeviceSynchronize];
        let theirs = m.alloc_on(64 * MIB, 1);
        m.sim.hand_out(theirs, 64 * MIB, stream(1), "theirs");
        m.work(1, theirs, 64 * MIB);
        m.sim.give_back(theirs, "");
        m.free(theirs);
        let before = (waits.map(|kind| m.calls(kind)), m.calls(CallKind::StreamWaitEvent));
        let ours = m.alloc(48 * MIB);
        m.sim.hand_out(ours, 48 * MIB, stream(0), "ours");
        m.work(0, ours, 48 * MIB);
        m.verify();
        assert_eq!(m.sim.hazards(), [], "{reuse}");
        assert_eq!(waits.map(|kind| m.calls(kind)), before.0, "{reuse}: the host waited");
        assert_eq!(m.calls(CallKind::StreamWaitEvent), before.1 + 1, "{reuse}");
        assert_eq!((used(&m), m.stat("num_alloc_retries")), (64 * MIB, 0), "{reuse}");
    }
}

#[test]
fn pages_cross_the_line_between_small_and_large() {
    let m = machine(64 * MIB, "always");
    let small: Vec<u64> = (0..64).map(|_| m.alloc(MIB)).collect();
    m.free_all(small);
    m.alloc(60 * MIB);
    m.verify();
    assert_eq!((used(&m), m.reserved()), (64 * MIB, 64 * MIB));
    let m = machine(64 * MIB, "pressure");
    let large = m.alloc(64 * MIB);
    m.free(large);
    (0..64).for_each(|_| assert!(m.alloc(MIB) > 0));
    m.verify();
    assert_eq!((m.reserved(), m.stat("num_alloc_retries")), (64 * MIB, 0));
}

#[test]
fn an_idle_private_pool_gives() {
    for reuse in ["pressure", "always"] {
        let m = machine(64 * MIB, reuse);
        let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
        let theirs = alloc_in(&m, &pool, 64 * MIB);
        m.free(theirs);
        m.alloc(40 * MIB);
        m.verify();
        assert_eq!((m.reserved(), m.stat("num_alloc_retries")), (64 * MIB, 0), "{reuse}");
        // And it gets memory the same way.
        assert_eq!(alloc_in(&m, &pool, 24 * MIB), theirs);
    }
    let m = machine(64 * MIB, "off");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let theirs = alloc_in(&m, &pool, 64 * MIB);
    m.free(theirs);
    m.try_alloc(40 * MIB).unwrap_err();
}

#[test]
fn a_limit_is_no_reason_to_fail_or_to_reject_while_pages_are_free() {
    for reuse in ["pressure", "always"] {
        for throws in ["", ",throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"] {
            let m = Machine::written(config(128 * MIB), &format!("{PAGES}{reuse}{throws}"));
            // Set by hand the fraction is a limit, as a key it is what requests are held against.
            m.a.set_memory_fraction(if throws.is_empty() { 0.5 } else { 1.0 }).unwrap();
            holes(&m);
            m.alloc(32 * MIB);
            m.verify();
            assert_eq!((m.reserved(), m.stat("num_oom_rejections")), (64 * MIB, 0), "{reuse}{throws}");
            // What is over the limit with every page in use fails as ever.
            let error = m.try_alloc(2 * MIB).unwrap_err();
            assert_eq!(matches!(error, Error::Rejected { .. }), !throws.is_empty(), "{error}");
            m.verify();
        }
    }
}

#[test]
fn pages_of_another_size_stay() {
    let m = Machine::written(config(GIB), "expandable_segments:True,page_size_mb:20,page_reuse:always");
    let small: Vec<u64> = (0..64).map(|_| m.alloc(MIB)).collect();
    m.free_all(small);
    m.alloc(32 * MIB);
    m.verify();
    assert_eq!(m.reserved(), 104 * MIB);
}

// ── How it is done ──

#[test]
fn trackers_see_a_move_when_it_is_decided_and_add_up() {
    let m = manual("always");
    m.record_all();
    holes(&m);
    m.take_history();
    m.alloc(32 * MIB);
    let after = m.take_history();
    let unmaps = [("segment_unmap", 32 * MIB, 16 * MIB), ("segment_unmap", 0, 16 * MIB)];
    let maps = [("segment_map", 64 * MIB, 32 * MIB), ("alloc", 64 * MIB, 32 * MIB)];
    let mut expected = unmaps.to_vec();
    expected.extend(maps);
    let mut sorted = after.clone();
    sorted[..2].sort_unstable_by_key(|&(_, at, _)| std::cmp::Reverse(at));
    assert_eq!(sorted, expected);
    assert_eq!(m.reserved(), 64 * MIB);
    // The late unmapping tells nothing.
    m.sim.sync();
    m.alloc(2 * MIB);
    let late: Vec<_> = m.take_history().into_iter().map(|(action, ..)| action).collect();
    assert_eq!(late, ["segment_map", "alloc"]);
}

#[test]
fn the_old_addresses_come_free_when_their_stream_has_passed() {
    let m = manual("always");
    let blocks = holes(&m);
    // Work before the move, told of by an event that a program records.
    let wait = |from| m.wait(3, from);
    wait(0);
    let wide = m.alloc(32 * MIB);
    let unmapped = |m: &Machine| m.calls(CallKind::Unmap);
    m.verify();
    assert_eq!(unmapped(&m), 0);
    // Nothing is placed at the old addresses: the next request goes behind.
    assert_eq!(m.alloc(16 * MIB), wide + 32 * MIB);
    m.verify();
    assert_eq!(m.sim.pending_events(), 1, "guards are not counted");
    assert_eq!(m.sim.advance(1), 1);
    // Passed: the next request that misses unmaps both and takes the lowest.
    assert_eq!(m.alloc(16 * MIB), blocks[0]);
    assert!(unmapped(&m) > 0);
    m.verify();
}

#[test]
fn emptying_the_cache_leaves_no_old_mapping() {
    let m = manual("always");
    let blocks = holes(&m);
    m.wait(3, 0);
    let wide = m.alloc(32 * MIB);
    m.free_all([blocks[1], blocks[3], wide]);
    m.empty();
    m.verify();
    assert_eq!((m.reserved(), m.blocks()), (0, vec![]));
    assert_eq!(m.calls(CallKind::Create), m.calls(CallKind::Release));
}

#[test]
fn peers_reach_a_page_at_its_new_home() {
    let peer = Device(1);
    let devices = vec![DeviceConfig::with_capacity(Bytes(GIB)); 2];
    let m = Machine::written(SimConfig { devices, ..config(GIB) }, &format!("{PAGES}always"));
    m.a.enable_peer_access(peer).unwrap();
    holes(&m);
    let wide = m.alloc(32 * MIB);
    for at in [wide, wide + 30 * MIB] {
        assert_eq!(m.sim.mem_get_access(at, Location::Device(peer)).unwrap(), Access::ReadWrite);
    }
}

#[test]
fn a_device_that_cannot_map_beside_kernels_is_waited_for() {
    for beside in [true, false] {
        let mut config = config(GIB);
        config.devices[0].caps.map_beside_kernels = beside;
        let m = Machine::written(config, &format!("{PAGES}always"));
        holes(&m);
        let before = m.calls(CallKind::DeviceSynchronize);
        m.alloc(32 * MIB);
        assert_eq!(m.calls(CallKind::DeviceSynchronize) - before, u64::from(!beside));
    }
}

#[test]
fn a_move_that_fails_at_any_step_leaves_every_page_at_home() {
    let steps = [
        (CallKind::EventCreate, 1),
        (CallKind::EventRecord, 2),
        (CallKind::StreamWaitEvent, 1),
        (CallKind::Create, 3),
        (CallKind::Map, 17),
        (CallKind::SetAccess, 1),
    ];
    for (kind, most) in steps {
        for nth in 1..=most {
            let m = manual("always");
            let theirs = m.alloc_on(10 * MIB, 1);
            holes(&m);
            m.free(theirs);
            let before = (m.blocks(), m.reserved(), m.a.stats());
            m.sim.fail(FaultRule::nth(kind, nth, Code::ERROR_UNKNOWN));
            // 32 MiB move on the stream, 10 from another, three pages are new.
            let failed = m.try_alloc(48 * MIB);
            assert!(matches!(failed, Err(Error::Driver(_))), "{kind:?} {nth}: {failed:?}");
            m.verify();
            assert_eq!(m.reserved(), before.1, "{kind:?} {nth}");
            assert_eq!(m.blocks(), before.0, "{kind:?} {nth}");
            assert_eq!(m.a.stats(), before.2, "{kind:?} {nth}");
            m.sim.clear_faults();
            m.alloc(48 * MIB);
            m.verify();
            assert_eq!(m.reserved(), before.1 + 6 * MIB, "{kind:?} {nth}");
        }
    }
}

#[test]
fn an_old_mapping_that_cannot_be_removed_waits_for_the_next_time() {
    let m = machine(GIB, "always");
    holes(&m);
    m.alloc(32 * MIB);
    m.sim.fail(FaultRule::nth(CallKind::Unmap, 1, Code::ERROR_UNKNOWN));
    m.try_alloc(16 * MIB).unwrap_err();
    m.verify();
    m.alloc(16 * MIB);
    m.verify();
    assert_eq!(m.calls(CallKind::Unmap), 3, "one failed");
}

// ── What never moves ──

#[test]
fn pages_of_a_pool_that_a_graph_uses_stay_until_its_last_owner_is_gone() {
    let m = machine(GIB, "always");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let free_in_graph = || {
        let capture = pool.capture(stream(1), CaptureMode::Relaxed).unwrap();
        let addr = m.alloc_on(64 * MIB, 1);
        m.a.free(addr, &on(1)).unwrap();
        capture.end().unwrap()
    };
    let graph = free_in_graph();
    assert_eq!(new_pages(&m), 16);
    m.empty();
    // The pool's owner alone is enough, and any pool that was allocated into by a captured stream counts.
    drop(graph);
    assert_eq!(new_pages(&m), 16);
    m.empty();
    drop(pool);
    assert_eq!(m.reserved(), 0, "an owner that goes gives all back");
}

#[test]
fn pages_of_a_released_graph_pool_may_go() {
    let m = machine(GIB, "always");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Relaxed).unwrap();
    let (kept, freed) = (m.alloc_on(2 * MIB, 1), m.alloc_on(64 * MIB, 1));
    m.a.free(freed, &on(1)).unwrap();
    drop(capture.end().unwrap());
    // PyTorch's ids are released without being emptied when a graph is reset.
    m.a.create_or_incref_pool(pool.id(), None).unwrap();
    m.a.release_pool(pool.id()).unwrap();
    m.a.release_pool(pool.id()).unwrap();
    assert_eq!(new_pages(&m), 0);
    m.free(kept);
    std::mem::forget(pool);
}

#[test]
fn default_pools_that_a_capture_used_stay_too() {
    let m = machine(GIB, "always");
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Relaxed).unwrap();
    // In the capture, but on a stream that does not capture: served by the default pool.
    let addr = m.a.alloc(64 * MIB, stream(2), &on(1)).unwrap();
    let graph = capture.end().unwrap();
    let captured = m.a.segments_of(PoolId::DEFAULT).iter().any(|segment| segment.stream == stream(2));
    m.free(addr);
    assert_eq!((captured, new_pages(&m)), (true, 16));
    drop(graph);
}

#[test]
fn nothing_moves_for_a_request_in_a_capture() {
    for capacity in [GIB, 96 * MIB] {
        let m = machine(capacity, "always");
        let theirs = m.alloc(64 * MIB);
        m.free(theirs);
        let pool = MemPool::for_graphs(&m.a).unwrap();
        let capture = pool.capture(stream(1), CaptureMode::Relaxed).unwrap();
        let outcome = m.a.alloc(48 * MIB, stream(1), &on(1));
        m.verify();
        // New memory, or an error as PyTorch has it.
        assert_eq!(outcome.is_ok(), capacity == GIB);
        assert_eq!(m.mapped_blocks(PoolId::DEFAULT), [(0, 64 * MIB, millpond::BlockUse::Free)]);
        drop(capture.end());
    }
}

#[test]
fn a_stream_that_captures_neither_gives_nor_gets() {
    let m = machine(GIB, "always");
    let theirs = m.alloc_on(64 * MIB, 1);
    m.free(theirs);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let capture = pool.capture(stream(1), CaptureMode::Relaxed).unwrap();
    assert_eq!(new_pages(&m), 16, "an event for its work would be part of the capture");
    drop(capture.end());
    m.empty();
    let theirs = m.alloc_on(64 * MIB, 1);
    m.free(theirs);
    assert_eq!(new_pages(&m), 0);
}

#[test]
fn pages_of_a_pool_with_a_checkpoint_stay() {
    let m = machine(GIB, "always");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let theirs = alloc_in(&m, &pool, 64 * MIB);
    let saved = pool.checkpoint(&on(0)).unwrap();
    m.free(theirs);
    assert_eq!(new_pages(&m), 16);
    assert_eq!(pool.restore(&saved, &on(0)).unwrap().live, [theirs]);
    m.free(theirs);
    m.empty();
    drop(saved);
    assert_eq!(new_pages(&m), 0);
}

#[test]
fn pages_of_a_pool_of_whole_blocks_stay() {
    let m = machine(GIB, "always");
    let pool = MemPool::new(&m.a, MemPoolOptions { no_split: true, ..MemPoolOptions::default() }).unwrap();
    let theirs = alloc_in(&m, &pool, 64 * MIB);
    m.free(theirs);
    assert_eq!(new_pages(&m), 16);
}

#[test]
fn a_pool_that_sleeps_has_nothing_to_give() {
    let m = machine(GIB, "always");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let theirs = alloc_in(&m, &pool, 64 * MIB);
    m.a.sleep(pool.id(), None, &on(0)).unwrap();
    m.free(theirs);
    assert_eq!(new_pages(&m), 16);
    m.a.wake(pool.id(), &on(0)).unwrap();
    m.verify();
}

#[test]
fn a_pool_falls_asleep_without_old_mappings() {
    let m = manual("always");
    let blocks = holes(&m);
    m.wait(3, 0);
    m.alloc(32 * MIB);
    m.a.sleep(PoolId::DEFAULT, None, &on(0)).unwrap();
    m.verify();
    assert_eq!(m.reserved(), 0);
    m.a.wake(PoolId::DEFAULT, &on(0)).unwrap();
    m.verify();
    assert_eq!(m.reserved(), 64 * MIB);
    m.free(blocks[1]);
}

#[test]
fn pinned_pages_stay() {
    let m = machine(GIB, "always");
    let addr = m.alloc(64 * MIB);
    // 6 to 9 MiB touch two pages, 3 before it are free to go and 27 behind it.
    let pinned = m.a.pin_pages(addr, 9 * MIB).unwrap();
    assert!(matches!(m.a.pin_pages(addr + 512, MIB), Err(Error::UnknownAddress { .. })));
    let inner = m.a.pin_pages(addr, 2 * MIB).unwrap();
    m.free(addr);
    let theirs = m.alloc_on(64 * MIB, 1);
    m.verify();
    assert_eq!(m.reserved(), 74 * MIB, "five pages stay");
    m.free(theirs);
    drop(pinned);
    m.alloc_on(70 * MIB, 1);
    m.verify();
    assert_eq!(m.reserved(), 74 * MIB, "one page stays, three and one to spare move");
    drop(inner);
}

#[test]
fn live_and_waiting_memory_stays() {
    let m = manual("always");
    let [live, waits] = [32 * MIB; 2].map(|size| m.alloc(size));
    m.record(waits, 2);
    m.free(waits);
    assert_eq!(new_pages(&m), 16);
    assert_eq!(m.alloc(32 * MIB), waits + 32 * MIB);
    m.free(live);
}

// ── When it comes to rest ──

/// Two requests by turns, each too large for what the other leaves.
fn driver_calls_by_iteration(m: &Machine, iterations: usize, sizes: &[&[u64]]) -> Vec<u64> {
    let mut calls = Vec::new();
    for _ in 0..iterations {
        let before = m.sim.calls_made();
        for phase in sizes {
            let blocks: Vec<u64> = phase.iter().map(|&size| m.alloc_on(size * MIB, size % 3)).collect();
            m.free_all(blocks);
        }
        calls.push(m.sim.calls_made() - before);
        m.verify();
    }
    calls
}

#[test]
fn pages_that_are_needed_in_two_places_by_turns_come_to_rest() {
    // The sizes choose the streams: what one phase needs on one, the next needs on another.
    for sizes in [&[&[48][..], &[49][..], &[50][..]][..], &[&[48, 4, 30, 7][..], &[20, 64][..]][..]] {
        let m = machine(GIB, "always");
        let calls = driver_calls_by_iteration(&m, 24, sizes);
        println!("driver calls by iteration: {calls:?}");
        assert!(calls[..4].iter().all(|&calls| calls > 0), "{calls:?}");
        assert_eq!(calls[16..], [0; 8], "{calls:?}");
    }
    // Where memory is short they move on.
    let m = machine(64 * MIB, "always");
    let calls = driver_calls_by_iteration(&m, 24, &[&[48], &[49], &[50]]);
    assert_eq!(m.stat("num_ooms"), 0, "{calls:?}");
}

#[test]
fn a_program_that_repeats_itself_comes_to_rest() {
    let m = machine(8 * GIB, "always");
    let mut calls = Vec::new();
    for _ in 0..24 {
        let (before, mut seed, mut live) = (m.sim.calls_made(), 1_u64, Vec::new());
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..600 {
            if live.len() < 24 || draw(2) == 0 {
                live.push(m.alloc((1 + draw(40)) * MIB));
            } else {
                m.free(live.swap_remove(draw(live.len() as u64) as usize));
            }
        }
        m.free_all(live);
        m.verify();
        calls.push(m.sim.calls_made() - before);
    }
    println!("driver calls by iteration: {calls:?}");
    assert!(calls[1] > 0 && calls[16..] == [0; 8], "{calls:?}");
    let (peak, reserved) = (m.stat("active_bytes.all.peak") as u64, m.reserved());
    assert!(reserved * 5 <= peak * 6, "{reserved} bytes are held for {peak}");
}

// ── Garbage collection ──

#[test]
fn collection_gives_back_pages_of_expandable_segments_the_oldest_first() {
    let held = |reuse: &str| {
        let keys = format!("{PAGES}{reuse},garbage_collection_threshold:0.5,per_process_memory_fraction:0.9");
        let m = Machine::written(config(200 * MIB), &keys);
        let [old, between, young] = [40 * MIB, 2 * MIB, 40 * MIB].map(|size| m.alloc(size));
        m.free(old);
        (0..4).for_each(|_| m.free(m.alloc(MIB)));
        let tick = m.alloc(2 * MIB);
        m.free(young);
        // 90 MiB may be cached, 84 and what this asks for are: collection begins above.
        let more = m.alloc_on(20 * MIB, 1);
        m.alloc_on(4 * MIB, 1);
        m.verify();
        m.free_all([between, tick, more]);
        m.reserved()
    };
    let (off, on) = (held("off"), held("pressure"));
    assert!(on < off, "{on} is held with pages, {off} without");
}
