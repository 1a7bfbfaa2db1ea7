//! `millpond replay FILE`, `--scenario NAME`: requests on a simulated device, and the ledger of them.

mod args;
mod scenarios;
mod snapshot;
mod work;

use millpond::SegmentState;
use millpond_replay::{Assertion, Decision};
use millpond_report::count;
use millpond_report::replay::{self as shown, Replayed};

pub use args::Args;
use args::not_understood;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::opened::{self, Opened};
use crate::shell::Shell;

/// Replays what the source is, or lists the scenarios.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    // A claim that is not understood should not cost the run.
    args.assertions()?;
    if args.source.scenario.as_deref() == Some("list") {
        return scenarios::list(args.json, shell);
    }
    match opened::open(&args.source)? {
        Opened::Work(work) => work::replay(args, &work, shell),
        Opened::Snapshot { path, snapshot } => snapshot::replay(args, &path, &snapshot, shell),
    }
}

/// Shows what a replay came to and decides the assertions.
fn tell(args: &Args, replayed: &Replayed<'_>, at_peak: &[SegmentState], shell: &mut Shell) -> Result<Answer, Stop> {
    let decide = |assertion: &Assertion| assertion.decide(replayed).map_err(not_understood);
    let decisions = args.assertions()?.iter().map(decide).collect::<Result<Vec<Decision>, _>>()?;
    match args.json {
        true => shell.line(&shown::json(replayed, &decisions))?,
        false => shell.print(&shown::text(replayed, at_peak, &decisions, shell.paint))?,
    }
    let mut answer = Answer::Done;
    let hazards = replayed.hazards.unwrap_or_default();
    if !hazards.is_empty() {
        let message =
            format!("{} of memory are not in order", count(hazards.len() as u64, "pair of uses", "pairs of uses"));
        shell.fail(&Failure::new(Code::HazardsFound, message));
        answer = Answer::No;
    }
    for decision in decisions.iter().filter(|decision| !decision.holds) {
        shell.fail(&Failure::new(Code::AssertionFailed, decision.to_string()));
        answer = Answer::No;
    }
    Ok(answer)
}
