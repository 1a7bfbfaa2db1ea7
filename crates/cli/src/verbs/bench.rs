//! `millpond bench`: what an allocation costs on this machine.

use std::path::PathBuf;

use millpond_bench::{Case, Counts, Growth, GrowthRow, Row, once, row};
use millpond_report::bench as shown;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::progress::Progress;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which cases, such as cached_4k; `list` names them [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,

    /// Rounds of each; the figure is their median
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Pairs of an allocation and a free in a round
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pairs: u64,

    /// Also show how costs grow with what the allocator holds; takes a minute
    #[arg(long)]
    growth: bool,

    /// Instructions of a pair, as ci/instructions.sh prints them, to stand beside the times
    #[arg(long, value_name = "FILE")]
    instructions: Option<PathBuf>,

    /// Run the pairs once and time nothing, for a program that counts from outside
    #[arg(long, requires = "cases", conflicts_with_all = ["rounds", "growth", "instructions", "json"])]
    once: bool,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    if args.cases.iter().any(|case| case == "list") {
        Case::ALL.iter().try_for_each(|case| shell.line(&case.to_string()))?;
        return Ok(Answer::Done);
    }
    let cases = cases(args)?;
    if args.once {
        for case in cases {
            once(case, args.pairs).map_err(failed)?;
        }
        return Ok(Answer::Done);
    }
    let counts = counts(args)?;
    let rounds = args.rounds as usize;
    let grown: Vec<(Growth, usize)> = match args.growth {
        true => Growth::ALL.iter().flat_map(|&what| what.populations().iter().map(move |&of| (what, of))).collect(),
        false => Vec::new(),
    };
    let progress = Progress::new(shell, (cases.len() + grown.len()) as u64, "figures");
    let mut done = 0;
    let mut count = || {
        done += 1;
        progress.at(done);
    };
    let mut rows: Vec<Row> = Vec::new();
    for case in cases {
        rows.push(row(case, rounds, args.pairs, &counts).map_err(failed)?);
        count();
    }
    let mut growth: Vec<GrowthRow> = Vec::new();
    for (what, of) in grown {
        growth.push(what.measure(of, rounds).map_err(failed)?);
        count();
    }
    drop(progress);
    if args.json {
        shell.line(&shown::json(&rows, &growth))?;
        return Ok(Answer::Done);
    }
    shell.print(&shown::cases(&rows, shell.paint))?;
    if args.growth {
        shell.print(&format!("\n{}", shown::growth(&growth, shell.paint)))?;
    }
    Ok(Answer::Done)
}

fn cases(args: &Args) -> Result<Vec<Case>, Failure> {
    if args.cases.is_empty() {
        return Ok(Case::ALL.to_vec());
    }
    let read = |text: &String| {
        text.parse().map_err(|unknown: millpond_bench::UnknownCase| {
            Failure::new(Code::Usage, unknown.to_string()).help("`millpond bench list` names the cases")
        })
    };
    args.cases.iter().map(read).collect()
}

fn counts(args: &Args) -> Result<Counts, Failure> {
    let Some(path) = &args.instructions else { return Ok(Counts::default()) };
    let text = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    Counts::read(&text)
        .map_err(|error| Failure::at(Code::Usage, path, error).help("`ci/instructions.sh > FILE` writes such a file"))
}

fn failed(error: millpond_bench::LibraryFailed) -> Failure {
    Failure::new(Code::BadMachine, format!("the simulated device refused a request: {error}"))
}
