//! `millpond export FILE --to FORMAT`: what happened, as a file for another tool.

use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use millpond_viewer::{Page, export};

use super::Answer;
use super::past::{self, Beside};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::files;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    past: past::Args,

    /// The form of the file
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Format,

    /// Where it goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A memory snapshot, for pytorch.org/memory_viz and everything that reads one
    Pickle,
    /// Trace events, for ui.perfetto.dev
    Perfetto,
    /// A row for each event, with the totals after it
    Csv,
    /// The same as JSON, one object a line
    Jsonl,
    /// The same as a Parquet file
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Reads, replays, writes.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let past = past::look(&args.past, Beside::Nothing)?;
    if args.to == Format::Pickle && past.repeats_a_device() {
        let message = "a snapshot holds one run of a device, and several were asked for";
        return Err(Failure::new(Code::Usage, message).help("give --conf once").into());
    }
    let mut bytes = Vec::new();
    past.page(|page| {
        write(args.to, page, &mut bytes).map_err(|error| Failure::new(Code::CannotWrite, error.to_string()))
    })?;
    match &args.output {
        Some(path) => files::write(path, &bytes)?,
        None => shell.bytes(&bytes)?,
    }
    Ok(Answer::Done)
}

fn write(format: Format, page: &Page<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    match format {
        Format::Pickle => export::snapshot(page).write_pickle(out),
        Format::Perfetto => export::perfetto(page, out),
        Format::Csv => export::csv(page, out),
        Format::Jsonl => export::json_lines(page, out),
        #[cfg(feature = "parquet")]
        Format::Parquet => export::parquet(page, out),
    }
}
