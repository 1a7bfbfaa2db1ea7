//! The allocator against the model, step by step, on random scripts over all operations and settings.
//!
//! The scripts are the same in every run. `MILLPOND_CASES=20000 cargo test -p millpond --test model_random` runs as many
//! other ones.

mod model;

use std::cell::RefCell;
use std::collections::BTreeMap;

use model::script::{Op, Start, ops, run, run_until_exhausted, start};
use model::settings::Key;
use model::state::REACHABLE;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

fn runner(cases: u32) -> TestRunner {
    let more = std::env::var("MILLPOND_CASES").ok().and_then(|text| text.parse().ok());
    let cases = more.unwrap_or(cases);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    match more {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

/// Runs random scripts of at most `most` steps; how many of them reached what.
fn hold_against_the_model(cases: u32, most: usize) -> BTreeMap<&'static str, u32> {
    let mut runner = runner(cases);
    let reached = RefCell::new(BTreeMap::new());
    let outcome = runner.run(&(start(), ops(most)), |(start, ops)| {
        let met = run(&start, &ops).map_err(TestCaseError::fail)?;
        met.into_iter().for_each(|what| *reached.borrow_mut().entry(what).or_insert(0) += 1);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    reached.into_inner()
}

#[test]
fn the_allocator_decides_like_the_model_on_random_scripts() {
    let reached = hold_against_the_model(2000, 80);
    println!("{reached:#?}");
    let never: Vec<_> = REACHABLE.iter().filter(|what| !reached.contains_key(*what)).collect();
    assert!(never.is_empty(), "no script reached {never:?}");
}

#[test]
fn the_allocator_decides_like_the_model_on_long_scripts() {
    hold_against_the_model(100, 400);
}

/// `page_reuse:pressure` decides as PyTorch does until there is no memory; garbage collection, which learns of pages with it, is
/// left out.
#[test]
fn pages_stay_where_the_model_has_them_until_memory_is_short() {
    let without =
        |keys: &[Key]| -> Vec<Key> { keys.iter().filter(|key| !matches!(key, Key::GcThreshold(_))).cloned().collect() };
    let exhausted = std::cell::Cell::new(0);
    let outcome = runner(500).run(&(start(), ops(80)), |(start, ops)| {
        let start = Start { keys: without(&start.keys), ..start };
        let ops: Vec<Op> = ops
            .into_iter()
            .map(|op| if let Op::Configure(keys) = op { Op::Configure(without(&keys)) } else { op })
            .collect();
        let came = run_until_exhausted(&start, &ops, "page_reuse:pressure").map_err(TestCaseError::fail)?;
        exhausted.set(exhausted.get() + u32::from(came));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(exhausted.get() > 50, "only {} scripts ran out of memory", exhausted.get());
}
