//! `millpond doctor SNAPSHOT`: why it ran out, and which setting fixes it.

use std::path::PathBuf;

use millpond_doctor::{Conf, Diagnosis, Known, diagnose};
use millpond_driver::Bytes;
use millpond_replay::snapshot::{Recording, devices};
use millpond_report::doctor as shown;

use super::Answer;
use crate::codes::Code;
use crate::content::{self, Content};
use crate::failure::{Failure, Stop};
use crate::opened;
use crate::options::Packing;
use crate::progress::Progress;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// A memory snapshot: pickle or JSON, plain, gzip or zstd
    file: PathBuf,

    /// The settings it was recorded under, in place of what the file says
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    conf: Option<String>,

    /// The device's memory, all of it: what others hold follows from it [default: of what the file says at an out-of-memory
    /// error, held and free together]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,

    /// Which device of the snapshot [default: all]
    #[arg(long, visible_alias = "device", value_name = "INDEX")]
    device_index: Option<usize>,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    packing: Packing,
}

/// Reads, replays, tells.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let path = &args.file;
    let whole = match content::of(path).map_err(advise)? {
        Content::Snapshot(whole) => whole,
        Content::Workload(_) => {
            let failure =
                Failure::at(Code::UnknownContent, path, "this is a workload, and the doctor looks at snapshots");
            return Err(failure
                .help("`millpond export FILE --to pickle -o SNAPSHOT` replays it and writes one")
                .into());
        }
    };
    let snapshot = opened::snapshot(path, whole, args.packing)?;
    let conf = args.conf.as_deref().map(Conf::read).transpose();
    let conf = conf.map_err(|error| Failure::setting("--conf", &error))?;
    let known = devices(&snapshot);
    if known.is_empty() {
        let message = "the snapshot holds no segments and no trace, so there is nothing to look at";
        return Err(Failure::at(Code::CannotReplay, path, message).into());
    }
    let wanted = args.device_index.map_or_else(|| known.clone(), |device| vec![device]);
    let mut diagnoses: Vec<Diagnosis> = Vec::new();
    for device in wanted {
        let recording = match &conf {
            Some(conf) => Recording::under(&snapshot, device, conf.settings.clone()),
            None => Recording::new(&snapshot, device),
        };
        let recording = recording.map_err(|error| Failure::at(Code::CannotReplay, path, error))?;
        check(args, &recording)?;
        let progress = Progress::new(shell, 1, "settings");
        diagnoses.push(diagnose(&recording, Known { total: args.capacity }, |done, of| progress.of(done, of)));
    }
    let source = path.display().to_string();
    let asked = shown::Asked { source: &source, has_several: known.len() > 1 };
    match args.json {
        true => shell.line(&shown::json(&diagnoses))?,
        false => shell.print(&shown::text(&diagnoses, asked, shell.paint))?,
    }
    Ok(Answer::Done)
}

/// Who has only the text of an error has too little, and hears what to collect.
fn advise(failure: Failure) -> Failure {
    match failure.code {
        Code::UnknownContent if failure.help.is_none() => failure.help(shown::COLLECT),
        _ => failure,
    }
}

/// A device that has less than what the file says was there is none.
fn check(args: &Args, recording: &Recording<'_>) -> Result<(), Failure> {
    let Some((capacity, oom)) = args.capacity.zip(recording.first_oom) else { return Ok(()) };
    let seen = Bytes(oom.reserved.saturating_add(oom.device_free));
    if capacity >= seen {
        return Ok(());
    }
    let message = format!(
        "--capacity {capacity} is less than what the file shows: at the error {} were held and {} free",
        Bytes(oom.reserved),
        Bytes(oom.device_free)
    );
    Err(Failure::new(Code::BadMachine, message).help(format!("give the device's whole memory, {seen} or more")))
}
