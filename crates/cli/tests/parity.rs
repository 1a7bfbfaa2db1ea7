//! `millpond parity`.

mod common;

use std::path::Path;

use common::{assert_fails, json, ok, recording, run};

#[test]
fn recordings_of_the_real_allocator_are_identical() {
    let text = ok(&["parity", &recording("")]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7, "a line a file and one for all: {text}");
    assert!(lines[..6].iter().all(|line| line.starts_with("identical ")), "{text}");
    assert!(lines[6].starts_with("identical 6 of 6 files, ") && lines[6].ends_with(" decisions"), "{text}");
    let answer = json(&run(&["parity", "--json", &recording("holes__off.out.jsonl")]));
    assert_eq!((&answer["files"], &answer["identical"]), (&1.into(), &1.into()));
    assert!(answer["decisions"].as_u64().unwrap() > 10);
    assert_eq!(answer["different"], serde_json::json!([]));
}

#[test]
fn quiet_says_the_sum_alone_when_all_is_well() {
    let text = ok(&["-q", "parity", &recording("")]);
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// A copy of a recording in which something else was decided.
fn forged(folder: &Path) {
    let requests = std::fs::read_to_string(recording("holes.req.jsonl")).unwrap();
    let outcome = std::fs::read_to_string(recording("holes__off.out.jsonl")).unwrap();
    let forged = outcome.replacen("\"id\":1,\"va\":16777216", "\"id\":1,\"va\":16777728", 1);
    assert_ne!(forged, outcome);
    std::fs::write(folder.join("holes.req.jsonl"), requests).unwrap();
    std::fs::write(folder.join("holes__off.out.jsonl"), forged).unwrap();
}

#[test]
fn a_difference_is_status_1_with_both_sides_and_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    forged(folder.path());
    let path = folder.path().display().to_string();
    let text = run(&["parity", &path]);
    assert_eq!(text.status, 1, "{}", text.stderr);
    assert!(text.stdout.starts_with("different "), "{}", text.stdout);
    assert!(text.stdout.contains("request 1: ") && text.stdout.contains(", decided by R"), "{}", text.stdout);
    assert!(text.stdout.contains("\n  recorded  ") && text.stdout.contains("\n  here      "), "{}", text.stdout);
    assert!(text.stdout.lines().last().unwrap().starts_with("identical 0 of 1 files, "), "{}", text.stdout);
    assert_eq!(text.stderr, "");

    let run = run(&["parity", "--json", &path]);
    assert_eq!(run.status, 1);
    let different = &json(&run)["different"][0];
    for key in ["file", "what", "expected", "got"] {
        assert!(different[key].is_string(), "{key}: {different}");
    }
    assert_eq!(different["request"], 1);
}

#[test]
fn what_cannot_be_compared_is_status_2() {
    assert_fails(&run(&["parity", "/nonexistent"]), "MP0002", "/nonexistent");
    assert_fails(&run(&["parity", "crates/cli/src"]), "MP0017", "no outcome files");
    assert_fails(&run(&["parity", "README.md"]), "MP0017", "README.md");
    assert_fails(&run(&["parity"]), "MP0001", "<PATHS>");
    let folder = tempfile::tempdir().unwrap();
    let lonely = folder.path().join("x__off.out.jsonl");
    std::fs::write(&lonely, "").unwrap();
    assert_fails(&run(&["parity", &lonely.display().to_string()]), "MP0017", "x.req.jsonl");
}

#[test]
fn a_damaged_recording_is_status_2_and_counts_as_different() {
    for bytes in [&b""[..], b"{", b"{\"config\": 1}\n", b"\x1f\x8b\x08\x00", b"null\n{}\n"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.req.jsonl"), "{\"op\":\"sync\"}\n").unwrap();
        std::fs::write(folder.path().join("x__off.out.jsonl"), bytes).unwrap();
        let run = run(&["parity", "--json", &folder.path().display().to_string()]);
        assert_eq!(run.status, 2, "{}", run.stderr);
        assert_eq!(json(&run)["identical"], 0);
        assert!(run.stderr.starts_with("error[MP0018]: "), "{}", run.stderr);
    }
}
