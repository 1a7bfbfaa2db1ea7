//! `millpond stats`, and files that are not what they should be.

mod common;

use common::{assert_fails, file, json, ok, root, run};

#[test]
fn the_answer_has_the_shape_of_schema_1() {
    let answer = json(&run(&["stats", "examples/oom.pickle", "--json"]));
    let device = &answer["devices"][0];
    for key in [
        "device",
        "segments",
        "blocks",
        "reserved",
        "allocated",
        "active",
        "requested",
        "free_in_used_segments",
        "releasable",
        "largest_free_large",
        "largest_free_small",
        "trace_events",
    ] {
        assert!(device[key].is_u64(), "{key}: {device}");
    }
    let sum: u64 =
        ["active", "free_in_used_segments", "releasable"].iter().filter_map(|key| device[key].as_u64()).sum();
    assert_eq!(device["reserved"], sum, "every reserved byte is in use, free beside something in use, or releasable");
    assert!(answer["settings"].is_object());
    assert_eq!(answer["problems"], serde_json::json!([]));
}

#[test]
fn people_get_a_table() {
    let text = ok(&["stats", "examples/train.pickle"]);
    for words in ["GPU 0", "reserved", "releasable", "settings", "Everything adds up."] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_snapshot_in_json_is_a_snapshot() {
    let (_folder, path) = file("s.json", br#"{"segments": [], "device_traces": []}"#);
    assert!(ok(&["stats", &path]).contains("no segments and no trace"));
}

#[test]
fn what_does_not_add_up_is_told_and_is_no_error() {
    let snapshot = br#"[{"device":0,"address":2097152,"total_size":2097152,"allocated_size":7,"active_size":0,
        "requested_size":0,"stream":0,"segment_type":"small","blocks":[{"address":2097152,"size":1024,
        "requested_size":1,"state":"inactive"}]}]"#;
    let (_folder, path) = file("s.json", snapshot);
    assert!(ok(&["stats", &path]).contains("what does not add up"));
    let answer = json(&run(&["stats", "--json", &path]));
    assert!(answer["problems"].as_array().unwrap().len() >= 2, "{answer}");
}

#[test]
fn what_is_no_file_is_told_in_a_sentence() {
    assert_fails(&run(&["stats", "nope.pickle"]), "MP0002", "nope.pickle: there is no such file");
    assert_fails(&run(&["stats", "crates"]), "MP0002", "crates: this is a folder");
    if cfg!(unix) {
        assert_fails(&run(&["stats", "/dev/null"]), "MP0003", "empty");
    }
}

#[test]
fn truncated_and_flipped_files_are_errors_with_a_code() {
    let whole = std::fs::read(root().join("examples/train.pickle")).unwrap();
    for len in [1, whole.len() / 10, whole.len() / 2, whole.len() - 1] {
        let (_folder, path) = file("cut.pickle", &whole[..len]);
        let run = run(&["stats", "--json", &path]);
        assert_fails(&run, "MP0007", "cut.pickle: ");
    }
    // A flipped byte may hit a figure, which then does not add up, or the format; neither may end in anything else.
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let (_folder, path) = file("flipped.pickle", &bytes);
        let run = run(&["stats", "--json", &path]);
        assert!(run.status == 0 || (run.status == 2 && run.stderr.starts_with("error[MP00")), "{at}: {}", run.stderr);
    }
}

#[test]
fn a_pickle_that_calls_code_is_refused() {
    // cos\nsystem\n(S'true'\ntR. is the oldest trick there is.
    let (_folder, path) = file("evil.pickle", b"cos\nsystem\n(S'true'\ntR.");
    assert_fails(&run(&["stats", &path]), "MP0006", "was not done");
    let (_folder, path) = file("evil.pickle", b"\x80\x04\x8c\x02os\x8c\x06system\x93.");
    assert_fails(&run(&["stats", &path]), "MP0006", "byte ");
}

#[test]
fn other_files_are_told_apart() {
    let (_folder, path) = file("x", br#"{"answer": 42}"#);
    assert_fails(&run(&["stats", &path]), "MP0010", "segments");
    let (_folder, path) = file("x", b"{\"segments\": [");
    assert_fails(&run(&["stats", &path]), "MP0009", "JSON");
    let (_folder, path) = file("x.gz", b"\x1f\x8b\x08\x00");
    assert_fails(&run(&["stats", &path]), "MP0004", "gzip");
    let (_folder, path) = file("x.zst", b"\x28\xb5\x2f\xfd\x00");
    assert_fails(&run(&["stats", &path]), "MP0004", "zstd");
    let (_folder, path) = file("x", b"just some words\n");
    assert_fails(&run(&["stats", &path]), "MP0007", "byte 0");
}
