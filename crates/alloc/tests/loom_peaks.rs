//! Models of the leases: peaks are exact whenever calls have an order, in every way in which two threads can meet.
//!
//! Each thread says when it begins and when it is done, so that each model knows which orders of the calls were possible and
//! with them which peaks are right. Built by `ci/loom.sh` alone.
#![cfg(loom)]

mod loom_common;

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom_common::{MIB, Model, explore, on, take};
use millpond::size::SizeClass;
use millpond::{Allocator, Metric};

fn take_and_give(a: &Allocator, raw: u64, bytes: u64) {
    a.free(take(a, raw, bytes), &on(raw)).unwrap();
}

fn peak(a: &Allocator) -> u64 {
    a.stats().all(Metric::AllocatedBytes).peak
}

#[test]
fn calls_one_after_the_other_never_add_up() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        let done = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&done);
        let ((), after) = model.race(
            move |a| {
                take_and_give(a, 1, MIB);
                done.store(1, SeqCst);
            },
            move |a| {
                let after = seen.load(SeqCst) == 1;
                take_and_give(a, 2, MIB / 2);
                after
            },
        );
        let right: &[u64] = if after { &[MIB] } else { &[MIB, MIB + MIB / 2] };
        assert!(right.contains(&peak(&model.a)), "a peak of {}, after: {after}", peak(&model.a));
        model.conclude(0);
    });
}

#[test]
fn a_block_taken_while_another_is_held_adds_up() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        let state = Arc::new(AtomicUsize::new(0));
        let watched = Arc::clone(&state);
        let ((), both) = model.race(
            move |a| {
                let addr = take(a, 1, MIB);
                state.store(1, SeqCst);
                state.store(2, SeqCst);
                a.free(addr, &on(1)).unwrap();
            },
            move |a| {
                let before = watched.load(SeqCst);
                let addr = take(a, 2, MIB / 2);
                let both = before == 1 && watched.load(SeqCst) == 1;
                a.free(addr, &on(2)).unwrap();
                both
            },
        );
        let right: &[u64] = if both { &[MIB + MIB / 2] } else { &[MIB, MIB + MIB / 2] };
        assert!(right.contains(&peak(&model.a)), "a peak of {}, both held: {both}", peak(&model.a));
        model.conclude(0);
    });
}

#[test]
fn blocks_that_both_stay_add_up_whoever_came_first() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        model.race(|a| take(a, 1, MIB), |a| take(a, 2, MIB / 2));
        assert_eq!(peak(&model.a), MIB + MIB / 2);
        model.conclude(2);
    });
}

#[test]
fn blocks_of_two_classes_raise_the_peak_of_each() {
    explore(|| {
        let model = Model::warm(&[1, 3]);
        take_and_give(&model.a, 2, 12 * MIB);
        model.a.reset_peak_stats();
        // A lease that is in the way of the others.
        take_and_give(&model.a, 3, MIB);
        model.race(|a| take(a, 1, MIB), |a| take(a, 2, 12 * MIB));
        let stats = model.a.stats();
        let peaks = SizeClass::ALL.map(|class| stats.of(Metric::AllocatedBytes, class).peak);
        assert_eq!((peak(&model.a), peaks), (13 * MIB, [MIB, 12 * MIB]));
        model.conclude(2);
    });
}

#[test]
fn a_reader_never_sees_more_held_than_the_peak() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        model.race(
            |a| take_and_give(a, 1, MIB),
            |a| {
                let held = a.stats().all(Metric::AllocatedBytes);
                assert!(held.current as u64 <= held.peak, "{held:?}");
                a.verify().unwrap();
            },
        );
        model.conclude(0);
    });
}

#[test]
fn a_reset_beside_a_request_leaves_the_peak_at_what_is_held_or_was() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        model.race(|a| take_and_give(a, 1, MIB), |a| a.reset_peak_stats());
        assert!([0, MIB].contains(&peak(&model.a)), "a peak of {}", peak(&model.a));
        model.conclude(0);
    });
}

#[test]
fn three_blocks_that_stay_add_up_whoever_came_first() {
    explore(|| {
        let model = Model::warm(&[1, 2, 3]);
        let third = |a: &Allocator| take(a, 3, MIB / 4);
        model.with(third, |model| {
            model.race(|a| take(a, 1, MIB), |a| take(a, 2, MIB / 2));
        });
        assert_eq!(peak(&model.a), MIB + MIB / 2 + MIB / 4);
        model.conclude(3);
    });
}

#[test]
fn rounds_beside_rounds_stay_within_what_both_hold_at_once() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        model.race(
            |a| (0..2).for_each(|_| take_and_give(a, 1, MIB)),
            |a| (0..2).for_each(|_| take_and_give(a, 2, MIB / 2)),
        );
        assert!([MIB, MIB + MIB / 2].contains(&peak(&model.a)), "a peak of {}", peak(&model.a));
        model.conclude(0);
    });
}
