//! What a replay came to.

mod hazards;
mod picture;
mod text;

use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::{Decision, Hazard, Ledger};
use serde::{Serialize, Serializer};

pub use text::text;

/// A ledger, and what it is the ledger of.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed<'a> {
    /// The figures. They come first, and with them the number of the schema.
    #[serde(flatten)]
    pub ledger: &'a Ledger,
    /// The file, or the scenario.
    pub source: &'a str,
    /// What the source is.
    pub kind: Kind,
    /// The device, as the source counts them.
    pub device: u32,
    /// The device's memory.
    pub capacity: Bytes,
    /// Of that, what others use.
    pub others: Bytes,
    /// The settings in force; in JSON the string.
    #[serde(rename = "conf", serialize_with = "settings_text")]
    pub settings: &'a Settings,
    /// When events complete.
    pub event_mode: EventMode,
    /// How many of the recorded decisions are reproduced under the recorded settings; of a snapshot.
    pub trust: Option<Trust>,
    /// The seed; of a scenario.
    pub seed: Option<u64>,
    /// The uses of memory that nothing orders, where they were looked for.
    #[serde(serialize_with = "hazards::serialize")]
    pub hazards: Option<&'a [Hazard]>,
}

fn settings_text<S: Serializer>(settings: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&settings.text)
}

/// What was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file of requests.
    Workload,
    /// A memory snapshot.
    Snapshot,
    /// A generator of requests.
    Scenario,
}

/// When events complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventMode {
    /// When they are recorded.
    Immediate,
    /// When a request says so.
    Manual,
    /// When the snapshot's trace says so.
    Recorded,
}

/// The trust figure: everything else is worth as much as it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// Recorded allocations and out-of-memory errors.
    pub decisions: u64,
    /// Those with the recorded outcome.
    pub reproduced: u64,
    /// `registration` or `address`: which order of free blocks reproduces more.
    pub tie_order: &'static str,
}

/// The ledger's object with `source`, `kind`, `device`, `capacity`, `others`, `conf`, `event_mode`, `trust`, `seed`,
/// `hazards` and `assertions`, each `{"text", "holds", "actual"}`.
pub fn json(replayed: &Replayed<'_>, decisions: &[Decision]) -> String {
    #[derive(Serialize)]
    struct Said<'a> {
        #[serde(flatten)]
        replayed: &'a Replayed<'a>,
        assertions: Vec<Decided<'a>>,
    }
    #[derive(Serialize)]
    struct Decided<'a> {
        text: &'a str,
        holds: bool,
        actual: u64,
    }
    let decided = decisions.iter().map(|decision| Decided {
        text: &decision.text,
        holds: decision.holds,
        actual: decision.actual,
    });
    let said = Said { replayed, assertions: decided.collect() };
    // Texts, numbers and lists alone: this does not fail.
    serde_json::to_string(&said).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_comes_first_and_once() {
        let ledger = Ledger { schema: 1, events: 3, ..Ledger::default() };
        let replayed = Replayed {
            ledger: &ledger,
            source: "a.jsonl",
            kind: Kind::Workload,
            device: 0,
            capacity: Bytes(80 << 30),
            others: Bytes(0),
            settings: &Settings::default(),
            event_mode: EventMode::Immediate,
            trust: None,
            seed: None,
            hazards: None,
        };
        let decision = Decision { holds: true, text: "ooms == 0".into(), actual: 0 };
        let line = json(&replayed, &[decision]);
        assert!(line.starts_with("{\"schema\":1,\"events\":3,"), "{line}");
        assert_eq!(line.matches("schema").count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["kind"], &value["capacity"]), (&"workload".into(), &(80u64 << 30).into()));
        assert_eq!(value["assertions"][0]["holds"], true);
    }
}
