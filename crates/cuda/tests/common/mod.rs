//! Running a test on the simulated libraries: in a child process, as they are one machine for a process.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use millpond_cuda::Cuda;
use millpond_driver::conformance::Subject;

/// The driver over the simulated library, if this is the child process of the test `name`. If it is not, runs that child
/// with the machine that `settings` describe, and fails if it does.
pub fn over_the_shim(name: &str, settings: &[(&str, &str)]) -> Option<Arc<Cuda>> {
    if std::env::var_os("MILLPOND_SIM").is_some() {
        return Some(Cuda::load().unwrap());
    }
    let output = child(name, settings).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "the child ran no test: {text}");
    None
}

/// This test program again, with one test, on the simulated library.
pub fn child(name: &str, settings: &[(&str, &str)]) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut child = Command::new(&this);
    child.args(["--exact", name, "--nocapture"]).env("MILLPOND_SIM", "1").env("MILLPOND_LIBCUDA", library());
    child.envs(settings.iter().map(|(key, value)| (format!("MILLPOND_SIM_{key}"), value)));
    child
}

/// The simulated library, which is built with the tests and lies beside them.
pub fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    folder.join("libmillpond_libcuda.so")
}

/// Runs `run` with the driver as a subject of the suite.
pub fn with_subject(cuda: &Cuda, run: impl FnOnce(&Subject<'_>)) {
    run(&Subject {
        driver: cuda,
        read: &|addr, len| {
            let mut bytes = vec![0; len];
            let from: *const u8 = std::ptr::with_exposed_provenance(addr as usize);
            // SAFETY: the suite reads host memory that the driver has made, inside of its bounds, while nobody writes.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
            bytes
        },
        write: &|addr, bytes| {
            let to: *mut u8 = std::ptr::with_exposed_provenance_mut(addr as usize);
            // SAFETY: as above.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        },
    });
}
