//! Models of the order of locks: two threads go every way in which they can meet on ladder, pools, index and journal. Loom ends
//! a model that blocks for good. Every model ends with an allocator that verifies itself. Built by `ci/loom.sh` alone.
#![cfg(loom)]

mod loom_common;

use loom_common::{MIB, Model, explore, on, stream, take};
use millpond::config::Dialect;
use millpond::{Action, Allocator, Filter, HistoryOptions, Level};

#[test]
fn a_hit_beside_one_that_holds_the_device() {
    explore(|| {
        let model = Model::warm(&[1]);
        model.race(
            |a| {
                let addr = take(a, 1, MIB);
                a.free(addr, &on(1)).unwrap();
            },
            |a| a.empty_cache(&on(2)).unwrap(),
        );
        model.conclude(0);
    });
}

#[test]
fn a_miss_beside_a_hit_on_another_stream() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        model.race(|a| take(a, 1, 40 * MIB), |a| take(a, 2, MIB));
        model.conclude(2);
    });
}

#[test]
fn two_misses_that_make_pools() {
    explore(|| {
        let model = Model::warm(&[]);
        model.race(|a| take(a, 1, MIB), |a| take(a, 1, MIB));
        model.conclude(2);
    });
}

#[test]
fn a_free_that_waits_beside_a_hit_in_its_pool() {
    explore(|| {
        let model = Model::warm(&[1]);
        let used = take(&model.a, 1, MIB);
        model.a.record_stream(used, stream(2), &on(1)).unwrap();
        model.race(move |a| a.free(used, &on(1)).unwrap(), |a| take(a, 1, MIB));
        model.conclude(1);
    });
}

#[test]
fn nobody_sees_a_free_that_waits_between_its_two_steps() {
    explore(|| {
        let model = Model::warm(&[1]);
        let used = take(&model.a, 1, MIB);
        model.a.record_stream(used, stream(2), &on(1)).unwrap();
        model.race(move |a| a.free(used, &on(1)).unwrap(), |a| a.verify().unwrap());
        model.conclude(0);
    });
}

#[test]
fn a_watched_hit_beside_a_reader_of_the_history() {
    explore(|| {
        let model = Model::warm(&[1]);
        model.a.record_history(Some(HistoryOptions::default()));
        model.race(
            |a| take(a, 1, MIB),
            |a| {
                assert!(a.take_history().len() <= 1);
                a.record_history(None);
            },
        );
        model.conclude(1);
    });
}

#[test]
fn recorded_hits_on_two_streams_beside_each_other() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        model.a.record_history(Some(HistoryOptions { level: Level::Never, ..HistoryOptions::default() }));
        let round = |raw| move |a: &Allocator| a.free(take(a, raw, MIB), &on(raw)).unwrap();
        model.race(round(1), round(2));
        let actions = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted];
        let history = model.a.take_history();
        for raw in [1, 2] {
            let of_stream = history.iter().filter(|event| event.stream == stream(raw));
            assert!(of_stream.map(|event| event.action).eq(actions), "{history:?}");
        }
        model.conclude(0);
    });
}

#[test]
fn a_recorded_hit_beside_one_that_turns_the_history_off_and_on() {
    explore(|| {
        let model = Model::warm(&[1]);
        let plain = HistoryOptions { level: Level::Never, ..HistoryOptions::default() };
        model.a.record_history(Some(plain.clone()));
        model.race(
            |a| take(a, 1, MIB),
            move |a| {
                a.record_history(None);
                a.record_history(Some(plain));
                assert!(a.take_history().len() <= 1);
            },
        );
        model.conclude(1);
    });
}

#[test]
fn two_frees_of_one_block_give_it_back_once() {
    explore(|| {
        let model = Model::warm(&[1]);
        let addr = take(&model.a, 1, MIB);
        let again = move |a: &Allocator| a.free(addr, &on(1)).is_ok();
        let (first, second) = model.race(again, again);
        assert!(first != second, "freed {} times", u8::from(first) + u8::from(second));
        model.conclude(0);
    });
}

#[test]
fn settings_change_beside_a_hit() {
    explore(|| {
        let model = Model::warm(&[1]);
        let change = |a: &Allocator| {
            a.world().configure("roundup_power2_divisions:4", Dialect::Torch).unwrap();
        };
        model.race(|a| take(a, 1, MIB), change);
        model.conclude(1);
    });
}

#[test]
fn a_hit_a_miss_and_one_that_empties_the_cache() {
    explore(|| {
        let model = Model::warm(&[1, 2]);
        let empties = |a: &Allocator| a.empty_cache(&on(3)).unwrap();
        model.with(empties, |model| {
            model.race(|a| take(a, 1, MIB), |a| take(a, 2, 40 * MIB));
        });
        model.conclude(2);
    });
}

#[test]
fn scopes_open_and_close_beside_requests() {
    explore(|| {
        let model = Model::warm(&[1]);
        let pool = model.a.world().user_pool_id();
        model.race(
            |a| {
                let addr = take(a, 1, MIB);
                a.free(addr, &on(1)).unwrap();
            },
            move |a| {
                a.begin_allocate_to_pool(pool, Filter::Any).unwrap();
                a.end_allocate_to_pool(pool).unwrap();
                a.release_pool(pool).unwrap();
            },
        );
        model.conclude(0);
    });
}
