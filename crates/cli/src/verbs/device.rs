//! `millpond device`: what the driver of this machine has; under `millpond sim`, the simulated one.

use millpond_cuda::{Cuda, LoadError};
use millpond_driver::{Device, DriverError, Granularity, HandleProps, Memory, Peers, Status, Virtual};
use millpond_report::device::{Found, Machine, json, text};

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Starts the driver and asks it.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let cuda = Cuda::load().map_err(|error| no_driver(&error))?;
    let devices = (0..cuda.device_count()).map(|index| ask(&cuda, Device(index))).collect::<Result<_, _>>();
    let devices = devices.map_err(|error| Failure::new(Code::NoDriver, error.to_string()))?;
    let machine = Machine { library: cuda.library().to_owned(), driver_version: cuda.driver_version(), devices };
    match args.json {
        true => shell.line(&json(&machine))?,
        false => shell.print(&text(&machine, shell.paint))?,
    }
    Ok(Answer::Done)
}

fn ask(cuda: &Cuda, device: Device) -> Result<Found, DriverError> {
    let caps = cuda.caps(device)?;
    let (free, _) = cuda.mem_info(device)?;
    let granularity = |which| match caps.vmm {
        true => cuda.mem_granularity(HandleProps::on(device), which).map(Some),
        false => Ok(None),
    };
    let (least, best) = (granularity(Granularity::Minimum)?, granularity(Granularity::Recommended)?);
    let others = (0..cuda.device_count()).filter(|&other| other != device.0);
    let reachable = |&other: &u32| cuda.can_access_peer(device, Device(other)).unwrap_or(false);
    let peers = others.filter(reachable).collect();
    Ok(Found { caps, free, granularity: least, recommended_granularity: best, peers })
}

fn no_driver(error: &LoadError) -> Failure {
    Failure::new(Code::NoDriver, error.to_string()).help("`millpond sim -- millpond device` shows the simulated one")
}
