//! The README and the book say what is so: every command runs, what stands below it is what it prints, links lead somewhere,
//! tables hold what the code holds. `MILLPOND_UPDATE=1` writes outputs and tables anew.
#![cfg(unix)]

mod common;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millpond::config::{Key, Owner};

/// The README and every page of the book.
fn documents() -> Vec<PathBuf> {
    let mut documents = vec![common::root().join("README.md")];
    let mut folders = vec![common::root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the book") {
            let path = entry.expect("a page").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    documents
}

fn updates() -> bool {
    std::env::var_os("MILLPOND_UPDATE").is_some()
}

/// Holds a document against what it should be, or makes it so.
fn settle(path: &Path, text: &str, expected: &str) {
    if text == expected {
        return;
    }
    assert!(updates(), "{} is out of date; it should read\n{expected}", path.display());
    std::fs::write(path, expected).expect("the document is written");
}

/// Runs a line of a document in a shell that finds `millpond`; its status and stdout.
fn run(line: &str) -> (i32, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_millpond"));
    let line = line.replace("cargo run --release -- ", "millpond ");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    for variable in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "MILLPOND_CONF"] {
        shell.env_remove(variable);
    }
    let output = shell
        .args(["-c", &line])
        .env("MILLPOND_LIB", common::libraries())
        .env("PATH", format!("{}:{path}", program.parent().expect("a folder").display()))
        .current_dir(common::root())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{line}");
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Whether a line of a `sh` block runs the program; others (`cargo test`, `cargo install`) are not run from a test.
fn is_ours(line: &str) -> bool {
    line.starts_with("cargo run --release -- ") || line.split(' ').find(|word| !word.contains('=')) == Some("millpond")
}

/// The status that a line promises: 0, or what its remark says.
fn promised(line: &str) -> i32 {
    line.split_once("# exit status ").map_or(0, |(_, status)| status.trim().parse().expect("a number"))
}

/// What a `text` block should hold: what was printed, whole, or with the parts left out that the block leaves out.
fn shown(block: &str, printed: &str) -> String {
    const LEFT_OUT: &str = "…";
    let parts: Vec<Vec<&str>> =
        block.lines().collect::<Vec<_>>().split(|line| *line == LEFT_OUT).map(<[_]>::to_vec).collect();
    if parts.len() == 1 {
        return printed.to_owned();
    }
    // Lines may be left out between and after parts, whose lines follow each other in what was printed.
    let mut rest: Vec<&str> = printed.lines().collect();
    for part in &parts {
        match (0..=rest.len().saturating_sub(part.len())).find(|&at| rest[at..].starts_with(part)) {
            Some(at) => rest = rest.split_off(at + part.len()),
            None => return printed.to_owned(),
        }
    }
    block.to_owned()
}

#[test]
fn every_command_runs_and_prints_what_stands_below_it() {
    let mut commands = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        let mut expected = String::new();
        let mut lines = text.lines();
        let mut printed: Option<String> = None;
        while let Some(line) = lines.next() {
            let _ = writeln!(expected, "{line}");
            match line {
                "```sh" => {
                    printed = Some(String::new());
                    for line in lines.by_ref().take_while(|line| *line != "```") {
                        let _ = writeln!(expected, "{line}");
                        if is_ours(line) {
                            commands += 1;
                            let (status, stdout) = run(line);
                            assert_eq!(status, promised(line), "{}: {line}", path.display());
                            printed.iter_mut().for_each(|printed| printed.push_str(&stdout));
                        }
                    }
                    expected.push_str("```\n");
                }
                "```text" => {
                    let block: String =
                        lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
                    let shown = printed.take().map_or_else(|| block.clone(), |printed| shown(&block, &printed));
                    let _ = writeln!(expected, "{shown}```");
                }
                "" => {}
                _ => printed = None,
            }
        }
        settle(&path, &text, &expected);
    }
    assert!(commands > 10, "only {commands} commands were found");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_local = !link.is_empty() && !link.contains("://");
            assert!(!is_local || path.with_file_name("").join(link).exists(), "{}: {link}", path.display());
        }
    }
}

#[test]
fn the_table_of_settings_is_the_librarys() {
    let path = common::root().join("docs/settings.md");
    let text = std::fs::read_to_string(&path).expect("the page");
    let mut expected = text.clone();
    for (mark, of_millpond) in [("<!-- keys: pytorch -->", false), ("<!-- keys: millpond -->", true)] {
        let mut table = String::from("\n\n| key | default | allowed | what it does |\n|---|---|---|---|\n");
        for key in Key::all().filter(|key| (key.owner() == Owner::Millpond) == of_millpond) {
            let (name, default, allowed, about) = (key.name(), key.default_text(), key.allowed(), key.about());
            let _ = writeln!(table, "| `{name}` | {default} | {allowed} | {about} |");
        }
        let start = expected.find(mark).expect("the mark") + mark.len();
        let end = expected[start..].find("\n## ").map_or(expected.len(), |at| start + at);
        expected.replace_range(start..end, &table);
    }
    settle(&path, &text, &expected);
}
