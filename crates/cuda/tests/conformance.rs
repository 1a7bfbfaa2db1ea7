//! The real driver's code path passes the suite that the simulated device passes, over the simulated library.

mod common;

use common::{over_the_shim, with_subject};
use millpond_driver::conformance::suite;

fn passes(name: &str, settings: &[(&str, &str)]) {
    if let Some(cuda) = over_the_shim(name, &[settings, &[("BACKING", "1"), ("CAPACITY", "4G")]].concat()) {
        with_subject(&cuda, |subject| assert!(suite(subject) > 30));
    }
}

#[test]
fn with_events_that_complete_at_once() {
    passes("with_events_that_complete_at_once", &[]);
}

#[test]
fn with_events_that_complete_by_the_clock() {
    passes("with_events_that_complete_by_the_clock", &[("EVENTS", "timed")]);
}

#[test]
fn with_events_that_complete_when_somebody_waits() {
    passes("with_events_that_complete_when_somebody_waits", &[("EVENTS", "manual")]);
}

#[test]
fn with_two_devices() {
    passes("with_two_devices", &[("DEVICES", "2")]);
}
