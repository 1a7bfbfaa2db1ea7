//! The outer form of everything said in JSON.

use serde::Serialize;

/// The number of the JSON shapes. It rises when a key goes or changes its meaning, not when one is added.
pub const SCHEMA: u32 = 1;

/// An object whose first key is `"schema"`.
#[derive(Clone, Debug, Serialize)]
pub struct Document<T> {
    schema: u32,
    #[serde(flatten)]
    body: T,
}

impl<T: Serialize> Document<T> {
    /// Puts the schema's number in front of `body`, which serialises to an object.
    pub fn new(body: T) -> Self {
        Document { schema: SCHEMA, body }
    }

    /// The document on one line, without an end of line.
    pub fn line(&self) -> String {
        // The shapes of this crate have texts for keys and no failing serialisers, so this cannot fail; a body of another
        // kind would be a mistake in the caller, and says so instead of ending the process.
        serde_json::to_string(self).unwrap_or_else(|error| {
            let error = serde_json::Value::from(error.to_string());
            format!("{{\"schema\":{SCHEMA},\"error\":{error}}}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_comes_first() {
        #[derive(Serialize)]
        struct Body {
            answer: u32,
        }
        assert_eq!(Document::new(Body { answer: 42 }).line(), r#"{"schema":1,"answer":42}"#);
    }

    #[test]
    fn what_is_no_object_says_so() {
        assert!(Document::new(42).line().starts_with(r#"{"schema":1,"error":"#));
    }
}
