//! Where the recordings are.
#![allow(dead_code)]

use std::path::PathBuf;

/// A path under the shared material, or nothing (with a note) where that is not there.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("MILLPOND_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    let path = root.join(path);
    if !path.exists() {
        eprintln!("note: {} is not there, skipped", path.display());
        return None;
    }
    Some(path)
}
