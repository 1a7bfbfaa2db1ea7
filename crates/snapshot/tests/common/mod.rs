//! What the tests share: where the recordings lie, and how to ask Python.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millpond_snapshot::Snapshot;

/// The folder of recordings beside the workspace; `None`, with a note, where there is none.
pub fn shared(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("MILLPOND_SHARED")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into(), PathBuf::from);
    let path = root.join(part);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is missing; set MILLPOND_SHARED", path.display());
    None
}

/// The snapshots in a folder, by name.
pub fn pickles_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".pickle") || name.ends_with(".pickle.gz")
        })
        .collect();
    files.sort();
    files
}

/// The two snapshots that are part of the project.
pub fn examples() -> [PathBuf; 2] {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    [folder.join("train.pickle"), folder.join("oom.pickle")]
}

/// Every recorded snapshot there is.
pub fn all_pickles() -> Vec<PathBuf> {
    let folders = ["golden/pickles", "real", "workloads"];
    let recorded = folders.iter().filter_map(|folder| shared(folder)).flat_map(|folder| pickles_in(&folder));
    examples().into_iter().chain(recorded).collect()
}

/// The bytes of a file, unpacked.
pub fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("a readable file");
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut unpacked = Vec::new();
    let mut unpacker = flate2::read::GzDecoder::new(bytes.as_slice());
    std::io::copy(&mut unpacker, &mut unpacked).expect("a whole gzip file");
    unpacked
}

/// The snapshot as we write it.
pub fn written(snapshot: &Snapshot) -> Vec<u8> {
    let mut file = Vec::new();
    snapshot.write_pickle(&mut file).expect("memory takes all");
    file
}

/// What Python prints for a script and its arguments; `None`, with a note, without Python.
pub fn python(script: &str, arguments: &[&Path]) -> Option<String> {
    let child = Command::new("python3").arg("-c").arg(script).args(arguments).stdin(Stdio::null()).output();
    let Ok(output) = child else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("a text"))
}

/// A pickle of the opcodes given as texts and bytes.
pub fn pickle(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}
