//! Finds the commit for `millpond --version`: `MILLPOND_COMMIT` if a packager sets it, else git's, else "unknown".

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MILLPOND_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = std::env::var("MILLPOND_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(from_git);
    println!("cargo::rustc-env=MILLPOND_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The commit of the repository that tracks this file. A source archive unpacked inside of another repository has none.
fn from_git() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Every commit and checkout writes to the log of HEAD.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
