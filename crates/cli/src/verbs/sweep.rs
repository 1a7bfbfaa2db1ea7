//! `millpond sweep FILE`: the same requests under many settings.

use std::path::{Path, PathBuf};

use millpond_doctor::{Conf, GRID, Patient, STEP, SweepPlan, sweep};
use millpond_driver::Bytes;
use millpond_report::sweep as shown;
use millpond_sim::EventMode;

use super::Answer;
use super::replay::{Events, check_capacity};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::{self, Opened, Opening};
use crate::progress::Progress;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A workload or a snapshot: what it is, is told from its content
    file: PathBuf,

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

    /// The device's memory [default: of a snapshot with an out-of-memory error what the error says, else 80GiB]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,

    /// Memory of the device that others use
    #[arg(long, value_name = "SIZE", default_value = "0")]
    others: Bytes,

    /// When the events of a workload complete [default: immediate]
    #[arg(long, value_enum, value_name = "MODE")]
    events: Option<Events>,

    /// Which device of a snapshot [default: the first]
    #[arg(long, value_name = "INDEX")]
    device_index: Option<usize>,

    /// Say how long each setting took, beside the answer
    #[arg(long)]
    times: bool,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,

    /// Let packed files unpack to more than 64 times their size
    #[arg(long)]
    allow_expansion: bool,
}

/// Tries every setting on what the file is.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let path = &args.file;
    if args.step.0 == 0 {
        return Err(Failure::new(Code::BadMachine, "--step is 0").help("give a step such as 64MiB").into());
    }
    let events = args.events.map_or(EventMode::Immediate, Events::mode);
    let how = Opening { events, device_index: args.device_index, allow_expansion: args.allow_expansion };
    opened::requests(path, how, shell, |opened, shell| try_all(args, path, opened, shell))
}

fn try_all(args: &Args, path: &Path, opened: Opened<'_>, shell: &mut Shell) -> Result<Answer, Stop> {
    let Opened { requests, recorded, capacity } = opened;
    let capacity = args.capacity.unwrap_or(capacity);
    check_capacity(capacity, args.others)?;
    let confs = confs(args, &recorded)?;
    let patient = Patient { requests, others: args.others, anew: false };
    let plan = SweepPlan { capacity, step: args.min_capacity.then_some(args.step) };
    let progress = Progress::new(shell, confs.len() as u64, "settings");
    let swept = sweep(&patient, &confs, plan, |done| progress.at(done as u64));
    drop(progress);
    let swept = swept.map_err(|error| Failure::from(error).of(&path.display().to_string()))?;
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
    let none_fits = args.capacity.is_some() && !swept.settings.iter().any(|setting| setting.fits);
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
