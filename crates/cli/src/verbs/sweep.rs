//! `millpond sweep FILE`: the same requests under many settings.

use millpond_doctor::{Conf, GRID, Patient, STEP, SweepPlan, sweep};
use millpond_driver::Bytes;
use millpond_report::sweep as shown;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::{self, Trials};
use crate::options::Source;
use crate::progress::Progress;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    source: Source,

    /// Settings to try, PyTorch's and Millpond's; may be given again and again [default: a grid of two dozen, of a snapshot
    /// laid over the recorded settings]
    #[arg(long = "conf", value_name = "STRING", allow_hyphen_values = true)]
    confs: Vec<String>,

    /// Find the smallest device that survives, for each setting
    #[arg(long)]
    min_capacity: bool,

    /// In steps of this size
    #[arg(long, value_name = "SIZE", default_value_t = STEP, requires = "min_capacity")]
    step: Bytes,

    /// Say how long each setting took, beside the answer
    #[arg(long)]
    times: bool,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Tries every setting on what the file is.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    if args.step.0 == 0 {
        return Err(Failure::new(Code::BadMachine, "--step is 0").help("give a step such as 64MiB").into());
    }
    opened::requests(&args.source, shell, |trials, shell| try_all(args, trials, shell))
}

fn try_all(args: &Args, trials: Trials<'_>, shell: &mut Shell) -> Result<Answer, Stop> {
    let Trials { name, requests, recorded, capacity, others } = trials;
    let confs = confs(args, &recorded)?;
    let patient = Patient { requests, others, anew: false };
    let plan = SweepPlan { capacity, step: args.min_capacity.then_some(args.step) };
    let progress = Progress::new(shell, confs.len() as u64, "settings");
    let swept = sweep(&patient, &confs, plan, |done| progress.at(done as u64));
    drop(progress);
    let swept = swept.map_err(|error| Failure::from(error).of(&name))?;
    if args.times {
        for setting in &swept.settings {
            shell.note(&format!("{:.2?} {}", setting.took, setting.conf));
        }
    }
    match args.json {
        true => shell.line(&shown::json(&swept))?,
        false => shell.print(&shown::text(&swept, shell.paint))?,
    }
    // Whether one fits is the question only where a device was named.
    let none_fits = args.source.device.capacity.is_some() && !swept.settings.iter().any(|setting| setting.fits);
    Ok(if none_fits { Answer::No } else { Answer::Done })
}

/// Those asked for, or the grid laid over the recorded settings, each once.
fn confs(args: &Args, recorded: &Conf) -> Result<Vec<Conf>, Failure> {
    if !args.confs.is_empty() {
        let read = |text: &String| Conf::read(text).map_err(|error| Failure::setting("--conf", &error));
        return args.confs.iter().map(read).collect();
    }
    let mut confs: Vec<Conf> = Vec::new();
    for conf in GRID.iter().filter_map(|change| recorded.with(change)) {
        if !confs.iter().any(|other| other.is_same(&conf)) {
            confs.push(conf);
        }
    }
    Ok(confs)
}
