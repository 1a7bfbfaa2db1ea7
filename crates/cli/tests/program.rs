//! The program as a whole: versions, help, colours, errors, pipes.

mod common;

use std::io::Read;
use std::process::Stdio;

use common::{assert_fails, json, ok, program, run, run_with};

#[test]
fn the_version_names_commit_and_rules() {
    let version = ok(&["--version"]);
    assert!(version.starts_with(&format!("millpond {} (commit ", env!("CARGO_PKG_VERSION"))), "{version}");
    assert!(version.trim_end().ends_with(", rules of PyTorch 2.15)"), "{version}");
}

#[test]
fn help_names_every_verb_and_the_exit_status() {
    let help = ok(&["--help"]);
    for word in ["replay", "stats", "conf", "parity", "explain", "completions", "man", "Exit status"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn wrong_usage_is_status_2_with_a_near_spelling() {
    assert_fails(&run(&["statz"]), "MP0001", "'stats'");
    assert_fails(&run(&["stats", "--jsn", "x"]), "MP0001", "--json");
    assert_fails(&run(&["stats"]), "MP0001", "<FILE>");
    assert_fails(&run(&["-q", "-v", "stats", "x"]), "MP0001", "cannot be used");
    let nothing = run(&[]);
    assert_eq!((nothing.status, nothing.stdout.as_str()), (2, ""));
    assert!(nothing.stderr.contains("Usage: millpond"));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_insist() {
    let stats = ["stats", "examples/train.pickle"];
    assert!(!ok(&stats).contains('\x1b'));
    let insisted = ok(&["--color", "always", stats[0], stats[1]]);
    assert!(insisted.contains("\x1b[1mGPU 0\x1b[0m"), "{insisted}");
    let both = run_with(program().env("NO_COLOR", "1").args(["--color=always", "stats", "/nonexistent"]));
    assert!(both.stderr.contains("\x1b["), "an option is stronger than the environment");
    assert!(!run(&["statz", "--color=never"]).stderr.contains('\x1b'));
}

#[test]
fn every_code_can_be_explained() {
    let list = run(&["explain", "--json"]);
    let codes = json(&list)["codes"].as_array().unwrap().clone();
    assert!(codes.len() > 20);
    for code in codes {
        let code = code["code"].as_str().unwrap();
        let text = ok(&["explain", code]);
        assert!(text.starts_with(&format!("{code}: ")) && text.contains("What to do"), "{text}");
        assert_eq!(json(&run(&["explain", code, "--json"]))["code"], code);
    }
    assert_fails(&run(&["explain", "MP9999"]), "MP0022", "MP0001 to MP");
}

#[test]
fn a_broken_pipe_ends_quietly() {
    let mut child = program()
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = run_with(program().args(["explain"]).stdout(full));
    assert_eq!(run.status, 2);
    assert!(run.stderr.starts_with("error[MP0021]: "), "{}", run.stderr);
}

#[test]
fn completions_know_the_verbs_in_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(ok(&["completions", shell]).contains("parity"), "{shell}");
    }
    assert_fails(&run(&["completions", "tcsh"]), "MP0001", "possible values");
}

#[test]
fn manual_pages_are_written_beside_and_renamed() {
    assert!(ok(&["man"]).contains(".TH millpond 1"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    ok(&["man", "--dir", &path]);
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.contains(&"millpond.1".into()) && names.contains(&"millpond-replay.1".into()), "{names:?}");
    assert!(names.iter().all(|name| name.ends_with(".1")), "{names:?}");
    assert_fails(&run(&["man", "--dir", "/nonexistent"]), "MP0021", "/nonexistent");
}
