//! `millpond diff A B`: what grew between two states, by stack.

use std::path::{Path, PathBuf};

use millpond_doctor::diff;
use millpond_report::diff as shown;
use millpond_snapshot::Snapshot;
use millpond_viewer::export;

use super::Answer;
use super::past::{self, Beside};
use crate::content::{self, Content};
use crate::failure::Stop;
use crate::opened;
use crate::options::{Device, Extent, Packing, Source};
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The first state: the end of a snapshot, or of a replay of a workload
    before: PathBuf,

    /// The second one
    after: PathBuf,

    /// Replay the first under these settings, a snapshot too
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    conf_before: Option<String>,

    /// Replay the second under these settings, a snapshot too
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    conf_after: Option<String>,

    /// Show at most so many places that grew, and as many that shrank
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: Device,

    #[command(flatten)]
    packing: Packing,
}

/// Reads, replays what is to be replayed, compares.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let before = state(args, &args.before, args.conf_before.as_ref())?;
    let after = state(args, &args.after, args.conf_after.as_ref())?;
    let diff = diff(&before, &after);
    match args.json {
        true => shell.line(&shown::json(&diff))?,
        false => shell.print(&shown::text(&diff, args.top, shell.paint))?,
    }
    Ok(Answer::Done)
}

/// The state at the end of a file.
fn state(args: &Args, path: &Path, conf: Option<&String>) -> Result<Snapshot, Stop> {
    if conf.is_none()
        && let Content::Snapshot(whole) = content::of(path)?
    {
        return Ok(opened::snapshot(path, whole, args.packing)?);
    }
    let source = Source { device: args.device, packing: args.packing, ..Source::of(path) };
    let wish = past::Args { source, conf: conf.cloned().into_iter().collect(), extent: Extent::default() };
    let mut state = Snapshot::default();
    past::look(&wish, Beside::Nothing)?.page(|page| {
        state = export::snapshot(page);
        Ok(())
    })?;
    Ok(state)
}
