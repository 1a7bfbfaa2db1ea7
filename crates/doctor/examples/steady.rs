//! What a program costs that does the same again and again, under `page_reuse`: the table of rest in `docs/pages.md`.
//!
//! ```console
//! $ cargo run --release -p millpond-doctor --example steady -- ../shared/golden ../shared/workloads
//! ```
//!
//! Each argument is a folder of recordings. The requests of a recording are one iteration: they are repeated on one device
//! without a limit, and what is live after them is freed. Recordings with captures, pools or releases of their own are left out.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use millpond_doctor::Conf;
use millpond_driver::Bytes;
use millpond_replay::parity::{Case, Recording, find};
use millpond_replay::{Machine, Op, Runner, Setup};
use millpond_sim::CallKind;
use rayon::prelude::*;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ITERATIONS: usize = 40;

/// The policies, by their columns.
const POLICIES: [(&str, &str); 3] = [
    ("off, 2 MiB", "expandable_segments:True,page_reuse:off,page_size_mb:2"),
    ("always, 2 MiB", "expandable_segments:True,page_reuse:always,page_size_mb:2"),
    ("always, 20 MiB", "expandable_segments:True,page_reuse:always,page_size_mb:20"),
];

/// Calls by which memory comes, goes or moves.
const COUNTED: [CallKind; 7] = [
    CallKind::Malloc,
    CallKind::Free,
    CallKind::Create,
    CallKind::Release,
    CallKind::Map,
    CallKind::Unmap,
    CallKind::SetAccess,
];

/// Whether an iteration can be followed by another.
fn repeats(op: &Op) -> bool {
    !matches!(
        op,
        Op::CaptureBegin { .. } | Op::PoolCreate { .. } | Op::EmptyCache | Op::SetConf { .. } | Op::SetFraction { .. }
    )
}

/// Driver calls by iteration.
fn calls(recording: &Recording, policy: &str) -> Result<Vec<u64>, Failure> {
    let conf = Conf::read(&recording.header.config)?.with(policy).ok_or("the policy does not fit")?;
    let setup = Setup { capacity: Bytes(1 << 40), settings: conf.settings, log: false, ..recording.setup()? };
    let machine = Machine::new(&setup)?;
    let mut runner = Runner::new(&machine);
    let counted = || COUNTED.iter().map(|&kind| machine.sim().count(kind)).sum::<u64>();
    let mut by_iteration = Vec::new();
    for _ in 0..ITERATIONS {
        let before = counted();
        for op in &recording.workload.ops {
            runner.step(op)?;
        }
        let live: BTreeSet<u64> = runner.live().map(|(id, _)| id).collect();
        for op in live.into_iter().map(|id| Op::Free { id }).chain([Op::Sync]) {
            runner.step(&op)?;
        }
        by_iteration.push(counted() - before);
    }
    Ok(by_iteration)
}

/// Calls of the first two iterations, and when there were none any more.
fn shown(calls: &[u64]) -> String {
    let rest = calls.iter().rposition(|&calls| calls > 0).map_or(0, |last| last + 1);
    match calls.last() {
        Some(0) => format!("{} · {} · {}", calls[0], calls[1], rest + 1),
        last => format!("{} · {} · never: {}", calls[0], calls[1], last.unwrap_or(&0)),
    }
}

fn row(case: &Case) -> Result<Option<String>, Failure> {
    let recording = Recording::open(case)?;
    if !recording.workload.ops.iter().all(repeats) || recording.header.config.contains("expandable_segments:True") {
        return Ok(None);
    }
    let file = case.outcome.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = file.split(".out.").next().unwrap_or(&file).to_owned();
    let cells = POLICIES.map(|(_, policy)| calls(&recording, policy).map(|calls| shown(&calls)));
    let cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Some(format!("| {name} | {} |", cells.join(" | "))))
}

fn main() -> ExitCode {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if folders.is_empty() {
        eprintln!("usage: steady FOLDER...: folders of recordings");
        return ExitCode::from(2);
    }
    let rows = find(&folders).map_err(Failure::from);
    let rows = rows.and_then(|cases| cases.par_iter().map(row).collect::<Result<Vec<_>, _>>());
    match rows {
        Ok(rows) => {
            println!("| recording | {} |", POLICIES.map(|(name, _)| name).join(" | "));
            println!("|---|{}", "--:|".repeat(POLICIES.len()));
            rows.into_iter().flatten().for_each(|row| println!("{row}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
