//! What the allocator promises, each promise on random scripts. The scripts are the same in every run; `MILLPOND_CASES=N` runs
//! N other ones.

mod model;

use std::collections::BTreeMap;

use millpond::size::SizeClass;
use millpond::{Action, BlockUse, Error, HistoryOptions, Metric, PoolId, Stats};
use millpond_driver::{Code, Event, Memory, Order};
use millpond_sim::{CallKind, FaultCalls, FaultRule, FaultWhen, Sim};
use millpond_snapshot::Snapshot;
use model::MIB;
use model::pair::{DEVICE, caller, stream};
use model::script::{Op, Start, ops, start};
use model::settings::Key;
use model::solo::{Outcome, Solo};
use model::state::Who;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

fn runner(cases: u32) -> TestRunner {
    let more = std::env::var("MILLPOND_CASES").ok().and_then(|text| text.parse().ok());
    let config = Config { cases: more.unwrap_or(cases), failure_persistence: None, ..Config::default() };
    match more {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

/// Millpond's own ways in which every promise holds: none, and with pages that move.
const WAYS: [&str; 3] =
    ["", "expandable_segments:True,page_size_mb:2,page_reuse:always", "expandable_segments:True,page_reuse:pressure"];

/// Holds `promise` on random scripts, in every way; where pages move on a third as many.
fn hold(cases: u32, promise: impl Fn(&Start, &[Op], &str) -> Result<(), String>) {
    for way in WAYS {
        let cases = if way.is_empty() { cases } else { cases / 3 };
        hold_in(way, cases, |start, ops| promise(start, ops, way));
    }
}

fn hold_in(way: &str, cases: u32, promise: impl Fn(&Start, &[Op]) -> Result<(), String>) {
    let outcome =
        runner(cases).run(&(start(), ops(80)), |(start, ops)| promise(&start, &ops).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{way}: {error}");
    }
}

fn check(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

#[test]
fn a_no_two_live_allocations_overlap() {
    hold(300, |start, ops, way| {
        let mut solo = Solo::new(start, way);
        for op in ops {
            if let Outcome::At(addr) = solo.step(op) {
                let (size, _) = solo.live[&addr];
                let before = solo.live.range(..addr).next_back().map_or(0, |(&a, &(bytes, _))| a + bytes);
                let behind = solo.live.range(addr + 1..).next().map_or(u64::MAX, |(&a, _)| a);
                check(before <= addr && addr + size <= behind, || {
                    format!("{addr:#x} + {size:#x} lies between {before:#x} and {behind:#x}")
                })?;
            }
        }
        Ok(())
    });
}

/// Each free of a block that other streams use leaves an event on them: what they had queued then. Memory of the block may not
/// come again before those events. Captured work has no such events, so there are no captures here.
#[test]
fn b_no_block_is_handed_out_while_recorded_work_on_another_stream_may_still_run() {
    let reuses = std::cell::Cell::new(0);
    hold(300, |start, ops, way| {
        let mut solo = Solo::new(&Start { manual: true, ..start.clone() }, way);
        let mut in_use: Vec<(u64, u64, Vec<Event>)> = Vec::new();
        for op in ops.iter().filter(|op| !matches!(op, Op::CaptureBegin { .. })) {
            let freed = if let Op::Free { nth, .. } = op { solo.nth_live(nth.to_owned()) } else { None };
            if let Some(addr) = freed {
                let (size, own) = solo.live[&addr];
                let mut events = Vec::new();
                for &raw in solo.uses.get(&addr).into_iter().flatten().filter(|&&raw| raw != own) {
                    let event = solo.sim.event_create(DEVICE).unwrap();
                    solo.sim.event_record(event, stream(raw)).unwrap();
                    events.push(event);
                }
                in_use.push((addr, size, events));
            }
            let Outcome::At(addr) = solo.step(op) else { continue };
            let (size, _) = solo.live[&addr];
            for (used, bytes, events) in &in_use {
                if *used < addr + size && addr < used + bytes {
                    reuses.set(reuses.get() + usize::from(!events.is_empty()));
                    let running = events.iter().any(|&event| !solo.sim.event_query(event).unwrap());
                    check(!running, || format!("{op:?}: {addr:#x} is still used by another stream"))?;
                }
            }
        }
        Ok(())
    });
    assert!(reuses.get() > 20, "memory that another stream used came again only {} times", reuses.get());
}

#[test]
fn c_the_same_requests_get_the_same_addresses() {
    hold(150, |start, ops, way| {
        let (mut first, mut second) = (Solo::new(start, way), Solo::new(start, way));
        for op in ops {
            let (a, b) = (first.step(op), second.step(op));
            check(a == b, || format!("{op:?}: {a:x?}, then {b:x?}"))?;
        }
        check(first.real.stats() == second.real.stats(), || "the statistics differ".to_owned())
    });
}

/// What the log of the driver's calls leaves behind: (allocations, reservations, handles, mapped bytes).
fn left_behind(sim: &Sim) -> [i64; 4] {
    let mut left = [0; 4];
    for call in sim.take_log().iter().filter(|call| call.code.is_none()) {
        match call.kind {
            CallKind::Malloc => left[0] += 1,
            CallKind::Free => left[0] -= 1,
            CallKind::Reserve => left[1] += 1,
            CallKind::AddrFree => left[1] -= 1,
            CallKind::Create => left[2] += 1,
            CallKind::Release => left[2] -= 1,
            CallKind::Map => left[3] += call.size as i64,
            CallKind::Unmap => left[3] -= call.size as i64,
            _ => {}
        }
    }
    left
}

/// Frees, empties, and looks for what is left: in the allocator, on the device, and when the allocator is gone among the
/// addresses.
fn ends_empty(mut solo: Solo) -> Result<(), String> {
    solo.tear_down().map_err(|error| format!("giving back failed: {error}"))?;
    verified(&solo)?;
    let stats = solo.real.stats();
    for metric in [Metric::ReservedBytes, Metric::AllocatedBytes, Metric::ActiveBytes, Metric::Segment] {
        let current = stats.all(metric).current;
        check(current == 0, || format!("{} ends at {current}", metric.key()))?;
    }
    let (free, total) = solo.sim.mem_info(DEVICE).unwrap();
    check(free == total, || format!("{} bytes of the device are still held", total - free))?;
    // A reservation whose first page could not be mapped stays for the next try (R4.14, R4.22); it goes with the allocator.
    let Solo { sim, real, kept, .. } = solo;
    drop((real, kept));
    let left = left_behind(&sim);
    check(left == [0; 4], || format!("left behind (allocations, reservations, handles, mapped bytes): {left:?}"))
}

fn verified(solo: &Solo) -> Result<(), String> {
    solo.real.verify().map_err(|wrong| format!("verify: {}", wrong[0]))
}

#[test]
fn d_freeing_everything_and_emptying_returns_reserved_to_zero() {
    hold(300, |start, ops, way| {
        let mut solo = Solo::new(start, way);
        for op in ops {
            solo.step(op);
        }
        ends_empty(solo)
    });
}

/// The current values of all metrics, counted from the blocks: all, small, large.
fn recount(solo: &Solo) -> BTreeMap<&'static str, [u64; 3]> {
    let mut counted: BTreeMap<&'static str, [u64; 3]> = BTreeMap::new();
    for segment in solo.real.segments() {
        let mut add = |metric: Metric, by: u64| {
            let figures = counted.entry(metric.key()).or_default();
            figures[0] += by;
            figures[1 + usize::from(segment.class == SizeClass::Large)] += by;
        };
        add(Metric::ReservedBytes, segment.mapped());
        add(Metric::Segment, u64::from(!segment.expandable));
        for block in &segment.blocks {
            match block.state {
                BlockUse::Live => {
                    add(Metric::Allocation, 1);
                    add(Metric::AllocatedBytes, block.size);
                }
                BlockUse::Free if !segment.expandable && segment.blocks.len() > 1 => {
                    add(Metric::InactiveSplit, 1);
                    add(Metric::InactiveSplitBytes, block.size);
                }
                _ => {}
            }
            if matches!(block.state, BlockUse::Live | BlockUse::Pending) {
                add(Metric::Active, 1);
                add(Metric::ActiveBytes, block.size);
                add(Metric::RequestedBytes, block.requested);
            }
        }
    }
    counted
}

#[test]
fn e_statistics_equal_a_recount_at_every_step() {
    hold(200, |start, ops, way| {
        let mut solo = Solo::new(start, way);
        let mut peaks: BTreeMap<&'static str, u64> = BTreeMap::new();
        for op in ops.iter().filter(|op| !matches!(op, Op::ResetPeaks | Op::ResetAccumulated)) {
            solo.step(op);
            let (stats, counted) = (solo.real.stats(), recount(&solo));
            for metric in Metric::ALL.into_iter().filter(|metric| metric.by_class()) {
                let figures = counted.get(metric.key()).copied().unwrap_or_default();
                for (column, figure) in figures.into_iter().enumerate() {
                    let stat = stats.metrics[metric as usize][column];
                    check(stat.current == figure as i64, || {
                        format!("{op:?}: {}[{column}]: {} but {figure} counted", metric.key(), stat.current)
                    })?;
                    check(stat.allocated - stat.freed == figure, || {
                        format!("{op:?}: {}[{column}]: {} − {}", metric.key(), stat.allocated, stat.freed)
                    })?;
                }
                let peak = peaks.entry(metric.key()).or_default();
                *peak = (*peak).max(figures[0]);
                let theirs = stats.all(metric).peak;
                check(theirs >= *peak, || format!("{op:?}: peak of {}: {theirs} < {peak}", metric.key()))?;
            }
            let by_pool = private_reserved(&solo);
            for (id, by_class) in &stats.reserved_by_private_pools {
                let figure = by_pool.get(id).copied().unwrap_or_default();
                check(by_class[0].current == figure as i64, || {
                    format!("{op:?}: pool {id} holds {figure}, {} in its statistics", by_class[0].current)
                })?;
            }
        }
        Ok(())
    });
}

fn private_reserved(solo: &Solo) -> BTreeMap<PoolId, u64> {
    let mut held = BTreeMap::new();
    for segment in solo.real.segments().iter().filter(|segment| segment.pool.is_private()) {
        *held.entry(segment.pool).or_insert(0) += segment.mapped();
    }
    held
}

#[test]
fn f_a_snapshot_read_back_gives_the_same_state() {
    hold(100, |start, ops, way| {
        let mut solo = Solo::new(start, way);
        solo.real.record_history(Some(HistoryOptions::default()));
        for op in ops {
            solo.step(op);
        }
        let snapshot = solo.real.snapshot(None, true);
        let mut file = Vec::new();
        snapshot.write_pickle(&mut file).map_err(|error| error.to_string())?;
        let read = Snapshot::from_bytes(&file).map_err(|error| error.to_string())?;
        check(read == snapshot, || "the snapshot read back differs from the one written".to_owned())?;
        // What was read is the state: every mapped block at its place, in its state.
        let mut blocks = Vec::new();
        for segment in &read.segments {
            for block in &segment.blocks {
                blocks.push((block.address, block.size, block.state.as_str()));
            }
        }
        let mut held = Vec::new();
        for segment in solo.real.segments() {
            for block in segment.blocks {
                let state = match block.state {
                    BlockUse::Live => "active_allocated",
                    BlockUse::Pending => "active_pending_free",
                    BlockUse::Free => "inactive",
                    BlockUse::Unmapped => continue,
                };
                held.push((block.addr, block.size, state));
            }
        }
        check(blocks == held, || format!("{blocks:x?} read, {held:x?} held"))
    });
}

fn has_fitting_free_block(solo: &Solo, rounded: u64, raw: u64, pool: PoolId) -> bool {
    let class = SizeClass::of(rounded);
    let segments = solo.real.segments().into_iter();
    let own = segments.filter(|s| s.pool == pool && s.class == class && s.stream.raw == raw);
    own.flat_map(|segment| segment.blocks).any(|block| block.state == BlockUse::Free && block.size >= rounded)
}

/// With `retry_after_sync:True` an OOM means that no free block of the pool fits, even after all events were waited for. In
/// captures nothing is waited for; blocks above `max_split_size` do not fit smaller requests, and with the switch turned off
/// expandable ones fit none: without those here.
#[test]
fn g_no_oom_is_raised_while_a_fitting_block_is_free_after_the_synchronising_release() {
    let decides = |keys: &[Key]| -> Vec<Key> {
        keys.iter().filter(|key| !matches!(key, Key::MaxSplit(_) | Key::ThrowOnOom(_))).cloned().collect()
    };
    let ooms = std::cell::Cell::new(0);
    hold_in("", 400, |start, ops| {
        let start = Start { manual: true, keys: decides(&start.keys), ..start.clone() };
        let mut solo = Solo::new(&start, "retry_after_sync:True");
        for op in ops.iter().filter(|op| !matches!(op, Op::CaptureBegin { .. } | Op::Configure(_))) {
            if let Outcome::Failed(_) = solo.step(op)
                && let Op::Alloc { stream: raw, .. } = op
                && let Some(Error::OutOfMemory(oom)) = solo.last_error.take()
            {
                ooms.set(ooms.get() + 1);
                check(!has_fitting_free_block(&solo, oom.rounded, *raw, oom.pool), || {
                    format!("{op:?}: out of memory, and a free block fits")
                })?;
            }
        }
        Ok(())
    });
    assert!(ooms.get() > 50, "only {} requests ran out of memory", ooms.get());
}

/// L1: a block that waits for another stream comes free in the synchronising release, the driver still refuses, and PyTorch does
/// not look again (R2.7).
#[test]
fn g_the_torch_preset_raises_where_an_immediate_retry_succeeds() {
    let served = |written: &str| {
        let mut solo = Solo::new(&Start::new(40 * MIB, true, vec![]), written);
        let who = Who { stream: 0, thread: 0 };
        let mut alloc = |size| solo.step(&Op::Alloc { size, stream: 0, who });
        // One 20 MiB segment: a live block of 4 MiB keeps it from being released, 8 MiB wait for stream 1.
        let (kept, waits) = (alloc(4 * MIB), alloc(8 * MIB));
        let Outcome::At(waits) = waits else { panic!("{kept:?} {waits:?}") };
        alloc(8 * MIB);
        alloc(20 * MIB);
        solo.real.record_stream(waits, stream(1), &caller(who)).unwrap();
        solo.free(waits, who);
        let first = solo.step(&Op::Alloc { size: 8 * MIB, stream: 0, who });
        let second = if matches!(first, Outcome::At(_)) {
            Outcome::Quiet
        } else {
            solo.step(&Op::Alloc { size: 8 * MIB, stream: 0, who })
        };
        verified(&solo).unwrap();
        (first == Outcome::At(waits), second == Outcome::At(waits), solo.real.stats().num_ooms)
    };
    assert_eq!(served(""), (false, true, 1));
    assert_eq!(served("retry_after_sync:True"), (true, false, 0));
}

// ── (h) ──

/// One run with one failure: the allocator verifies itself at the failure, at every tenth step after it and at the end, and all
/// can be given back when the driver works again. Returns whether the failure came.
fn survives(start: &Start, ops: &[Op], way: &str, rule: FaultRule, back_to_zero: bool) -> Result<bool, String> {
    let mut solo = Solo::new(start, way);
    let before = solo.sim.faults_injected();
    solo.sim.fail(rule.clone());
    let mut struck = false;
    for (i, op) in ops.iter().enumerate() {
        solo.step(op);
        let now = solo.sim.faults_injected() > before;
        if now && (!struck || i % 10 == 0) {
            verified(&solo).map_err(|error| format!("step {i}, {op:?}, after {rule:?}: {error}"))?;
        }
        struck |= now;
    }
    solo.sim.clear_faults();
    let ended = if back_to_zero {
        ends_empty(solo)
    } else {
        // Cleaning up failed as well, so pieces may be lost; what is there must still add up.
        let _ = solo.tear_down();
        verified(&solo)
    };
    ended.map(|()| struck).map_err(|error| format!("after {rule:?}: {error}"))
}

const MEMORY: [CallKind; 3] = [CallKind::Malloc, CallKind::Create, CallKind::Reserve];

/// Runs random scripts once for each call that they make, with that call failing: (all calls, those for memory) ↦ rules. Returns
/// how many failures were injected.
fn sweep(cases: u32, back_to_zero: bool, rules: impl Fn(u64, u64) -> Vec<FaultRule>) -> u64 {
    let injected = std::cell::Cell::new(0);
    hold(cases, |start, ops, way| {
        let mut solo = Solo::new(start, way);
        let memory_calls = |solo: &Solo| MEMORY.iter().map(|&kind| solo.sim.count(kind)).sum::<u64>();
        let before = solo.sim.calls_made();
        ops.iter().for_each(|op| drop(solo.step(op)));
        for rule in rules(solo.sim.calls_made() - before, memory_calls(&solo)) {
            let struck = survives(start, ops, way, rule, back_to_zero)?;
            injected.set(injected.get() + u64::from(struck));
        }
        Ok(())
    });
    println!("{} failures injected", injected.get());
    injected.get()
}

#[test]
fn h_out_of_memory_at_any_call_leaves_the_allocator_consistent() {
    let injected = sweep(150, true, |_, memory| {
        let calls = FaultCalls::OneOf(MEMORY.to_vec());
        let rule = |n| FaultRule {
            calls: calls.clone(),
            when: FaultWhen::Nth(n),
            code: Code::ERROR_OUT_OF_MEMORY,
            sticky: false,
        };
        (1..=memory).map(rule).collect()
    });
    assert!(injected > 300, "only {injected} failures were injected");
}

#[test]
fn h_a_fatal_error_of_any_call_leaves_the_allocator_consistent() {
    let injected = sweep(150, true, |calls, _| {
        let rule =
            |n| FaultRule { calls: FaultCalls::Any, when: FaultWhen::Nth(n), code: Code::ERROR_UNKNOWN, sticky: false };
        (1..=calls).map(rule).collect()
    });
    assert!(injected > 1000, "only {injected} failures were injected");
}

/// A broken device fails every call from then on, also those that clean up.
#[test]
fn h_a_device_that_breaks_leaves_the_allocator_consistent() {
    let injected = sweep(60, false, |calls, _| {
        let rule = |n| FaultRule {
            calls: FaultCalls::Any,
            when: FaultWhen::Nth(n),
            code: Code::ERROR_ILLEGAL_ADDRESS,
            sticky: true,
        };
        (1..=calls).step_by(3).map(rule).collect()
    });
    assert!(injected > 150, "only {injected} failures were injected");
}

#[test]
fn e_peaks_equal_the_highest_value_between_two_steps_of_one_metric() {
    // `Action` events of a script say when reserved memory changes, so its exact peak is the highest running sum.
    hold(100, |start, ops, way| {
        let mut solo = Solo::new(start, way);
        solo.real.record_history(Some(HistoryOptions::default()));
        for op in ops.iter().filter(|op| !matches!(op, Op::ResetPeaks | Op::ResetAccumulated)) {
            solo.step(op);
        }
        let (mut held, mut peak) = (0i64, 0i64);
        for event in solo.real.take_history() {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => held += event.size as i64,
                Action::SegmentFree | Action::SegmentUnmap => held -= event.size as i64,
                _ => {}
            }
            peak = peak.max(held);
        }
        let Stats { metrics, .. } = solo.real.stats();
        let stat = metrics[Metric::ReservedBytes as usize][0];
        check((stat.current, stat.peak as i64) == (held, peak), || {
            format!("reserved {} with peak {}, {held} and {peak} by the events", stat.current, stat.peak)
        })
    });
}
