//! What can be wrong with a file that is plain data but no snapshot.

use std::fmt;

use thiserror::Error;

use crate::pickle::PickleError;
use crate::pickle::arena::{Arena, Kind};
use crate::pickle::word::{Item, Word};

/// Why plain data is not a snapshot.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelError {
    /// A value is not of the kind that its place asks for.
    #[error("{place}: {wanted} is needed here, but this is {found}")]
    Wrong {
        /// Where: `segments[3].blocks[0].size`.
        place: String,
        /// What belongs there.
        wanted: &'static str,
        /// What stands there.
        found: String,
    },
    /// A key is missing without which the dict says nothing.
    #[error("{place}: the key {key:?} is missing")]
    Missing {
        /// Where.
        place: String,
        /// The key.
        key: &'static str,
    },
    /// An unknown key's value cannot be kept.
    #[error("{place}{}{source}", if place.is_empty() { "" } else { ": " })]
    Value {
        /// Where.
        place: String,
        /// Why.
        source: PickleError,
    },
    /// The root is neither a dict nor a list.
    #[error(
        "this is {found}, not a memory snapshot; a snapshot is a dict with the key \"segments\", or \
         a list of segments, as torch.cuda.memory._dump_snapshot writes it"
    )]
    NotASnapshot {
        /// What the file holds.
        found: String,
    },
}

impl ModelError {
    /// What stands at `word` is not what is `wanted`.
    pub(crate) fn wrong(arena: &Arena<'_>, word: Word, wanted: &'static str) -> Self {
        Self::Wrong { place: String::new(), wanted, found: describe(arena, word) }
    }

    pub(crate) fn missing(key: &'static str) -> Self {
        Self::Missing { place: String::new(), key }
    }

    /// The same error, seen from further out.
    pub(crate) fn within(mut self, outer: impl fmt::Display) -> Self {
        let (Self::Wrong { place, .. } | Self::Missing { place, .. } | Self::Value { place, .. }) = &mut self else {
            return self;
        };
        let dot = match place.chars().next() {
            None | Some('[') => "",
            Some(_) => ".",
        };
        *place = format!("{outer}{dot}{place}");
        self
    }
}

impl From<PickleError> for ModelError {
    fn from(source: PickleError) -> Self {
        Self::Value { place: String::new(), source }
    }
}

/// A value in a few words, for errors.
pub(crate) fn describe(arena: &Arena<'_>, word: Word) -> String {
    match word.item() {
        Item::None => "None".into(),
        Item::Bool(true) => "True".into(),
        Item::Bool(false) => "False".into(),
        Item::Int(value) => format!("the integer {value}"),
        Item::BigInt(position) => format!("the integer {}", arena.big_int(position)),
        Item::Float(position) => format!("the float {}", arena.float(position)),
        Item::Pair(..) => "a tuple".into(),
        Item::Bytes(_) => "bytes".into(),
        Item::Text(position) => {
            let text = arena.text(position);
            let short: String = text.chars().take(40).collect();
            let dots = if short.len() < text.len() { "…" } else { "" };
            format!("the text {short:?}{dots}")
        }
        Item::Node(id) => match arena.kind(id) {
            Kind::List => "a list",
            Kind::Tuple => "a tuple",
            Kind::Dict => "a dict",
            Kind::Row(_) => "a trace entry",
            Kind::Frame(_) => "a frame",
            Kind::Stack(_) => "a list of frames",
        }
        .into(),
    }
}
