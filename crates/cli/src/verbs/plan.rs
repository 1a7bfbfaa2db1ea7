//! `millpond plan FILE`: how large a cache may be beside the recorded requests.

use std::path::{Path, PathBuf};

use millpond_doctor::{Conf, Patient, STEP, plan};
use millpond_driver::Bytes;
use millpond_report::plan as shown;
use millpond_sim::EventMode;

use super::Answer;
use super::replay::{Events, check_capacity};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::{self, Opened, Opening};
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A workload or a snapshot of the program without the cache: what it is, is told from its content
    file: PathBuf,

    /// The settings, PyTorch's and Millpond's [default: of a snapshot the recorded ones]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    conf: Option<String>,

    /// The search's step
    #[arg(long, value_name = "SIZE", default_value_t = STEP)]
    step: Bytes,

    /// The device's memory [default: of a snapshot with an out-of-memory error what the error says, else 80GiB]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,

    /// Memory of the device that contexts, communication and other processes take
    #[arg(long, value_name = "SIZE", default_value = "0")]
    others: Bytes,

    /// When the events of a workload complete [default: immediate]
    #[arg(long, value_enum, value_name = "MODE")]
    events: Option<Events>,

    /// Which device of a snapshot [default: the first]
    #[arg(long, value_name = "INDEX")]
    device_index: Option<usize>,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,

    /// Let packed files unpack to more than 64 times their size
    #[arg(long)]
    allow_expansion: bool,
}

/// Reads, searches, shows.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let path = &args.file;
    if args.step.0 == 0 {
        return Err(Failure::new(Code::BadMachine, "--step is 0").help("give a step such as 64MiB").into());
    }
    let events = args.events.map_or(EventMode::Immediate, Events::mode);
    let how = Opening { events, device_index: args.device_index, allow_expansion: args.allow_expansion };
    opened::requests(path, how, shell, |opened, shell| answer(args, path, opened, shell))
}

fn answer(args: &Args, path: &Path, opened: Opened<'_>, shell: &mut Shell) -> Result<Answer, Stop> {
    let Opened { requests, recorded, capacity } = opened;
    let capacity = args.capacity.unwrap_or(capacity);
    check_capacity(capacity, args.others)?;
    let conf = match &args.conf {
        Some(text) => Conf::read(text).map_err(|error| Failure::setting("--conf", &error))?,
        None => recorded,
    };
    let patient = Patient { requests, others: args.others, anew: false };
    let plan = plan(&patient, &conf, capacity, args.step)
        .map_err(|error| Failure::from(error).of(&path.display().to_string()))?;
    match args.json {
        true => shell.line(&shown::json(&plan))?,
        false => shell.print(&shown::text(&plan, shell.paint))?,
    }
    Ok(if plan.fits { Answer::Done } else { Answer::No })
}
