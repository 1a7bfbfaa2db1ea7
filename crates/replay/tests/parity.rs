//! Every decision of PyTorch's own allocator, on every recording.

mod common;

use std::path::{Path, PathBuf};

use millpond_replay::parity::{Case, FindError, Summary, compare_all, compare_case, find};

fn identical(folder: &str, files: u64) {
    let Some(folder) = common::shared(folder) else { return };
    let cases = find(&[folder]).unwrap();
    let reports = compare_all(&cases);
    let summary = Summary::new(&reports);
    assert!(summary.different.is_empty(), "{:#?}", summary.different);
    assert_eq!((summary.files, summary.identical), (files, files));
    assert!(summary.decisions > 10_000 && reports.iter().all(|report| report.decisions > 0));
}

#[test]
fn golden_recordings_are_identical() {
    identical("golden", 71);
}

#[test]
fn random_scripts_are_identical() {
    identical("golden/fuzz", 50);
}

#[test]
fn recordings_of_cases_are_identical() {
    identical("cases/recordings", 97);
}

#[test]
fn workloads_are_identical() {
    identical("workloads", 44);
}

#[test]
fn only_recordings_marked_in_the_index_have_unordered_frees() {
    let Some(folder) = common::shared("golden") else { return };
    let cases = find(&[folder]).unwrap();
    let unordered: Vec<_> = cases.iter().filter(|case| case.unordered_frees).collect();
    assert_eq!(unordered.len(), 3);
    assert!(unordered.iter().all(|case| case.requests.ends_with("graph_two_streams.req.jsonl.gz")));
}

/// A recording in a folder of its own, with one text replaced by another in its outcomes.
fn changed(from: &str, to: &str) -> Option<(tempfile::TempDir, Case)> {
    let golden = common::shared("golden")?;
    let folder = tempfile::tempdir().unwrap();
    let case = Case {
        outcome: folder.path().join("near_oom__off.out.jsonl"),
        requests: golden.join("near_oom.req.jsonl.gz"),
        unordered_frees: false,
    };
    let packed = std::fs::File::open(golden.join("near_oom__off.out.jsonl.gz")).unwrap();
    let text = std::io::read_to_string(flate2::read::MultiGzDecoder::new(packed)).unwrap();
    assert!(text.contains(from), "{from} is not in the recording");
    std::fs::write(&case.outcome, text.replacen(from, to, 1)).unwrap();
    Some((folder, case))
}

#[test]
fn each_kind_of_difference_is_found_and_names_its_rules() {
    let kinds = [
        (r#"{"i":0,"id":0,"seg":0,"off":0,"va":0}"#, r#"{"i":0,"id":0,"seg":0,"off":0,"va":512}"#, "address", "R1.17"),
        (r#""seg":0,"off":0,"va":0}"#, r#""error":"RuntimeError: x"}"#, "allocation", "R2.2"),
        (r#""oom":"CUDA out of memory. Tried"#, r#""oom":"CUDA out of memory. Had"#, "out-of-memory text", "R2.43"),
        (
            r#""final_stats":{"active.all.allocated":"#,
            r#""final_stats":{"active.all.allocated":9"#,
            "statistic",
            "R2.50",
        ),
        (r#"{"segment":{"seg":0"#, r#"{"segment":{"seg":9"#, "final segment", "R9.4"),
        (r#""active_allocated"]"#, r#""active_pending_free"]"#, "final block", "R1.12"),
        (r#""free_completed","#, r#""free_requested","#, "trace event", "R3.8"),
        (r#""malloc","#, r#""create","#, "driver call", "R4.9"),
    ];
    for (from, to, what, rule) in kinds {
        let Some((_folder, case)) = changed(from, to) else { return };
        let report = compare_case(&case);
        let difference = report.outcome.unwrap().unwrap();
        assert_eq!(difference.what, what, "{difference:?}");
        assert!(difference.rule.starts_with(rule) || what == "trace event", "{difference:?}");
        assert_ne!(difference.expected, difference.got);
    }
}

#[test]
fn a_summary_counts_a_file_that_cannot_be_read_as_different() {
    let Some((folder, case)) = changed(r#""events": "immediate""#, r#""events": "sometimes""#) else { return };
    let reports = compare_all(&[case]);
    let summary = Summary::new(&reports);
    assert_eq!((summary.files, summary.identical), (1, 0));
    assert!(summary.different[0].got.contains("sometimes"), "{summary:?}");
    let json = serde_json::to_value(&summary).unwrap();
    let fields: Vec<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["decisions", "different", "files", "identical", "schema"]);
    drop(folder);
}

#[test]
fn what_is_no_recording_is_refused_with_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    assert!(matches!(find(&[path("")]), Err(FindError::NoOutcomes { .. })));
    assert!(matches!(find(&[path("x")]), Err(FindError::Io { .. })));
    std::fs::write(path("a__b.out.jsonl"), "").unwrap();
    assert!(matches!(find(&[path("a__b.out.jsonl")]), Err(FindError::NoRequests { scenario, .. }) if scenario == "a"));
    std::fs::write(path("notes.txt"), "").unwrap();
    assert!(matches!(find(&[path("notes.txt")]), Err(FindError::NotAnOutcome { .. })));
    std::fs::write(path("a.req.jsonl"), "").unwrap();
    let cases = find(&[folder.path().to_owned()]).unwrap();
    assert_eq!(cases.iter().map(|case| case.outcome.clone()).collect::<Vec<_>>(), [path("a__b.out.jsonl")]);
    assert!(compare_case(&cases[0]).outcome.unwrap_err().to_string().contains("header"));
    std::fs::write(path("INDEX.json"), "{").unwrap();
    assert!(
        matches!(find(&[folder.path().to_owned()]), Err(FindError::Index { path, .. }) if Path::new(&path).ends_with("INDEX.json"))
    );
}
