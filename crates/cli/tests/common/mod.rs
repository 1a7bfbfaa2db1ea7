//! Running the real program.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What came of a run.
pub struct Run {
    /// The exit status.
    pub status: i32,
    /// The answer.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program, in the folder of the workspace, in an environment without settings.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    for variable in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "MILLPOND_CONF"] {
        command.env_remove(variable);
    }
    for variable in ["PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The folder of the simulated libraries, which are built with the tests and lie beside them.
pub fn libraries() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    this.parent().expect("in a folder").to_owned()
}

/// Runs it to its end.
pub fn run_with(command: &mut Command) -> Run {
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    let run =
        Run { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

/// Runs it with arguments.
pub fn run(arguments: &[&str]) -> Run {
    run_with(program().args(arguments))
}

/// Runs it with arguments that must succeed.
pub fn ok(arguments: &[&str]) -> String {
    let run = run(arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    run.stdout
}

/// The one JSON object that a run must answer with, schema and all.
pub fn json(run: &Run) -> serde_json::Value {
    assert!(run.stdout.ends_with('\n') && run.stdout.lines().count() == 1, "{}", run.stdout);
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON alone");
    assert!(run.stdout.starts_with("{\"schema\":1,"), "{}", run.stdout);
    value
}

/// That a run ended with an error: status 2, its code, nothing on stdout.
pub fn assert_fails(run: &Run, code: &str, words: &str) {
    assert_eq!(run.status, 2, "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with(&format!("error[{code}]: ")), "{}", run.stderr);
    assert!(run.stderr.contains(words), "{}", run.stderr);
}

/// A file with these bytes in a folder of its own.
pub fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    let path = path.display().to_string();
    (folder, path)
}

/// A recording of PyTorch's own allocator.
pub fn recording(name: &str) -> String {
    format!("{}/tests/recordings/{name}", env!("CARGO_MANIFEST_DIR"))
}
