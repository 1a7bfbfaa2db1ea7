//! JSON, read into the same machine as a pickle. PyTorch's viewer tries it first (R9.26).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::pickle::PickleError;
use crate::pickle::arena::Kind;
use crate::pickle::machine::{At, Fold, Machine};
use crate::pickle::word::Word;

/// Why a text is not JSON, or not JSON that can be kept.
pub(crate) enum JsonError {
    Syntax(serde_json::Error),
    Machine(PickleError),
}

/// Errors of the machine name no opcode here; the position is that of the JSON error.
const AT: At = At { offset: 0, opcode: "JSON" };

/// Whether a file is JSON: no pickle begins like this.
pub(crate) fn looks_like_json(input: &[u8]) -> bool {
    let text = input.strip_prefix(BYTE_ORDER_MARK).unwrap_or(input);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a whole JSON text; the value it stands for is on top of the machine's stack.
pub(crate) fn run<F: Fold>(machine: &mut Machine<'_, F>, input: &[u8]) -> Result<At, JsonError> {
    let text = input.strip_prefix(BYTE_ORDER_MARK).unwrap_or(input);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let mut failed = None;
    let seed = Seed { machine, failed: &mut failed };
    let done = seed.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match (failed, done) {
        (Some(error), _) => Err(JsonError::Machine(error)),
        (None, Err(error)) => Err(JsonError::Syntax(error)),
        (None, Ok(())) => Ok(AT),
    }
}

/// Puts one JSON value on top of the machine's stack.
struct Seed<'m, 'a, F> {
    machine: &'m mut Machine<'a, F>,
    failed: &'m mut Option<PickleError>,
}

impl<'a, F: Fold> Seed<'_, 'a, F> {
    fn inner(&mut self) -> Seed<'_, 'a, F> {
        Seed { machine: self.machine, failed: self.failed }
    }

    fn step<E: Error>(&mut self, step: impl FnOnce(&mut Machine<'a, F>) -> Result<(), PickleError>) -> Result<(), E> {
        step(self.machine).map_err(|error| {
            *self.failed = Some(error);
            E::custom("see the machine's error")
        })
    }

    fn int<E: Error>(&mut self, value: i128) -> Result<(), E> {
        self.step(|machine| {
            let word = machine.arena.keep_int(value);
            machine.push(word.unwrap_or(Word::NONE))
        })
    }
}

impl<'de, F: Fold> DeserializeSeed<'de> for Seed<'_, '_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Fold> Visitor<'de> for Seed<'_, '_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.step(|machine| machine.push(Word::NONE))
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        self.step(|machine| machine.push(Word::bool(value)))
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        self.int(value.into())
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        self.int(value.into())
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.step(|machine| {
            let word = machine.arena.keep_float(value);
            machine.push(word)
        })
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.step(|machine| {
            let word = machine.arena.keep_text(text.as_bytes());
            machine.push(word)
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.step(|machine| machine.push_empty(Kind::List))?;
        self.step(|machine| machine.mark())?;
        while items.next_element_seed(self.inner())?.is_some() {}
        self.step(|machine| machine.appends(AT))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<(), A::Error> {
        self.step(|machine| machine.push_empty(Kind::Dict))?;
        self.step(|machine| machine.mark())?;
        while pairs.next_key_seed(self.inner())?.is_some() {
            pairs.next_value_seed(self.inner())?;
        }
        self.step(|machine| machine.set_items(AT))
    }
}
