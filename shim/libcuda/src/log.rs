//! The log of calls: a line of JSON for each, in order.
//!
//! `{"n":7,"at_us":60,"call":"cuMemAlloc_v2","code":0,"memory":[{"call":"cuMemAlloc","addr":…,"bytes":…}]}`: `memory`
//! has what the call changed on the device, and is left out where that is nothing.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use millpond_driver::Status;
use serde_json::json;

use crate::machine::{lock, machine};

struct Log {
    file: BufWriter<File>,
    calls: u64,
}

static LOG: OnceLock<Mutex<Log>> = OnceLock::new();

/// Begins a log in a new file. A child process that is started with the same variables appends to it.
pub(crate) fn open(path: &Path) -> std::io::Result<()> {
    let file = File::options().create(true).append(true).open(path)?;
    LOG.get_or_init(|| Mutex::new(Log { file: BufWriter::new(file), calls: 0 }));
    Ok(())
}

/// Adds a call. A full disk ends no program: what cannot be written is lost.
pub(crate) fn called(function: &str, code: i32) {
    let Some(log) = LOG.get() else { return };
    let mut log = lock(log);
    let (mut memory, mut at_us) = (Vec::new(), 0);
    if let Ok(machine) = machine() {
        memory = machine.sim.take_log();
        at_us = machine.sim.now_us();
    }
    let mut line = json!({ "n": log.calls, "at_us": at_us, "call": function, "code": code });
    if !memory.is_empty() {
        let change = |call: millpond_sim::Call| {
            let code = call.code.map_or(0, |code| code.0);
            json!({ "call": call.kind.name(), "addr": call.addr, "bytes": call.size, "code": code })
        };
        line["memory"] = memory.into_iter().map(change).collect();
    }
    log.calls += 1;
    // A program may end at any time and without notice, so each line goes out at once.
    let _ = writeln!(log.file, "{line}").and_then(|()| log.file.flush());
}
