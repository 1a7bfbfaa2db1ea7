//! `millpond sweep`: the same requests under many settings.

mod common;

use common::{assert_fails, file, json, ok, run};

#[test]
fn c03_the_order_of_sizes_decides_and_the_smallest_device_tells() {
    let alloc = |id: u64, mib: u64| format!("{{\"op\":\"alloc\",\"id\":{id},\"size\":{},\"stream\":0}}\n", mib << 20);
    let mut script: String = (0..8).map(|id| alloc(id, 16)).collect();
    script.extend((0..8).map(|id| format!("{{\"op\":\"free\",\"id\":{id}}}\n")));
    script.extend((8..12).map(|id| alloc(id, 32)));
    let (_folder, path) = file("small_then_large.req.jsonl", script.as_bytes());
    let answer = run(&["sweep", &path, "--conf", "", "--conf", "expandable_segments:True", "--json", "--min-capacity"]);
    let value = json(&answer);
    assert_eq!(answer.status, 0);
    let settings = value["settings"].as_array().unwrap();
    // The default never joins its segments; expandable ones take whole pages (R4.1).
    assert_eq!(settings[0]["peak_reserved"], 256 << 20);
    assert_eq!(settings[1]["peak_reserved"], 140 << 20);
    // On a small device the default clears its cache: both need the live bytes, in steps of 64 MiB.
    assert_eq!(settings[0]["min_capacity"], 128 << 20);
    assert_eq!(value["bounds"]["live"], 128 << 20);
    assert_eq!(value["bounds"]["packing"], 128 << 20);
    for setting in settings {
        assert!(setting["min_capacity"].as_u64() >= value["bounds"]["live"].as_u64(), "{setting}");
    }
}

#[test]
fn the_smallest_device_survives_a_replay_and_one_step_less_does_not() {
    let answer = run(&["sweep", "examples/oom.pickle", "--conf", "", "--min-capacity", "--step", "2MiB", "--json"]);
    let smallest = json(&answer)["settings"][0]["min_capacity"].as_u64().unwrap();
    let replay = |capacity: u64| {
        let capacity = capacity.to_string();
        run(&["replay", "examples/oom.pickle", "--capacity", &capacity, "--assert", "ooms == 0"]).status
    };
    assert_eq!(replay(smallest), 0);
    assert_ne!(replay(smallest - (2 << 20)), 0);
}

#[test]
fn the_grid_is_laid_over_what_was_recorded() {
    let value = json(&run(&["sweep", "examples/oom.pickle", "--json"]));
    let settings = value["settings"].as_array().unwrap();
    assert!(settings.len() >= 20, "{}", settings.len());
    assert_eq!(settings[0]["conf"], "");
    assert!(settings.iter().any(|setting| setting["conf"] == "expandable_segments:True"));
    assert!(settings.iter().all(|setting| setting["min_capacity"].is_null()));
}

#[test]
fn no_is_an_answer_and_nonsense_is_not() {
    let requests = b"{\"op\":\"alloc\",\"id\":0,\"size\":209715200}\n";
    let (_folder, path) = file("big.jsonl", requests);
    let too_small = run(&["sweep", &path, "--capacity", "100MiB"]);
    assert_eq!(too_small.status, 1, "{}", too_small.stderr);
    assert!(too_small.stdout.contains("no setting fits"), "{}", too_small.stdout);
    assert!(ok(&["sweep", &path, "--conf", ""]).contains("1 of 1 fit"));
    assert_fails(&run(&["sweep", &path, "--conf", "no_such_key:1"]), "MP0013", "no_such_key");
    assert_fails(&run(&["sweep", &path, "--min-capacity", "--step", "0"]), "MP0020", "--step");
    assert_fails(&run(&["sweep", &path, "--step", "64MiB"]), "MP0001", "--min-capacity");
}
