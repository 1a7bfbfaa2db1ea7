//! `millpond sim -- COMMAND`: runs a program on a simulated device, behind CUDA's own interface.

mod libraries;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::ValueEnum;
use millpond_cuda::trace_of_driver;
use millpond_driver::Bytes;
use millpond_sim::{Environment, MARK, PREFIX};

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::options::check_capacity;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The memory of each device
    #[arg(long, value_name = "SIZE", default_value = "80GiB")]
    capacity: Bytes,

    /// Memory of each device that others use
    #[arg(long, value_name = "SIZE", default_value = "0")]
    others: Bytes,

    /// How many devices, 0 to 64
    #[arg(long, value_name = "N", default_value_t = 1)]
    devices: u32,

    /// The devices' compute capability
    #[arg(long, value_name = "X.Y", default_value = "9.0")]
    compute: String,

    /// When events complete
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    events: Events,

    /// Calls that fail, such as cuMemCreate:3:OUT_OF_MEMORY (the third), cuMemAlloc:5+:2 (the fifth and all after it),
    /// any:every100:UNKNOWN:sticky; several with commas
    #[arg(long, value_name = "RULES")]
    faults: Option<String>,

    /// Give memory bytes, so that copies copy
    #[arg(long)]
    backing: bool,

    /// Let a capture forbid nothing, as in the golden recordings
    #[arg(long)]
    lenient_captures: bool,

    /// How long a kernel takes on the virtual clock, microseconds
    #[arg(long, value_name = "US", default_value_t = 10)]
    kernel_us: u64,

    /// A cost table instead of the built-in one
    #[arg(long, value_name = "FILE")]
    cost: Option<PathBuf>,

    /// Write every call of the driver to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// When events complete, as the command line spells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Events {
    /// As soon as they are recorded
    #[default]
    Immediate,
    /// When the host waits for them, or a test says so
    Manual,
    /// When the work before them is done, on a virtual clock
    Timed,
}

/// Starts the program, waits for it, passes its status on.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    if let Some(trace) = trace_of_driver(Path::new("/")) {
        let message = format!("this machine has a real driver: {} exists", trace.display());
        return Err(Failure::new(Code::RealDriver, message).into());
    }
    let variables = variables(args)?;
    let libraries = libraries::find()?;
    let linked = libraries.link()?;
    if let Some(log) = &args.log {
        // The libraries append to it, so that children of the program can add their calls.
        std::fs::write(log, "").map_err(|error| Failure::at(Code::CannotWrite, log, error))?;
    }
    shell.flush()?;
    let (program, arguments) = args.command.split_first().ok_or_else(|| Failure::new(Code::Usage, "no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, "1").envs(variables);
    command.env("LD_PRELOAD", before(&linked.preload(), "LD_PRELOAD"));
    command.env("LD_LIBRARY_PATH", before(linked.folder().as_os_str(), "LD_LIBRARY_PATH"));
    let status = command
        .status()
        .map_err(|error| Failure::new(Code::CannotRun, format!("{}: {error}", program.to_string_lossy())))?;
    Ok(Answer::Status(code(status)))
}

/// The machine as the libraries are told it, checked by the code that they check it with.
fn variables(args: &Args) -> Result<Vec<(String, OsString)>, Stop> {
    check_capacity(args.capacity, args.others)?;
    let text = |key: &str, value: String| (format!("{PREFIX}{key}"), value);
    let events = args.events.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let mut told = vec![
        text("CAPACITY", args.capacity.0.to_string()),
        text("OTHERS", args.others.0.to_string()),
        text("DEVICES", args.devices.to_string()),
        text("COMPUTE", args.compute.clone()),
        text("EVENTS", events),
        text("BACKING", u8::from(args.backing).to_string()),
        text("CAPTURE_CHECKS", u8::from(!args.lenient_captures).to_string()),
        text("KERNEL_US", args.kernel_us.to_string()),
    ];
    told.extend(args.faults.iter().map(|rules| text("FAULTS", rules.clone())));
    told.extend(args.cost.iter().map(|path| text("COST", absolute(path).to_string_lossy().into_owned())));
    let checked = Environment::from_variables(told.iter().cloned());
    checked.map_err(|error| Failure::new(Code::BadMachine, error.to_string()))?;
    let mut variables: Vec<_> = told.into_iter().map(|(name, value)| (name, value.into())).collect();
    variables.extend(args.log.iter().map(|path| (format!("{PREFIX}LOG"), absolute(path).into_os_string())));
    Ok(variables)
}

/// The program may change its folder before the libraries start.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `value` before what the variable holds.
fn before(value: &OsStr, variable: &str) -> OsString {
    let mut list = value.to_owned();
    if let Some(more) = std::env::var_os(variable).filter(|more| !more.is_empty()) {
        list.push(":");
        list.push(more);
    }
    list
}

/// A status as shells tell it: that of the program, or 128 and the number of the signal that ended it.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let number = status.code().or(signal.map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}
