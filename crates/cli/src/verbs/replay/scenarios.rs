//! The scenarios: requests from seeded generators.

use millpond_replay::{SCENARIOS, Scenario};
use millpond_report::Document;
use serde_json::{Value, json};

use super::Answer;
use crate::failure::Stop;
use crate::shell::Shell;

/// Says what each does.
pub fn list(as_json: bool, shell: &mut Shell) -> Result<Answer, Stop> {
    if as_json {
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
