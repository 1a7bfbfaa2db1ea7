//! A scenario: requests from a seeded generator.

use millpond_replay::{SCENARIOS, Scenario};
use millpond_report::Document;
use millpond_report::replay::Kind;
use serde_json::{Value, json};

use super::requests::{Source, replay};
use super::{Answer, Args};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::shell::Shell;

/// Replays the scenario of that name, or lists them.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let name = args.scenario.as_deref().unwrap_or("list");
    if name == "list" {
        return list(args, shell);
    }
    let scenario = Scenario::named(name).map_err(|error| unknown(name, error.to_string()))?;
    let seed = args.seed.unwrap_or(0);
    let source = Source {
        name: scenario.name,
        kind: Kind::Scenario,
        seed: Some(seed),
        capacity: args.capacity.unwrap_or(scenario.capacity()),
        others: args.others.unwrap_or(scenario.others()),
        events: args.events.map_or(scenario.events, |events| events.mode()),
    };
    replay(args, &scenario.workload(seed), &source, shell)
}

fn list(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    if args.json {
        let value = |scenario: &Scenario| {
            let (capacity, others) = (scenario.capacity().0, scenario.others().0);
            json!({ "name": scenario.name, "about": scenario.about, "capacity": capacity, "others": others })
        };
        let scenarios: Vec<Value> = SCENARIOS.iter().map(value).collect();
        shell.line(&Document::new(json!({ "scenarios": scenarios })).line())?;
    } else {
        for Scenario { name, about, .. } in &SCENARIOS {
            shell.line(&format!("{}\n  {about}", shell.paint.strong(name)))?;
        }
    }
    Ok(Answer::Done)
}

/// Nobody knows all names by heart: the one that begins alike is probably meant.
pub fn unknown(name: &str, message: String) -> Failure {
    let alike = |scenario: &&Scenario| scenario.name.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let failure = Failure::new(Code::UnknownScenario, message);
    match SCENARIOS.iter().max_by_key(alike).filter(|scenario| alike(scenario) >= 2) {
        Some(scenario) => failure.help(format!("did you mean '{}'?", scenario.name)),
        None => failure.help("`millpond replay --scenario list` says what each does"),
    }
}
