//! What a settings string says, and what an environment does.

mod json;
mod text;

use millpond::config::Explanation;

pub use json::{json, json_env};
pub use text::{text, text_env};

/// Whether the string makes settings.
pub fn is_accepted(explanation: &Explanation) -> bool {
    explanation.settings.is_some() && explanation.faults.is_empty()
}
