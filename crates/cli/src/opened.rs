//! Files opened for replay, with errors in the program's own words.

use std::io::Read;
use std::path::Path;

use millpond_replay::Workload;
use millpond_replay::snapshot::{Recording, devices};
use millpond_replay::workload::ReadOptions;
use millpond_snapshot::{LoadOptions, Snapshot};

use crate::codes::Code;
use crate::content::Whole;
use crate::failure::Failure;
use crate::shell::Shell;

/// Reads a workload.
pub fn workload(path: &Path, whole: Whole, allow_expansion: bool) -> Result<Workload, Failure> {
    let options = match allow_expansion {
        true => ReadOptions { unpack_factor: None },
        false => ReadOptions::default(),
    };
    Workload::read(whole, options).map_err(|error| Failure::workload(path, &error))
}

/// Reads a snapshot.
pub fn snapshot(path: &Path, mut whole: Whole, allow_expansion: bool) -> Result<Snapshot, Failure> {
    let mut bytes = Vec::new();
    whole.read_to_end(&mut bytes).map_err(|error| Failure::unreadable(path, &error))?;
    let options = LoadOptions::default().allow_expansion(allow_expansion);
    options.read(&bytes).map_err(|error| Failure::snapshot(path, &error))
}

/// The device asked for, or the first.
pub fn recording<'s>(
    path: &Path,
    snapshot: &'s Snapshot,
    device: Option<usize>,
    shell: &mut Shell,
) -> Result<Recording<'s>, Failure> {
    let known = devices(snapshot);
    let Some(&first) = known.first() else {
        let message = "the snapshot holds no segments and no trace, so there is nothing to replay";
        return Err(Failure::at(Code::CannotReplay, path, message));
    };
    if known.len() > 1 && device.is_none() {
        let all: Vec<String> = known.iter().map(usize::to_string).collect();
        let all = all.join(", ");
        shell.note(&format!("the snapshot has devices {all}; this is {first}, --device-index chooses another"));
    }
    Recording::new(snapshot, device.unwrap_or(first)).map_err(|error| Failure::at(Code::CannotReplay, path, error))
}
