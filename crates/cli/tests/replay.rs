//! `millpond replay`.

mod common;

use common::{assert_fails, file, json, ok, recording, root, run};

/// A workload of these requests, and the path of its file.
fn workload(lines: &[String]) -> (tempfile::TempDir, String) {
    file("w.req.jsonl", lines.join("\n").as_bytes())
}

fn alloc(id: u64, mib: u64) -> String {
    format!("{{\"op\":\"alloc\",\"id\":{id},\"size\":{},\"stream\":0}}", mib << 20)
}

fn free(id: u64) -> String {
    format!("{{\"op\":\"free\",\"id\":{id}}}")
}

/// The peak of reserved memory in MiB, without and with expandable segments.
fn peaks(path: &str) -> (u64, u64) {
    let peak = |conf| {
        let answer = json(&run(&["replay", path, "--conf", conf, "--json"]));
        answer["peak_reserved"].as_u64().unwrap() >> 20
    };
    (peak("expandable_segments:False"), peak("expandable_segments:True"))
}

#[test]
fn r1_15_whole_segments_are_not_joined() {
    let small = (0..8).map(|id| alloc(id, 16)).chain((0..8).map(free));
    let (_folder, path) = workload(&small.chain((8..12).map(|id| alloc(id, 32))).collect::<Vec<_>>());
    assert_eq!(peaks(&path), (256, 140), "8 × 16 MiB, free all, 4 × 32 MiB");
    let large = (0..4).map(|id| alloc(id, 32)).chain((0..4).map(free));
    let (_folder, path) = workload(&large.chain((4..12).map(|id| alloc(id, 16))).collect::<Vec<_>>());
    assert_eq!(peaks(&path), (128, 140), "the reverse order");
    let holes = (0..4).map(|id| alloc(id, 16)).chain([free(0), free(2), alloc(4, 32)]);
    let (_folder, path) = workload(&holes.collect::<Vec<_>>());
    assert_eq!(peaks(&path), (96, 100), "four of 16 MiB, the first and third freed, 32 MiB: the holes are not joined");
}

/// R4.11: what grows out of the front of a segment keeps its address.
#[test]
fn r4_11_a_larger_request_takes_the_place_of_a_smaller_one() {
    let (_folder, path) = workload(&[alloc(0, 40), free(0), alloc(1, 60)]);
    assert_eq!(peaks(&path), (100, 60));
    let answer = json(&run(&["replay", &path, "--conf", "expandable_segments:True", "--json"]));
    let segments = answer["expandable"].as_array().unwrap();
    assert!(matches!(&**segments, [one] if one["mapped"] == 60_u64 << 20), "{answer}");
}

#[test]
fn the_answer_has_the_shape_of_schema_1() {
    let answer = json(&run(&["replay", &recording("holes.req.jsonl"), "--json"]));
    for key in [
        "events",
        "peak_allocated",
        "peak_active",
        "peak_requested",
        "peak_reserved",
        "final_allocated",
        "final_reserved",
        "ooms",
        "retries",
        "driver_time_us",
        "capacity",
        "others",
    ] {
        assert!(answer[key].is_u64(), "{key}: {answer}");
    }
    for call in [
        "malloc",
        "free",
        "reserve",
        "addrfree",
        "create",
        "release",
        "map",
        "unmap",
        "set_access",
        "event_record",
        "event_query",
        "stream_sync",
    ] {
        assert!(answer["driver_calls"][call].is_u64(), "{call}: {answer}");
    }
    assert_eq!((&answer["events"], &answer["driver_calls"]["malloc"]), (&9.into(), &5.into()));
    assert_eq!(answer["capacity"], 80u64 << 30, "the default for a workload");
    assert_eq!(answer["segments"].as_array().unwrap().len(), 5);
    let answer = json(&run(&["replay", &recording("holes.req.jsonl"), "--json", "--conf", "expandable_segments:True"]));
    let expandable = &answer["expandable"][0];
    assert_eq!(expandable["stream"], 0);
    assert_eq!((&expandable["size_class"], &expandable["mapped"]), (&"large".into(), &(100u64 << 20).into()));
}

#[test]
fn people_see_the_segments_at_the_peak() {
    let text = ok(&["replay", &recording("holes.req.jsonl")]);
    assert!(text.contains("    [. 16M] | [A 16M] | [. 16M] | [A 16M] | [A 32M]\n"), "{text}");
    assert!(text.contains("A live, . free, ~ waits for an event, _ reserved and not mapped"), "{text}");
}

#[test]
fn a_snapshot_is_replayed_from_the_state_its_trace_began_in() {
    let text = ok(&["replay", "examples/train.pickle"]);
    assert!(text.contains("380 of 380 recorded decisions are reproduced"), "{text}");
    let answer = json(&run(&["replay", "examples/oom.pickle", "--json"]));
    assert_eq!((&answer["kind"], &answer["ooms"]), (&"snapshot".into(), &1.into()));
    assert_eq!(answer["trust"]["decisions"], answer["trust"]["reproduced"]);
    assert_eq!(answer["capacity"], 1 << 30, "what was reserved and free at its out-of-memory error");
}

#[test]
fn assertions_are_decided_by_the_exit_status() {
    let path = recording("holes.req.jsonl");
    let yes = run(&["replay", &path, "--assert", "peak_reserved <= 96MiB", "--assert", "driver_calls.malloc == 5"]);
    assert_eq!((yes.status, yes.stderr.as_str()), (0, ""));
    assert_eq!(yes.stdout.matches("\nyes: ").count(), 2, "{}", yes.stdout);
    let no = run(&["replay", &path, "--json", "--assert", "peak_reserved < 96MiB"]);
    assert_eq!(no.status, 1);
    assert_eq!(json(&no)["assertions"][0]["holds"], false);
    assert!(no.stderr.starts_with("error[MP0016]: peak_reserved < 96MiB"), "{}", no.stderr);
    assert_fails(&run(&["replay", &path, "--assert", "peak_reserved"]), "MP0015", "peak_reserved < 70GiB");
    assert_fails(&run(&["replay", &path, "--assert", "peak < 1"]), "MP0015", "peak_reserved");
    assert_fails(&run(&["replay", &path, "--assert", "ooms < many"]), "MP0015", "many");
}

#[test]
fn a_full_device_is_an_answer_and_no_error() {
    let path = recording("holes.req.jsonl");
    let answer = json(&run(&["replay", &path, "--capacity", "56MiB", "--json"]));
    assert_eq!((&answer["ooms"], &answer["first_oom"]["request"]), (&1.into(), &3.into()));
    let others = json(&run(&["replay", &path, "--capacity", "120M", "--others", "64M", "--json"]));
    assert_eq!(others["ooms"], 1);
    let released = json(&run(&["replay", &path, "--capacity", "64M", "--json"]));
    assert_eq!((&released["ooms"], &released["retries"]), (&0.into(), &1.into()), "cached blocks are given back first");
    let text = ok(&["replay", &path, "--capacity", "56MiB"]);
    assert!(text.contains("CUDA out of memory. Tried to allocate 16.00 MiB."), "{text}");
}

#[test]
fn until_ends_after_a_request_or_a_trace_event() {
    let path = recording("holes.req.jsonl");
    assert_eq!(json(&run(&["replay", &path, "--until", "3", "--json"]))["events"], 4);
    let whole = json(&run(&["replay", "examples/train.pickle", "--json"]))["events"].as_u64().unwrap();
    let part = json(&run(&["replay", "examples/train.pickle", "--until", "100", "--json"]))["events"].as_u64().unwrap();
    assert!(0 < part && part <= 101 && part < whole, "{part} of {whole}");
}

#[test]
fn events_complete_when_the_workload_says_so() {
    let lines: Vec<String> = [
        &alloc(0, 16),
        "{\"op\":\"record_stream\",\"id\":0,\"stream\":1}",
        &free(0),
        &alloc(1, 16),
        "{\"op\":\"advance\",\"n\":1}",
        &alloc(2, 16),
    ]
    .map(str::to_owned)
    .to_vec();
    let (_folder, path) = workload(&lines);
    let peak =
        |mode| json(&run(&["replay", &path, "--events", mode, "--json"]))["peak_reserved"].as_u64().unwrap() >> 20;
    assert_eq!((peak("immediate"), peak("manual")), (32, 32));
    let immediate = run(&["replay", &path]);
    assert!(immediate.stderr.contains("--events manual"), "{}", immediate.stderr);
    assert_eq!(run(&["-q", "replay", &path]).stderr, "");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let (_folder, path) = workload(&[alloc(0, 1), "{\"op\":\"fre\",\"id\":0}".into()]);
    assert_fails(&run(&["replay", &path]), "MP0012", "line 2: unknown op 'fre' (did you mean 'free'?)");
    let (_folder, path) = workload(&[alloc(0, 1), free(7)]);
    assert_fails(&run(&["replay", &path]), "MP0019", "request 1: allocation 7 was never made");
    let path = recording("holes.req.jsonl");
    assert_fails(&run(&["replay", &path, "--conf", "page_reuse:mabye"]), "MP0013", "--conf: ");
    assert_fails(&run(&["replay", &path, "--capacity", "80 bananas"]), "MP0001", "80 bananas");
    assert_fails(&run(&["replay", &path, "--capacity", "1M"]), "MP0020", "2MiB");
    assert_fails(&run(&["replay", &path, "--capacity", "1G", "--others", "1G"]), "MP0020", "nothing is left");
    assert_fails(&run(&["replay", "examples/train.pickle", "--device", "7"]), "MP0023", "no device 7");
}

#[test]
fn files_are_told_by_content() {
    let train = std::fs::read(root().join("examples/train.pickle")).unwrap();
    let (_folder, path) = file("no-extension", &train);
    assert!(ok(&["replay", &path]).contains("a snapshot, GPU 0"));
    assert_fails(&run(&["replay", "README.md"]), "MP0011", "neither a snapshot nor a workload");
    assert_fails(&run(&["replay", &recording("holes__off.out.jsonl")]), "MP0011", "recording of an outcome");
    assert_fails(&run(&["replay", "nope"]), "MP0002", "nope");
    assert_fails(&run(&["replay", "crates"]), "MP0002", "folder");
    let (_folder, path) = file("x", b"");
    assert_fails(&run(&["replay", &path]), "MP0003", "empty");
    let (_folder, path) = file("x", b"\x1f\x8b\x08\x00\x00");
    assert_fails(&run(&["replay", &path]), "MP0004", "cut off or damaged");
    let (_folder, path) = file("x", b"{\"segments\": []}");
    assert_fails(&run(&["replay", &path]), "MP0023", "nothing to replay");
}

#[test]
fn truncated_files_are_errors_with_a_code() {
    let train = std::fs::read(root().join("examples/train.pickle")).unwrap();
    for len in [2, train.len() / 10, train.len() / 2, train.len() - 1] {
        let (_folder, path) = file("cut.pickle", &train[..len]);
        assert_fails(&run(&["replay", &path]), "MP0007", "cut.pickle");
    }
    let (_folder, path) = file("cut.jsonl", b"{\"op\":\"alloc\",\"id\":0,\"si");
    assert_fails(&run(&["replay", &path]), "MP0012", "line 1");
}

#[test]
fn scenarios_are_listed_and_the_same_seed_gives_the_same_run() {
    let list = json(&run(&["replay", "--scenario", "list", "--json"]));
    let scenarios = list["scenarios"].as_array().unwrap().clone();
    let text = ok(&["replay", "--scenario", "list"]);
    assert!(scenarios.len() >= 6, "{list}");
    for scenario in &scenarios {
        assert!(text.contains(scenario["name"].as_str().unwrap()), "{text}");
    }
    let name = scenarios[0]["name"].as_str().unwrap();
    let run_of = |seed| run(&["replay", "--scenario", name, "--seed", seed, "--until", "2000", "--json"]).stdout;
    assert_eq!(run_of("7"), run_of("7"));
    assert_ne!(run_of("7"), run_of("8"));
    let answer: serde_json::Value = serde_json::from_str(&run_of("7")).unwrap();
    assert_eq!((&answer["kind"], &answer["seed"], &answer["events"]), (&"scenario".into(), &7.into(), &2001.into()));
    assert_eq!(answer["capacity"], scenarios[0]["capacity"]);
}

#[test]
fn an_unknown_scenario_is_told_with_a_near_name() {
    assert_fails(&run(&["replay", "--scenario", "moe"]), "MP0014", "did you mean 'moe-training'?");
    assert_fails(&run(&["replay", "--scenario", "x"]), "MP0014", "there is no scenario 'x'; there are ");
    assert_fails(&run(&["replay"]), "MP0001", "FILE");
    assert_fails(&run(&["replay", "x", "--scenario", "list"]), "MP0001", "--scenario");
    assert_fails(&run(&["replay", "x", "--seed", "1"]), "MP0001", "--seed");
}

/// A program of the hazard suite.
fn program(name: &str) -> String {
    format!("crates/replay/tests/hazards/{name}.jsonl")
}

#[test]
fn hazards_are_told_with_both_uses_both_blocks_and_what_would_have_prevented_them() {
    let wrong = run(&["replay", &program("freed_without_record_stream"), "--hazards"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.stderr.starts_with("error[MP0028]: 1 pair of uses"), "{}", wrong.stderr);
    let told = wrong.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "1 hazard ",
        "a write by 'overwrite' on the default stream",
        "a read by 'consume' on stream 0x1",
        "call record_stream for stream 0x1",
        "allocation 0: 2MiB at 0x200000000000, of the default stream",
        "allocation 1: 2MiB at 0x200000000000, of the default stream",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let answer = run(&["replay", &program("freed_without_record_stream"), "--hazards", "--json"]);
    let hazards = &json(&answer)["hazards"];
    assert_eq!((answer.status, hazards.as_array().map(Vec::len)), (1, Some(1)));
    let hazard = &hazards[0];
    assert_eq!(hazard["kind"], "handed_out_too_early");
    assert_eq!((&hazard["first"]["stream"], &hazard["second"]["stream"]), (&1.into(), &0.into()));
    assert_eq!((&hazard["former"]["name"], &hazard["block"]["name"]), (&"allocation 0".into(), &"allocation 1".into()));
    assert_eq!(hazard["prevented_by"]["record_stream"]["stream"], 1);
}

#[test]
fn a_program_in_order_has_no_hazards_and_without_the_option_nobody_looks() {
    let right = run(&["replay", &program("freed_with_record_stream"), "--hazards"]);
    assert_eq!((right.status, right.stderr.as_str()), (0, ""));
    assert!(right.stdout.contains("no hazards"), "{}", right.stdout);
    let answer = json(&run(&["replay", &program("freed_with_record_stream"), "--hazards", "--json"]));
    assert_eq!(answer["hazards"], serde_json::json!([]));
    let unasked = run(&["replay", &program("freed_without_record_stream"), "--json"]);
    assert_eq!((unasked.status, &json(&unasked)["hazards"]), (0, &serde_json::Value::Null));
}

#[test]
fn hazards_of_what_uses_no_memory_are_a_note() {
    let idle = run(&["replay", &recording("holes.req.jsonl"), "--hazards"]);
    assert_eq!(idle.status, 0);
    assert!(idle.stderr.contains("there are none"), "{}", idle.stderr);
    let snapshot = run(&["replay", "examples/oom.pickle", "--hazards"]);
    assert!(snapshot.stderr.contains("--hazards is about workloads"), "{}", snapshot.stderr);
}
