//! The allocator against the model, step by step, on random scripts over all operations and settings.
//!
//! The scripts are the same in every run. `MILLPOND_CASES=20000 cargo test -p millpond --test model_random` runs as many
//! other ones.

mod model;

use std::cell::RefCell;
use std::collections::BTreeMap;

use model::script::{ops, run, start};
use model::state::REACHABLE;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Runs random scripts of at most `most` steps; how many of them reached what.
fn hold_against_the_model(cases: u32, most: usize) -> BTreeMap<&'static str, u32> {
    let more = std::env::var("MILLPOND_CASES").ok().and_then(|text| text.parse().ok());
    let cases = more.unwrap_or(cases);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = match more {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
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
