//! Settings for programs.

use std::ops::Range;

use millpond::config::{
    Dialect, EnvExplanation, Explanation, Fault, Key, Notice, NoticeKind, Owner, Reaction, Settings, Source, Variable,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::is_accepted;
use crate::Document;

/// `{"schema", "accepted", "dialect", "text", "keys", "faults", "notices", "settings"}`. Places are bytes of the text:
/// the first and the one behind the last. `settings` is null when the string is refused.
pub fn json(explanation: &Explanation, dialect: Dialect) -> String {
    Document::new(Said::new(explanation, dialect)).line()
}

/// `{"schema", "accepted", "variables", "ignored", "caching_disabled", "notices", "settings"}`. An element of `variables` is
/// what [`json`] says of one string, with the variable's name.
pub fn json_env(env: &EnvExplanation) -> String {
    let variables: Vec<_> = env
        .variables
        .iter()
        .map(|&(variable, ref explanation)| OfVariable {
            variable: variable.name(),
            said: Said::new(explanation, dialect_of(variable)),
        })
        .collect();
    Document::new(OfEnvironment {
        accepted: env.outcome.is_ok() && variables.iter().all(|variable| variable.said.accepted),
        variables,
        ignored: env.sources.ignored.iter().map(Ignored::new).collect(),
        caching_disabled: env.is_caching_disabled,
        notices: env.notices.iter().map(SaidNotice::new).collect(),
        settings: env.outcome.as_ref().ok().map(values),
    })
    .line()
}

/// The dialect that a variable is written in.
fn dialect_of(variable: Variable) -> Dialect {
    if variable == Variable::Millpond { Dialect::Millpond } else { Dialect::Torch }
}

#[derive(Serialize)]
struct OfEnvironment<'a> {
    accepted: bool,
    variables: Vec<OfVariable<'a>>,
    ignored: Vec<Ignored<'a>>,
    caching_disabled: bool,
    notices: Vec<SaidNotice<'a>>,
    settings: Option<Value>,
}

#[derive(Serialize)]
struct OfVariable<'a> {
    variable: &'static str,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Serialize)]
struct Ignored<'a> {
    variable: &'static str,
    text: &'a str,
}

impl<'a> Ignored<'a> {
    fn new(source: &'a Source) -> Self {
        Ignored { variable: source.variable.name(), text: &source.text }
    }
}

#[derive(Serialize)]
struct Said<'a> {
    accepted: bool,
    dialect: &'static str,
    text: &'a str,
    keys: Vec<SaidKey<'a>>,
    faults: Vec<SaidFault<'a>>,
    notices: Vec<SaidNotice<'a>>,
    settings: Option<Value>,
}

impl<'a> Said<'a> {
    fn new(explanation: &'a Explanation, dialect: Dialect) -> Self {
        let keys = explanation.entries.iter().map(|entry| SaidKey {
            key: entry.key.name(),
            written: &entry.written,
            value: &entry.value,
            default: entry.key.default_text(),
            allowed: entry.key.allowed(),
            about: entry.key.about(),
            read_by: match entry.key.owner() {
                Owner::Generic => "pytorch",
                Owner::Cuda => "pytorch cuda",
                Owner::Millpond => "millpond",
            },
            at: place(&entry.at),
        });
        Said {
            accepted: is_accepted(explanation),
            dialect: match dialect {
                Dialect::Torch => "torch",
                Dialect::Millpond => "millpond",
            },
            text: &explanation.text,
            keys: keys.collect(),
            faults: explanation.faults.iter().map(SaidFault::new).collect(),
            notices: explanation.notices.iter().map(SaidNotice::new).collect(),
            settings: explanation.settings.as_ref().map(values),
        }
    }
}

#[derive(Serialize)]
struct SaidKey<'a> {
    key: &'static str,
    written: &'a str,
    value: &'a str,
    default: &'static str,
    allowed: &'static str,
    about: &'static str,
    read_by: &'static str,
    at: [usize; 2],
}

#[derive(Serialize)]
struct SaidFault<'a> {
    token: &'a str,
    at: [usize; 2],
    key: Option<&'a str>,
    message: String,
    allowed: Option<&'static str>,
    nearest: Option<&'static str>,
    hint: Option<&'a str>,
    pytorch: SaidReaction<'a>,
}

impl<'a> SaidFault<'a> {
    fn new(fault: &'a Fault) -> Self {
        SaidFault {
            token: &fault.token,
            at: place(&fault.at),
            key: fault.key.as_deref(),
            message: fault.error.to_string(),
            allowed: fault.allowed,
            nearest: fault.nearest,
            hint: fault.hint.as_deref(),
            pytorch: SaidReaction::new(&fault.torch),
        }
    }
}

/// What PyTorch 2.15 does with the string.
#[derive(Serialize)]
#[serde(tag = "does", rename_all = "snake_case")]
enum SaidReaction<'a> {
    Raises { exception: String, text: &'a str },
    Aborts { text: &'a str },
    Accepts { value: Option<&'a str> },
}

impl<'a> SaidReaction<'a> {
    fn new(reaction: &'a Reaction) -> Self {
        match reaction {
            Reaction::Raises { exception, text } => Self::Raises { exception: exception.to_string(), text },
            Reaction::Aborts { text } => Self::Aborts { text },
            Reaction::Accepts { value } => Self::Accepts { value: value.as_deref() },
        }
    }
}

#[derive(Serialize)]
struct SaidNotice<'a> {
    kind: String,
    at: Option<[usize; 2]>,
    message: &'a str,
}

impl<'a> SaidNotice<'a> {
    fn new(notice: &'a Notice) -> Self {
        SaidNotice { kind: kind(notice.kind), at: notice.at.as_ref().map(place), message: &notice.message }
    }
}

fn place(at: &Range<usize>) -> [usize; 2] {
    [at.start, at.end]
}

/// Every key and what it holds, in words.
fn values(settings: &Settings) -> Value {
    let values = Key::all().map(|key| (key.name().to_owned(), Value::from(settings.value_text(key))));
    Value::Object(values.collect::<Map<_, _>>())
}

/// A kind's name in snake case: `ThresholdWithoutLimit` is `threshold_without_limit`.
fn kind(kind: NoticeKind) -> String {
    let mut name = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, dialect: Dialect) -> Value {
        let explanation = millpond::config::explain(text, dialect);
        serde_json::from_str(&json(&explanation, dialect)).unwrap()
    }

    #[test]
    fn a_good_string_says_what_each_key_is() {
        let said = said("expandable_segments:True", Dialect::Torch);
        assert_eq!((&said["schema"], &said["accepted"]), (&1.into(), &true.into()));
        assert_eq!(said["keys"][0]["key"], "expandable_segments");
        assert_eq!(said["keys"][0]["at"], serde_json::json!([0, 24]));
        assert_eq!(said["settings"]["expandable_segments"], "True");
        assert_eq!(said["settings"]["backend"], "native");
    }

    #[test]
    fn a_bad_string_says_what_pytorch_does() {
        let said = said("expandable_segments:true", Dialect::Torch);
        assert_eq!((&said["accepted"], &said["settings"]), (&false.into(), &Value::Null));
        let fault = &said["faults"][0];
        assert_eq!((&fault["token"], &fault["nearest"]), (&"true".into(), &"True".into()));
        assert_eq!(fault["pytorch"]["does"], "raises");
        assert_eq!(fault["pytorch"]["exception"], "ValueError");
    }

    #[test]
    fn kinds_of_notices_are_snake_case() {
        assert_eq!(kind(NoticeKind::ThresholdWithoutLimit), "threshold_without_limit");
    }

    #[test]
    fn an_environment_names_its_variables() {
        let env = |name: &str| match name {
            "PYTORCH_CUDA_ALLOC_CONF" => Some(String::new()),
            "PYTORCH_ALLOC_CONF" => Some("expandable_segments:True".into()),
            _ => None,
        };
        let said: Value = serde_json::from_str(&json_env(&millpond::config::explain_env(&env))).unwrap();
        assert_eq!(said["variables"][0]["variable"], "PYTORCH_CUDA_ALLOC_CONF");
        assert_eq!(said["ignored"][0]["variable"], "PYTORCH_ALLOC_CONF");
        assert_eq!(said["settings"]["expandable_segments"], "False");
    }
}
