//! `millpond parity PATHS…`: every decision against recordings of PyTorch's own allocator.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_replay::parity::{self, FileReport, Summary};
use millpond_report::parity as shown;
use rayon::prelude::*;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::progress::Progress;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Outcome files (SCENARIO__CONFIG.out.jsonl, plain or packed), and folders that hold some; the requests lie beside them
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Compares all cases in parallel; any difference is a no, a file that cannot be read an error.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let cases = parity::find(&args.paths).map_err(|error| Failure::recordings(&error))?;
    let reports = {
        let progress = Progress::new(shell, cases.len() as u64, "files");
        let done = AtomicU64::new(0);
        let compare = |case| {
            let report = parity::compare_case(case);
            progress.at(done.fetch_add(1, Ordering::Relaxed) + 1);
            report
        };
        cases.par_iter().map(compare).collect::<Vec<FileReport>>()
    };
    let summary = Summary::new(&reports);
    if args.json {
        shell.line(&shown::json(&summary))?;
    } else {
        let is_quiet = shell.is_quiet();
        for report in reports.iter().filter(|report| !(is_quiet && report.is_identical())) {
            shell.print(&shown::file(report, shell.paint))?;
        }
        shell.line(&summary.to_string())?;
    }
    let unreadable = reports.iter().filter(|report| report.outcome.is_err());
    match unreadable.clone().next() {
        Some(FileReport { file, outcome: Err(error), .. }) => {
            let more = match unreadable.count() {
                1 => String::new(),
                many => format!(" (and {} more that cannot be read)", many - 1),
            };
            Err(Failure::new(Code::BadRecording, format!("{file}: {error}{more}")).into())
        }
        _ if summary.different.is_empty() => Ok(Answer::Done),
        _ => Ok(Answer::No),
    }
}
