//! `millpond diff`: what grew between two states, by stack.

mod common;

use common::{assert_fails, file, json, ok, run};
use serde_json::Value;

fn sum(places: &Value, figure: impl Fn(&Value) -> i64) -> i64 {
    places.as_array().unwrap().iter().map(figure).sum()
}

#[test]
fn every_allocated_byte_of_both_states_has_a_place() {
    for [a, b] in [["train", "oom"], ["oom", "train"], ["oom", "oom"]] {
        let [a, b] = [a, b].map(|name| format!("examples/{name}.pickle"));
        let diff = json(&run(&["diff", &a, &b, "--json"]));
        let device = &diff["devices"][0];
        for (state, path) in [("before", &a), ("after", &b)] {
            let held = sum(&device["places"], |place| place[state]["bytes"].as_i64().unwrap());
            let allocated = json(&run(&["stats", path, "--json"]))["devices"][0]["allocated"].as_i64().unwrap();
            assert_eq!((held, &device[state]["allocated"]), (allocated, &allocated.into()), "{path}");
            let totals = device[state].as_object().unwrap();
            let parts: u64 = ["allocated", "pending", "free"].iter().filter_map(|part| totals[*part].as_u64()).sum();
            assert_eq!(totals["reserved"], parts, "{path}");
        }
        let grown = sum(&device["places"], |place| place["grown"].as_i64().unwrap());
        let allocated = |state: &str| device[state]["allocated"].as_i64().unwrap();
        assert_eq!(grown, allocated("after") - allocated("before"));
    }
}

#[test]
fn a_state_has_not_grown_against_itself() {
    let text = ok(&["diff", "examples/oom.pickle", "examples/oom.pickle"]);
    assert!(text.contains("No place holds more or less than before."), "{text}");
    let places =
        json(&run(&["diff", "examples/oom.pickle", "examples/oom.pickle", "--json"]))["devices"][0]["places"].clone();
    assert_eq!(sum(&places, |place| place["grown"].as_i64().unwrap().abs()), 0);
}

#[test]
fn people_get_the_places_with_their_stacks() {
    let text = ok(&["diff", "examples/train.pickle", "examples/oom.pickle"]);
    for words in ["GPU 0", "before", "after", "reserved", "what grew", ".py:"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let one = ok(&["diff", "examples/train.pickle", "examples/oom.pickle", "--top", "1"]);
    assert!(one.lines().count() < text.lines().count() && one.contains("more"), "{one}");
}

#[test]
fn two_replays_are_told_apart_by_sizes() {
    let alloc = |id: u64, mib: u64| format!("{{\"op\":\"alloc\",\"id\":{id},\"size\":{},\"stream\":0}}\n", mib << 20);
    let (_a, few) = file("few.jsonl", alloc(0, 30).as_bytes());
    let (_b, many) = file("many.jsonl", [alloc(0, 30), alloc(1, 30), alloc(2, 4)].concat().as_bytes());
    let diff = json(&run(&["diff", &few, &many, "--json"]));
    let places = &diff["devices"][0]["places"];
    let short = |place: &Value| (place["requested"].as_u64().unwrap() >> 20, place["grown"].as_i64().unwrap() >> 20);
    assert_eq!(places.as_array().unwrap().iter().map(short).collect::<Vec<_>>(), [(30, 30), (4, 4)]);
    assert!(ok(&["diff", &few, &many]).contains("no stack was recorded; requests of 31457280 bytes"));
}

#[test]
fn one_file_under_two_settings_differs_in_what_is_reserved() {
    let alloc = |id: u64, mib: u64| format!("{{\"op\":\"alloc\",\"id\":{id},\"size\":{},\"stream\":0}}\n", mib << 20);
    let script: String = (0..8).map(|id| alloc(id, 16)).collect();
    let (_folder, path) = file("script.jsonl", script.as_bytes());
    let diff = json(&run(&["diff", &path, &path, "--conf-after", "expandable_segments:True", "--json"]));
    let device = &diff["devices"][0];
    assert_eq!([&device["before"]["reserved"], &device["after"]["reserved"]], [128 << 20, 140 << 20]);
    // A snapshot is replayed too, and keeps its stacks.
    let arguments = ["diff", "examples/oom.pickle", "examples/oom.pickle", "--conf-after", "", "--json"];
    let device = &json(&run(&arguments))["devices"][0];
    assert!(device["places"][0]["stack"][0].as_str().unwrap().contains(".py:"), "{device}");
}

#[test]
fn what_cannot_be_compared_is_told() {
    assert_fails(&run(&["diff", "examples/oom.pickle"]), "MP0001", "AFTER");
    assert_fails(&run(&["diff", "examples/oom.pickle", "nope.pickle"]), "MP0002", "nope.pickle");
    let wrong = ["diff", "examples/oom.pickle", "examples/oom.pickle", "--conf-before", "no_such_key:1"];
    assert_fails(&run(&wrong), "MP0013", "no_such_key");
}
