//! `millpond plan FILE`: how large a cache may be beside the recorded requests.

use millpond_doctor::{Conf, Patient, STEP, plan};
use millpond_driver::Bytes;
use millpond_report::plan as shown;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::{self, Trials};
use crate::options::Source;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    source: Source,

    /// The settings, PyTorch's and Millpond's [default: of a snapshot the recorded ones]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    conf: Option<String>,

    /// The search's step
    #[arg(long, value_name = "SIZE", default_value_t = STEP)]
    step: Bytes,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads, searches, shows.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    if args.step.0 == 0 {
        return Err(Failure::new(Code::BadMachine, "--step is 0").help("give a step such as 64MiB").into());
    }
    opened::requests(&args.source, shell, |trials, shell| answer(args, trials, shell))
}

fn answer(args: &Args, trials: Trials<'_>, shell: &mut Shell) -> Result<Answer, Stop> {
    let Trials { name, requests, recorded, capacity, others } = trials;
    let conf = match &args.conf {
        Some(text) => Conf::read(text).map_err(|error| Failure::setting("--conf", &error))?,
        None => recorded,
    };
    let patient = Patient { requests, others, anew: false };
    let plan = plan(&patient, &conf, capacity, args.step).map_err(|error| Failure::from(error).of(&name))?;
    match args.json {
        true => shell.line(&shown::json(&plan))?,
        false => shell.print(&shown::text(&plan, shell.paint))?,
    }
    Ok(if plan.fits { Answer::Done } else { Answer::No })
}
