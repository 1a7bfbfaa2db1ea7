//! A C program is compiled against the installed header and runs with the installed library.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a command says; fails if it does.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("left out: there is no {tool}");
    }
    found
}

/// An installation of the library that was built with the tests.
fn installed(prefix: &Path) -> PathBuf {
    let mut install = Command::new("bash");
    install.arg(here().join("install.sh")).arg(prefix).arg(common::libraries().join("libmillpond_c.so"));
    said(&install.output().unwrap());
    prefix.join("lib")
}

/// The flags for a compiler, as the pkg-config file under `lib` tells them.
fn flags(lib: &Path) -> Vec<String> {
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "millpond"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    said(&asked.output().unwrap()).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_first_steps_run() {
    if !is_there("cc") || !is_there("pkg-config") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lib = installed(folder.path());
    let program = folder.path().join("first_steps");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]).arg(here().join("examples/first_steps.c"));
    said(&cc.args(flags(&lib)).arg("-o").arg(&program).output().unwrap());
    let mut run = Command::new(&program);
    let output = common::simulated(&mut run).env("LD_LIBRARY_PATH", &lib).output().unwrap();
    assert_eq!(said(&output), "the block was used again: yes\nlive: 3145728 bytes\na petabyte: out of memory\n");
}

#[test]
fn the_pkg_config_file_has_the_version_and_the_library_its_name() {
    if !is_there("pkg-config") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lib = installed(folder.path());
    let mut asked = Command::new("pkg-config");
    asked.args(["--modversion", "millpond"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    assert_eq!(said(&asked.output().unwrap()).trim(), env!("CARGO_PKG_VERSION"));
    let link = std::fs::read_link(lib.join("libmillpond.so.0")).unwrap();
    assert_eq!(link.to_str(), Some(concat!("libmillpond.so.", env!("CARGO_PKG_VERSION"))));
}
