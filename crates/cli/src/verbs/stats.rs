//! `millpond stats FILE`: the state a snapshot holds.

use std::path::PathBuf;

use millpond_report::stats;
use millpond_snapshot::LoadOptions;

use super::Answer;
use crate::failure::{Failure, Stop};
use crate::options::Packing;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// A snapshot: pickle or JSON, plain, gzip or zstd
    file: PathBuf,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    packing: Packing,
}

/// Reads the file, counts and shows.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let snapshot = LoadOptions::default()
        .allow_expansion(args.packing.allow_expansion)
        .open(&args.file)
        .map_err(|error| Failure::snapshot(&args.file, &error))?;
    let summary = snapshot.summary();
    match args.json {
        true => shell.line(&stats::json(&summary))?,
        false => shell.print(&stats::text(&summary, shell.paint))?,
    }
    Ok(Answer::Done)
}
