//! Running a test on the simulated driver: in a child process, as it is one machine for a process.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;
use std::process::Command;

/// The folder where the libraries that tests need are built.
pub fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Lets a program find the simulated driver, with a device of 1 GiB.
pub fn simulated(command: &mut Command) -> &mut Command {
    let driver = libraries().join("libmillpond_libcuda.so");
    command.env("MILLPOND_SIM", "1").env("MILLPOND_LIBCUDA", driver).env("MILLPOND_SIM_CAPACITY", "1GiB")
}

/// Whether this is the child process of the test `name`. If not, runs that child and fails if it does.
pub fn is_child(name: &str, settings: &[(&str, &str)]) -> bool {
    if std::env::var_os("MILLPOND_SIM").is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    simulated(child.args(["--exact", name, "--nocapture"])).envs(settings.iter().copied());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "the child ran no test: {text}");
    false
}
