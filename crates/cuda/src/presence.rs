//! Whether a machine has the vendor's driver, by what lies on its disk: without loading or asking anything.

use std::path::{Path, PathBuf};

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

/// A trace of the vendor's driver on the system whose root is `root`; `None` on one without.
///
/// The simulated libraries do not start where there is one: nobody may take a simulation for the device beside it.
pub fn trace_of_driver(root: &Path) -> Option<PathBuf> {
    let devices = DEVICES.iter().map(|device| root.join(device));
    let libraries = FOLDERS.iter().map(|folder| root.join(folder).join("libcuda.so.1"));
    devices.chain(libraries).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_driver_or_its_library_is_found_and_named() {
        for trace in ["dev/nvidiactl", "proc/driver/nvidia", "usr/lib64/libcuda.so.1"] {
            let root = tempfile::tempdir().unwrap();
            assert_eq!(trace_of_driver(root.path()), None);
            let path = root.path().join(trace);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            assert_eq!(trace_of_driver(root.path()), Some(path));
        }
    }
}
