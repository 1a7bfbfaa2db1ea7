//! `millpond replay FILE`, `--scenario NAME`: requests on a simulated device, and the ledger of them.

mod args;
mod requests;
mod scenario;
mod snapshot;
mod workload;

use millpond::SegmentState;
use millpond_replay::{Assertion, Decision};
use millpond_report::count;
use millpond_report::replay::{self as shown, Replayed};

use args::not_understood;
pub use args::{Args, Events, check_capacity};
pub use scenario::unknown as unknown_scenario;

use super::Answer;
use crate::codes::Code;
use crate::content::{self, Content};
use crate::failure::{Failure, Stop};
use crate::shell::Shell;

/// Replays what the content of the file is, or a scenario.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    // A claim that is not understood should not cost the run.
    args.assertions()?;
    let Some(path) = &args.file else { return scenario::run(args, shell) };
    match content::of(path)? {
        Content::Workload(whole) => workload::run(args, path, whole, shell),
        Content::Snapshot(whole) => snapshot::run(args, path, whole, shell),
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
