//! A C program is compiled against the header and runs with the library.

mod common;

use std::path::Path;
use std::process::Command;

#[test]
fn the_first_steps_run() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("left out: there is no C compiler");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let library = common::libraries().join("libmillpond_c.so");
    for name in ["libmillpond.so", "libmillpond.so.0"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
    }
    let program = folder.path().join("first_steps");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]).arg("-I").arg(here.join("include"));
    cc.arg(here.join("examples/first_steps.c")).arg("-L").arg(folder.path()).arg("-lmillpond").arg("-o").arg(&program);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut run = Command::new(&program);
    let output = common::simulated(&mut run).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "the block was used again: yes\nlive: 3145728 bytes\na petabyte: out of memory\n");
}
