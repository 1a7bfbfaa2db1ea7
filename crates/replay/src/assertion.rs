//! Claims about figures: `peak_reserved < 70GiB`.

use std::cmp::Ordering;
use std::str::FromStr;

use millpond_driver::{Bytes, ParseBytesError};
use serde::Serialize;
use serde_json::Value;

/// How two numbers should stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// All relations; those of two letters first, so that `<=` is not read as `<`.
const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

impl Relation {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Relation::Less => ordering.is_lt(),
            Relation::LessOrEqual => ordering.is_le(),
            Relation::Greater => ordering.is_gt(),
            Relation::GreaterOrEqual => ordering.is_ge(),
            Relation::Equal => ordering.is_eq(),
            Relation::NotEqual => ordering.is_ne(),
        }
    }
}

/// A claim about one figure of a ledger or another report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    text: String,
    field: String,
    relation: Relation,
    value: Bytes,
}

/// A claim that cannot be understood or decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssertionError {
    /// Not a field, an operator and a size.
    #[error(
        "'{text}' is no claim: write a field, one of < <= > >= == !=, and a number or size, as in 'peak_reserved < 70GiB'"
    )]
    Form {
        /// As it was written.
        text: String,
    },
    /// What it is compared with is no size.
    #[error("in '{text}': {error}")]
    Value {
        /// As it was written.
        text: String,
        /// What is wrong.
        error: ParseBytesError,
    },
    /// A field that is not there, or is no number.
    #[error("in '{text}': there is no number '{field}'; there are {}", .known.join(", "))]
    Field {
        /// As it was written.
        text: String,
        /// The field.
        field: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// Whether a claim holds, and the figure that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it holds.
    pub holds: bool,
    /// The claim.
    pub text: String,
    /// The figure.
    pub actual: u64,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Decision { holds, text, actual } = self;
        let verdict = if *holds { "holds" } else { "does not hold" };
        write!(f, "{text}: {verdict}, it is {actual}")?;
        if *actual >= 1 << 20 { write!(f, " ({})", Bytes(*actual)) } else { Ok(()) }
    }
}

impl FromStr for Assertion {
    type Err = AssertionError;

    fn from_str(text: &str) -> Result<Self, AssertionError> {
        let form = || AssertionError::Form { text: text.to_owned() };
        let at = text.find(['<', '>', '=', '!']).ok_or_else(form)?;
        let (field, rest) = text.split_at(at);
        let found = RELATIONS.iter().find_map(|&(sign, relation)| Some((relation, rest.strip_prefix(sign)?)));
        let (relation, value) = found.ok_or_else(form)?;
        let (field, value) = (field.trim(), value.trim());
        if field.is_empty() || value.is_empty() {
            return Err(form());
        }
        let value = value.parse().map_err(|error| AssertionError::Value { text: text.to_owned(), error })?;
        Ok(Assertion { text: text.trim().to_owned(), field: field.to_owned(), relation, value })
    }
}

impl Assertion {
    /// Decides the claim by a report's figures. A field inside another is written with a dot: `driver_calls.malloc`.
    ///
    /// # Errors
    /// [`AssertionError::Field`].
    pub fn decide(&self, report: &impl Serialize) -> Result<Decision, AssertionError> {
        // A report that cannot be written as JSON has no fields.
        let report = serde_json::to_value(report).unwrap_or(Value::Null);
        let found = self.field.split('.').try_fold(&report, |value, name| value.get(name)).and_then(Value::as_u64);
        let Some(actual) = found else {
            let mut known = Vec::new();
            numbers(&report, "", &mut known);
            return Err(AssertionError::Field { text: self.text.clone(), field: self.field.clone(), known });
        };
        Ok(Decision { holds: self.relation.holds(actual.cmp(&self.value.0)), text: self.text.clone(), actual })
    }
}

/// The names of all numbers in a report; lists have none.
fn numbers(value: &Value, name: &str, known: &mut Vec<String>) {
    match value {
        Value::Number(_) => known.push(name.to_owned()),
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                numbers(value, &name, known);
            }
        }
        _ => {}
    }
}
