//! How fast a large snapshot loads, and in how much memory.
//!
//! ```text
//! cargo run --release -p millpond-snapshot --example load_speed -- build examples/train.pickle big.pickle
//! cargo run --release -p millpond-snapshot --example load_speed -- load big.pickle
//! python3 -c 'import pickle, resource, time; t = time.time(); pickle.load(open("big.pickle", "rb"))
//! print(time.time() - t, "s", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "MiB")'
//! ```
//!
//! `build` repeats the events of a recorded snapshot until the file has about 100 MB. With a third
//! word, `distinct`, each round has call stacks of its own, as a program with many call sites has.

use std::error::Error;
use std::fs::File;
use std::time::Instant;

use millpond_snapshot::{Frame, Snapshot, StackId, TimeUs};

const SIZE: u64 = 100_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["build", from, to] => build(from, to, false),
        ["build", from, to, "distinct"] => build(from, to, true),
        ["load", path] => load(path),
        _ => Err("build FROM TO [distinct] | load FILE".into()),
    }
}

/// Repeats the events of the first device until the file is large enough.
fn build(from: &str, to: &str, distinct: bool) -> Result<(), Box<dyn Error>> {
    let recorded = Snapshot::open(from)?;
    // Two small files say what one round adds.
    let two = repeated(&recorded, 2, distinct);
    let twelve = repeated(&recorded, 12, distinct);
    let round = (written_len(&twelve)? - written_len(&two)?) / 10;
    let rounds = SIZE / round.max(1);
    let snapshot = repeated(&recorded, rounds, distinct);
    snapshot.write_pickle(File::create(to)?)?;
    println!("{} events, {} bytes", snapshot.trace(0).len(), std::fs::metadata(to)?.len());
    Ok(())
}

fn written_len(snapshot: &Snapshot) -> Result<u64, Box<dyn Error>> {
    let mut file = Vec::new();
    snapshot.write_pickle(&mut file)?;
    Ok(file.len() as u64)
}

fn repeated(recorded: &Snapshot, rounds: u64, distinct: bool) -> Snapshot {
    let mut snapshot = recorded.clone();
    let Some(trace) = snapshot.device_traces.first_mut() else {
        return snapshot;
    };
    trace.clear();
    for round in 0..rounds {
        let stacks: Vec<StackId> = recorded
            .stacks
            .iter()
            .map(|id| {
                if !distinct {
                    return id;
                }
                let step = snapshot.stacks.intern_frame(Frame::new("step", "train.py", round as i64));
                let frames = [recorded.stacks.ids(id), &[step]].concat();
                snapshot.stacks.intern_ids(&frames)
            })
            .collect();
        for entry in recorded.trace(0) {
            let mut entry = *entry;
            entry.time_us = entry.time_us.map(|time| TimeUs::new(time.get() + round * 1_000_000));
            entry.stack = entry.stack.map(|stack| stacks[stack.index()]);
            trace.push(entry);
        }
    }
    snapshot
}

fn load(path: &str) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let snapshot = Snapshot::open(path)?;
    let seconds = start.elapsed().as_secs_f64();
    let events: usize = snapshot.device_traces.iter().map(Vec::len).sum();
    println!("{events} events in {seconds:.3} s");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        println!("{line}");
    }
    Ok(())
}
