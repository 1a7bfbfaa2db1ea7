//! The generators of LLM programs.

use millpond::Metric;
use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::{Machine, Op, Outcome, Runner, SCENARIOS, Scenario, Setup};
use millpond_sim::EventMode;

/// Out-of-memory errors, and bytes allocated in the end.
fn run(scenario: &Scenario, seed: u64, setup: &Setup) -> (u64, i64) {
    let machine = Machine::new(setup).unwrap();
    let mut runner = Runner::new(&machine);
    let workload = scenario.workload(seed);
    runner
        .run(&workload.ops, |request, op, outcome| match outcome {
            Outcome::Failed(failure) if !failure.is_out_of_memory() => {
                panic!("{}: request {request}, {op}: {failure}", scenario.name)
            }
            _ => {}
        })
        .unwrap();
    // What still waits for events is not of interest here.
    let stats = machine.allocator().stats();
    (stats.num_ooms, stats.all(Metric::AllocatedBytes).current)
}

#[test]
fn a_seed_decides_every_request() {
    for scenario in &SCENARIOS {
        let workload = scenario.workload(7);
        assert!(workload.ops.len() > 10_000, "{}", scenario.name);
        assert_eq!(workload, scenario.workload(7), "{}", scenario.name);
        assert_ne!(workload, scenario.workload(8), "{}", scenario.name);
    }
}

#[test]
fn scenarios_fit_their_devices_with_expandable_segments_and_not_by_default() {
    for scenario in &SCENARIOS {
        let mut setup = scenario.setup();
        assert!(run(scenario, 0, &setup).0 > 0, "{} fits by default", scenario.name);
        setup.settings = Settings::written("expandable_segments:True").unwrap().0;
        assert_eq!(run(scenario, 0, &setup), (0, 0), "{}", scenario.name);
    }
}

#[test]
fn scenarios_free_what_they_allocate_and_do_not_fail_otherwise() {
    for scenario in &SCENARIOS {
        let setup = Setup { capacity: Bytes(400 << 30), ..scenario.setup() };
        assert_eq!(run(scenario, 3, &setup), (0, 0), "{}", scenario.name);
    }
}

#[test]
fn scenarios_are_found_by_name_and_an_unknown_name_lists_them() {
    assert_eq!(Scenario::named("fsdp-prefetch").unwrap().events, EventMode::Manual);
    let error = Scenario::named("fsdp").unwrap_err().to_string();
    assert!(SCENARIOS.iter().all(|scenario| error.contains(scenario.name)), "{error}");
    assert!(Scenario::named("shared-card").unwrap().others() > Bytes(0));
}

#[test]
fn each_scenario_uses_what_it_is_about() {
    let has = |name: &str, wanted: fn(&Op) -> bool| Scenario::named(name).unwrap().workload(0).ops.iter().any(wanted);
    assert!(has("fsdp-prefetch", |op| matches!(op, Op::RecordStream { .. })));
    assert!(has("fsdp-prefetch", |op| matches!(op, Op::Advance { .. })));
    assert!(has("graph-capture", |op| matches!(op, Op::CaptureBegin { share: 0, .. })));
    assert!(has("graph-capture", |op| matches!(op, Op::GraphReset { .. })));
    assert!(has("shared-card", |op| matches!(op, Op::EmptyCache)));
}
