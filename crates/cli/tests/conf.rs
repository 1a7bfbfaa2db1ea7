//! `millpond conf`.

mod common;

use common::{assert_fails, json, ok, program, run, run_with};

#[test]
fn a_good_string_is_explained() {
    let text = ok(&["conf", "expandable_segments:True,max_split_size_mb:128"]);
    for words in
        ["expandable_segments: True", "max_split_size_mb: 128 MiB", "Default: unlimited.", "The string is good."]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let answer = json(&run(&["conf", "expandable_segments:True", "--json"]));
    assert_eq!(answer["accepted"], true);
    assert_eq!(answer["keys"][0]["key"], "expandable_segments");
    assert_eq!(answer["settings"]["expandable_segments"], "True");
}

#[test]
fn a_bad_string_is_status_2_with_place_and_spelling() {
    let run = run(&["conf", "expandable_segment:True"]);
    assert_eq!(run.status, 2);
    assert!(run.stdout.contains("  expandable_segment:True\n  ^^^^^^^^^^^^^^^^^^\n"), "{}", run.stdout);
    assert!(run.stdout.contains("did you mean 'expandable_segments'?"), "{}", run.stdout);
    assert!(run.stdout.contains("Unrecognized key 'expandable_segment' in CUDA allocator config."), "{}", run.stdout);
    assert!(run.stderr.starts_with("error[MP0013]: "), "{}", run.stderr);
}

#[test]
fn a_bad_string_is_json_too() {
    let run = run(&["conf", "--json", "garbage_collection_threshold:2"]);
    assert_eq!(run.status, 2);
    let answer = json(&run);
    assert_eq!((&answer["accepted"], &answer["settings"]), (&false.into(), &serde_json::Value::Null));
    let fault = &answer["faults"][0];
    assert_eq!((&fault["token"], &fault["key"]), (&"2".into(), &"garbage_collection_threshold".into()));
    assert_eq!(fault["pytorch"]["does"], "raises");
}

#[test]
fn what_pytorch_takes_silently_is_noted() {
    let text = ok(&["conf", "max_split_size_mb:128MB"]);
    assert!(text.contains("note: "), "{text}");
    let text = ok(&["conf", "garbage_collection_threshold:0.8"]);
    assert!(text.contains("does nothing without one"), "{text}");
}

#[test]
fn what_aborts_on_import_is_said() {
    let run = run(&["conf", "expandable_segments"]);
    assert_eq!(run.status, 2);
    assert!(run.stdout.contains("SIGABRT"), "{}", run.stdout);
}

#[test]
fn millponds_keys_belong_to_its_own_dialect() {
    let refused = run(&["conf", "page_reuse:pressure"]);
    assert_eq!(refused.status, 2);
    assert!(refused.stdout.contains("MILLPOND_CONF"), "{}", refused.stdout);
    assert!(ok(&["conf", "--dialect", "millpond", "page_reuse:pressure"]).contains("page_reuse: pressure"));
}

#[test]
fn the_environment_says_who_wins() {
    let none = ok(&["conf", "--from-env"]);
    assert!(none.contains("No variable is set"), "{none}");
    let run = run_with(
        program().env("PYTORCH_CUDA_ALLOC_CONF", "").env("PYTORCH_ALLOC_CONF", "expandable_segments:True").args([
            "conf",
            "--from-env",
            "--json",
        ]),
    );
    assert_eq!(run.status, 0, "{}", run.stderr);
    let answer = json(&run);
    assert_eq!(answer["variables"][0]["variable"], "PYTORCH_CUDA_ALLOC_CONF");
    assert_eq!(answer["ignored"][0]["variable"], "PYTORCH_ALLOC_CONF");
    assert_eq!(answer["settings"]["expandable_segments"], "False", "a variable that is set but empty wins (R10.1)");
}

#[test]
fn a_bad_variable_is_status_2_and_named() {
    let run = run_with(program().env("MILLPOND_CONF", "page_reuse:maybe").args(["conf", "--from-env"]));
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("MILLPOND_CONF: "), "{}", run.stderr);
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"\xff");
    let run = run_with(program().env("PYTORCH_ALLOC_CONF", value).args(["conf", "--from-env"]));
    assert_fails(&run, "MP0013", "PYTORCH_ALLOC_CONF");
}

#[test]
fn a_string_is_needed_or_the_environment_not_both() {
    assert_fails(&run(&["conf"]), "MP0001", "STRING");
    assert_fails(&run(&["conf", "x", "--from-env"]), "MP0001", "--from-env");
}

#[test]
fn hostile_strings_are_only_strings() {
    for string in ["", ",", ":::", "-1", "[", "\u{1b}[2J", "größe:ß", &"x".repeat(100_000), &"[".repeat(10_000)] {
        let run = run(&["conf", string]);
        assert!(run.status == 0 || run.status == 2, "{string}");
        assert!(!run.stdout.contains('\x1b') && !run.stderr.contains('\x1b'), "{string}");
    }
}
