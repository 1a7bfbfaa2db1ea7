//! When the library does not start: beside a real driver, and for anybody but `millpond sim`.

use std::path::Path;

/// `millpond sim` sets this for the program that it starts.
pub(crate) const MARK: &str = "MILLPOND_SIM";

/// What only a machine with the vendor's kernel driver has.
const DEVICES: [&str; 4] = ["dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia", "dev/dxg"];

/// Where the vendor's driver library lies on the common systems.
const FOLDERS: [&str; 9] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "lib64",
    "usr/lib/wsl/lib",
    "usr/local/nvidia/lib64",
    "usr/local/cuda/compat",
];

/// Why the library does not start, as a sentence; `None` if it does.
pub(crate) fn reason() -> Option<String> {
    if std::env::var_os(MARK).is_none_or(|mark| mark != "1") {
        return Some("it is only for programs that `millpond sim` starts".to_owned());
    }
    real_driver(Path::new("/")).map(|found| format!("this machine has a real driver: {found} exists"))
}

/// A trace of a real driver under `root`.
fn real_driver(root: &Path) -> Option<String> {
    let devices = DEVICES.iter().map(|device| root.join(device));
    let libraries = FOLDERS.iter().map(|folder| root.join(folder).join("libcuda.so.1"));
    let mut found = devices.chain(libraries).filter(|path| path.exists());
    found.next().map(|path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_driver_or_its_library_is_found_and_named() {
        for trace in ["dev/nvidiactl", "proc/driver/nvidia", "usr/lib64/libcuda.so.1"] {
            let root = tempfile::tempdir().unwrap();
            assert_eq!(real_driver(root.path()), None);
            let path = root.path().join(trace);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            assert_eq!(real_driver(root.path()), Some(path.display().to_string()));
        }
    }

    #[test]
    fn without_the_mark_it_does_not_start() {
        assert!(std::env::var_os(MARK).is_none(), "tests run without it");
        assert!(reason().unwrap().contains("millpond sim"));
    }
}
