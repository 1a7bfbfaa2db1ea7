//! Plain values, read as what their place asks for.

use super::error::ModelError;
use crate::model::{BlockState, PoolId, SegmentType};
use crate::pickle::arena::{Arena, Kind};
use crate::pickle::word::{Item, Word};
use crate::trace::TimeUs;

type Result<T> = std::result::Result<T, ModelError>;

/// An unsigned number of bytes, or of microseconds.
pub(crate) fn unsigned(arena: &Arena<'_>, word: Word) -> Result<u64> {
    arena
        .int(word)
        .and_then(|value| u64::try_from(value).ok())
        .ok_or_else(|| ModelError::wrong(arena, word, "an integer of 0 or more"))
}

/// An address or a handle: PyTorch's own pickler writes one with the top bit set as a negative
/// integer.
pub(crate) fn address(arena: &Arena<'_>, word: Word) -> Result<u64> {
    let value = arena.int(word);
    value
        .and_then(|value| {
            let signed = i64::try_from(value).map(|value| value as u64);
            signed.or_else(|_| u64::try_from(value)).ok()
        })
        .ok_or_else(|| ModelError::wrong(arena, word, "an integer of at most 64 bits"))
}

/// A time in microseconds.
pub(crate) fn time(arena: &Arena<'_>, word: Word) -> Result<TimeUs> {
    let us = arena.int(word).and_then(|value| u64::try_from(value).ok());
    us.filter(|&us| us < u64::MAX)
        .map(TimeUs::new)
        .ok_or_else(|| ModelError::wrong(arena, word, "a time in microseconds"))
}

pub(crate) fn signed(arena: &Arena<'_>, word: Word) -> Result<i64> {
    arena
        .int(word)
        .and_then(|value| i64::try_from(value).ok())
        .ok_or_else(|| ModelError::wrong(arena, word, "an integer of 64 bits with sign"))
}

/// A device index; −1 is the host.
pub(crate) fn device(arena: &Arena<'_>, word: Word) -> Result<i32> {
    arena
        .int(word)
        .and_then(|value| i32::try_from(value).ok())
        .ok_or_else(|| ModelError::wrong(arena, word, "a device index"))
}

pub(crate) fn boolean(arena: &Arena<'_>, word: Word) -> Result<bool> {
    match word.item() {
        Item::Bool(value) => Ok(value),
        // Some tools write 0 and 1.
        Item::Int(value @ 0..=1) => Ok(value == 1),
        _ => Err(ModelError::wrong(arena, word, "True or False")),
    }
}

pub(crate) fn text<'a>(arena: &'a Arena<'_>, word: Word) -> Result<&'a str> {
    match word.item() {
        Item::Text(position) => Ok(arena.text(position)),
        _ => Err(ModelError::wrong(arena, word, "a text")),
    }
}

/// A text that is one of the words `known` takes.
pub(crate) fn word<T: Words>(arena: &Arena<'_>, word: Word, known: fn(&str) -> Option<T>) -> Result<T> {
    known(text(arena, word)?).ok_or_else(|| ModelError::wrong(arena, word, T::WORDS))
}

/// The words of an enumeration, for errors.
pub(crate) trait Words {
    /// As part of a sentence.
    const WORDS: &str;
}

impl Words for SegmentType {
    const WORDS: &str = "\"large\" or \"small\"";
}

impl Words for BlockState {
    const WORDS: &str = "\"active_allocated\", \"active_pending_free\" or \"inactive\"";
}

/// A pool id: a tuple or list of two integers.
pub(crate) fn pool(arena: &Arena<'_>, word: Word) -> Result<PoolId> {
    let wrong = || ModelError::wrong(arena, word, "a pool id (two integers of 0 or more)");
    match word.item() {
        Item::Pair(first, second) => Ok(PoolId::new(first.into(), second.into())),
        Item::Node(id) => {
            let [first, second] = *arena.items(id) else {
                return Err(wrong());
            };
            let half = |word| arena.int(word).and_then(|value| u64::try_from(value).ok());
            match (half(first), half(second)) {
                (Some(first), Some(second)) if second < u64::MAX => Ok(PoolId::new(first, second)),
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// The members of a list or tuple.
pub(crate) fn list<'a>(arena: &'a Arena<'_>, word: Word) -> Result<&'a [Word]> {
    match word.item() {
        Item::Node(id) if matches!(arena.kind(id), Kind::List | Kind::Tuple) => Ok(arena.items(id)),
        _ => Err(ModelError::wrong(arena, word, "a list")),
    }
}

/// The keys and values of a dict.
pub(crate) fn dict<'a>(arena: &'a Arena<'_>, word: Word) -> Result<&'a [Word]> {
    match word.item() {
        Item::Node(id) if arena.kind(id) == Kind::Dict => Ok(arena.items(id)),
        _ => Err(ModelError::wrong(arena, word, "a dict")),
    }
}
