//! The six checks of `millpond doctor`: what each says of a program that makes it worth asking.

mod common;

use common::{file, json, ok, run};

/// The report on a program of these requests without its line breaks, and what `--json` says of its device.
fn report(requests: &[&str], export: &[&str], doctor: &[&str]) -> (String, serde_json::Value) {
    let (folder, path) = file("case.req.jsonl", requests.join("\n").as_bytes());
    let pickle = folder.path().join("case.pickle").display().to_string();
    ok(&[&["export", &path, "--to", "pickle", "-o", &pickle][..], export].concat());
    let text = ok(&[&["doctor", &pickle][..], doctor].concat());
    let device = json(&run(&[&["doctor", &pickle, "--json"][..], doctor].concat()))["devices"][0].clone();
    (text.split_whitespace().collect::<Vec<_>>().join(" "), device)
}

const ALLOC: &str = r#"{"op":"alloc","id":0,"size":33554432,"stream":0}"#;

#[test]
fn a_capture_that_had_no_warm_up_is_named() {
    let capture = [
        ALLOC,
        r#"{"op":"capture_begin","graph":1,"stream":1}"#,
        r#"{"op":"alloc","id":1,"size":16777216,"stream":1}"#,
        r#"{"op":"free","id":1}"#,
        r#"{"op":"capture_end","graph":1}"#,
    ];
    let (text, device) = report(&capture, &[], &[]);
    assert_eq!(device["checks"]["grown"][0]["in_capture"], true, "{device}");
    assert_eq!(device["checks"]["grown"][0]["times"], 1, "{device}");
    assert!(text.contains("inside of a capture: there was no warm-up into it"), "{text}");
    let (text, device) = report(&[ALLOC], &[], &[]);
    assert_eq!(device["checks"]["grown"].as_array().map(Vec::len), Some(0));
    assert!(!text.contains("warm-up"), "{text}");
}

#[test]
fn the_two_ledgers_and_what_lies_outside_add_up_to_the_device() {
    let (text, device) = report(&[ALLOC], &["--capacity", "8GiB"], &["--capacity", "8GiB"]);
    let account = &device["account"];
    let bytes = |name: &str| account[name].as_u64().unwrap_or(0);
    assert_eq!(bytes("allocated"), 32 << 20, "{account}");
    assert!(text.contains("The program's ledger has 32MiB in live blocks; the driver's has 32MiB"), "{text}");
    assert!(text.contains("managed memory No sign of it: no more is reserved than the device has."), "{text}");
}

#[test]
fn a_device_that_holds_more_than_it_has_shows_managed_memory() {
    let (text, device) = report(&[ALLOC], &[], &["--capacity", "20MiB"]);
    assert_eq!(device["checks"]["beyond_device"], 12 << 20, "{device}");
    assert!(text.contains("managed memory"), "{text}");
    assert!(!text.contains("No sign of it"), "{text}");
}
