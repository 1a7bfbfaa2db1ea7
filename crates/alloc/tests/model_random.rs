//! The allocator against the model, step by step, on random scripts over all operations and settings.
//!
//! `MILLPOND_CASES=20000 cargo test -p millpond --test model_random` runs more of them.

mod model;

use model::script::{ops, run, start};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// How many scripts each test runs.
pub fn cases(default: u32) -> u32 {
    std::env::var("MILLPOND_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn the_allocator_decides_like_the_model_on_random_scripts() {
    let config = Config { cases: cases(400), failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let outcome =
        runner.run(&(start(), ops(80)), |(start, ops)| run(&start, &ops).map(drop).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
