//! Files opened for replay, with errors in the program's own words.

use std::io::Read;
use std::path::Path;

use millpond_doctor::{Conf, Requests};
use millpond_driver::Bytes;
use millpond_replay::Workload;
use millpond_replay::snapshot::{Recording, devices, trust};
use millpond_replay::workload::ReadOptions;
use millpond_sim::EventMode;
use millpond_snapshot::{LoadOptions, Snapshot};

use crate::codes::Code;
use crate::content::{self, Content, Whole};
use crate::failure::{Failure, Stop};
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

/// A workload's device, unless something else is said.
const CAPACITY: Bytes = Bytes(80 << 30);

/// How a file of requests is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// When the events of a workload complete.
    pub events: EventMode,
    /// Which device of a snapshot; the first without.
    pub device_index: Option<usize>,
    /// Whether a packed file may unpack to whatever it likes.
    pub allow_expansion: bool,
}

/// The requests of a file, the settings they were recorded under, and the memory of their device.
#[derive(Debug)]
pub struct Opened<'a> {
    pub requests: Requests<'a>,
    pub recorded: Conf,
    pub capacity: Bytes,
}

/// Opens a workload or a snapshot, whichever the file is, and does something with its requests.
pub fn requests<R>(
    path: &Path,
    how: Opening,
    shell: &mut Shell,
    act: impl FnOnce(Opened<'_>, &mut Shell) -> Result<R, Stop>,
) -> Result<R, Stop> {
    match content::of(path)? {
        Content::Workload(whole) => {
            let workload = workload(path, whole, how.allow_expansion)?;
            let requests = Requests::Workload { workload: &workload, events: how.events };
            act(Opened { requests, recorded: Conf::default(), capacity: CAPACITY }, shell)
        }
        Content::Snapshot(whole) => {
            let snapshot = snapshot(path, whole, how.allow_expansion)?;
            let recording = recording(path, &snapshot, how.device_index, shell)?;
            let trust = trust(&recording).map_err(|error| {
                Failure::at(Code::CannotReplay, path, format!("its start state cannot be taken up: {error}"))
            })?;
            let requests = Requests::Snapshot { recording: &recording, tie_order: trust.tie_order };
            let recorded = Conf::recorded(&recording.settings);
            act(Opened { requests, recorded, capacity: recording.capacity() }, shell)
        }
    }
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
