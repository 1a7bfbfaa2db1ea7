//! The program behind `benches/vs_torch.sh`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use millpond::config::Settings;
use millpond_bench::{Case, Library};
use millpond_benches::{Millpond, Row, Subjects, Torch, table};
use millpond_cuda::Cuda;
use millpond_driver::{Device, Order};
use millpond_report::Document;
use serde::Serialize;

#[derive(Parser)]
#[command(name = "vs_torch.sh")]
struct Args {
    /// The library made of torch_side.cpp
    #[arg(hide = true)]
    torch: String,

    /// libmillpond
    #[arg(hide = true)]
    millpond: String,

    /// Which cases; `millpond bench list` names them [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<Case>,

    /// Rounds of each; the figure is their median
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Pairs of an allocation and a free in a round
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pairs: u64,

    /// Also write the figures here, as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Body {
    rows: Vec<Row>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let driver = Cuda::load()?;
    let device = Device(0);
    let streams = [0, driver.stream_create(device)?.raw];
    let subjects = Subjects {
        torch: Torch::start(&args.torch, streams)?,
        c: Millpond::start(&args.millpond, streams)?,
        rust: Library::on(driver, device, Settings::default())?,
    };
    let cases = if args.cases.is_empty() { Case::ALL.to_vec() } else { args.cases };
    let rows = cases
        .into_iter()
        .map(|case| subjects.compare(case, args.rounds as usize, args.pairs).with_context(|| case.to_string()))
        .collect::<Result<Vec<Row>>>()?;
    print!("{}\n{}", table::cases(&rows), table::derived(&rows));
    if let Some(path) = args.json {
        let text = Document::new(Body { rows }).line() + "\n";
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}
