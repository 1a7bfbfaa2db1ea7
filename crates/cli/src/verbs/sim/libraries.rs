//! The simulated libraries: where they lie, and the names under which programs look for them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::codes::Code;
use crate::failure::Failure;

/// The variable that names the folder with the libraries.
const VARIABLE: &str = "MILLPOND_LIB";

/// Each library's own name and the one that programs know. All are preloaded: programs find a preloaded library by its
/// name before they look into folders of their own.
const LIBRARIES: [(&str, &str); 3] = [
    ("libmillpond_libcudart.so", "libcudart.so.13"),
    ("libmillpond_libcuda.so", "libcuda.so.1"),
    ("libmillpond_libnvml.so", "libnvidia-ml.so.1"),
];

/// The runtime once more, for programs of CUDA 12: those that look for it find it in the folder of links.
const ALSO: (&str, &str) = ("libmillpond_libcudart.so", "libcudart.so.12");

/// A folder with all libraries.
#[derive(Debug)]
pub struct Libraries(PathBuf);

/// Links to them under the names that programs know, in a folder that goes when this does.
#[derive(Debug)]
pub struct Linked(tempfile::TempDir);

/// Looks in the folder that `MILLPOND_LIB` names; without it in `../lib/millpond` beside the program, then in the
/// program's own folder.
pub fn find() -> Result<Libraries, Failure> {
    let looked = match std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => beside_the_program(),
    };
    let complete = |folder: &&PathBuf| LIBRARIES.iter().all(|(own, _)| folder.join(own).is_file());
    if let Some(folder) = looked.iter().find(complete)
        && let Ok(folder) = folder.canonicalize()
    {
        return Ok(Libraries(folder));
    }
    let looked: Vec<String> = looked.iter().map(|folder| folder.display().to_string()).collect();
    let message = format!("the simulated libraries are not in {}", looked.join(" or "));
    Err(Failure::new(Code::NoLibraries, message)
        .help(format!("build them with `cargo build --release --workspace`, or name their folder in {VARIABLE}")))
}

fn beside_the_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let Some(folder) = program.ok().and_then(|program| program.parent().map(Path::to_owned)) else { return Vec::new() };
    vec![folder.join("../lib/millpond"), folder]
}

impl Libraries {
    /// Makes the links.
    pub fn link(&self) -> Result<Linked, Failure> {
        let failed = |error: std::io::Error| Failure::new(Code::CannotWrite, format!("a temporary folder: {error}"));
        let folder = tempfile::Builder::new().prefix("millpond-sim-").tempdir().map_err(failed)?;
        for (own, known) in LIBRARIES.into_iter().chain([ALSO]) {
            symlink(&self.0.join(own), &folder.path().join(known)).map_err(failed)?;
        }
        Ok(Linked(folder))
    }
}

impl Linked {
    /// The folder with the links.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The value of LD_PRELOAD.
    pub fn preload(&self) -> OsString {
        let paths = LIBRARIES.iter().map(|(_, known)| self.folder().join(known).into_os_string());
        paths.collect::<Vec<_>>().join(OsStr::new(":"))
    }
}

#[cfg(unix)]
fn symlink(from: &Path, to: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn symlink(_from: &Path, _to: &Path) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}
