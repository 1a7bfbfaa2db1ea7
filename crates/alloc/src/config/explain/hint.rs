//! How a fault was probably meant.

use crate::config::error::{ConfigError, Problem};
use crate::config::grammar::{Token, tokenize};
use crate::config::keys::Key;
use crate::config::{number, spelling};

/// A sentence that says how it was probably meant, if that can be told.
pub(super) fn hint(error: &ConfigError) -> Option<String> {
    let tokens = tokenize(&error.text);
    let index = tokens.iter().position(|token| token.at.start == error.at.start);
    if error.text.contains(';') {
        return Some("a comma stands between two settings, not a semicolon".into());
    }
    match &error.problem {
        Problem::UnknownKey { key, .. } => key_hint(key, &tokens, index),
        Problem::EndsEarly { key, .. } => {
            let at = tokens.iter().rposition(|token| token.text == *key);
            key_hint(key, &tokens, at)
                .or_else(|| Some(format!("write '{key}:' and a value behind it")).filter(|_| Key::find(key).is_some()))
        }
        Problem::NotAFlag { value, .. } | Problem::UnknownWord { value, .. } | Problem::NotANumber { value, .. } => {
            value_hint(error, value)
        }
        Problem::NotAllowed { key: Key::GarbageCollectionThreshold, value } => {
            let next_is_number = index.and_then(|index| tokens.get(index + 2)).is_some_and(is_number);
            if next_is_number {
                None
            } else {
                Some(format!("to turn collection off, leave the key out instead of writing '{value}'"))
            }
        }
        Problem::Divisions { value, in_list: false } if value == "0" => {
            Some("to turn rounding off, leave the key out".into())
        }
        Problem::SpaceInWord { word } => Some(joined_hint(word)),
        _ => None,
    }
}

fn key_hint(key: &str, tokens: &[Token], index: Option<usize>) -> Option<String> {
    if let Some((name, value)) = key.split_once('=') {
        let name = Key::find(name).map(Key::name).or_else(|| spelling::nearest_key(name, false)).unwrap_or(name);
        return Some(format!("a colon stands between key and value: {name}:{value}"));
    }
    if key.contains(['"', '\'']) {
        return Some("quotes are read as part of the word: the shell should take them off".into());
    }
    let index = index?;
    if is_number(&tokens[index]) {
        let before = index.checked_sub(2).map(|before| &tokens[before]).filter(|before| is_number(before));
        return before.map(|before| {
            format!("the comma ends the value and {key} is taken for a key: write {}.{key}", before.text)
        });
    }
    if tokens[index].is_joined() {
        return Some(joined_hint(key));
    }
    match key {
        "expandable_segments_handle_type" => {
            Some("PyTorch's own error texts name this key, but its parser does not know it".into())
        }
        "roundup_bypass_threshold_mb" => Some("the key was proposed for PyTorch and is not in 2.15".into()),
        _ => None,
    }
}

fn value_hint(error: &ConfigError, value: &str) -> Option<String> {
    if value.contains(['"', '\'']) {
        return Some("quotes are read as part of the word: the shell should take them off".into());
    }
    let is_off =
        matches!(value.to_ascii_lowercase().as_str(), "none" | "off" | "unlimited" | "inf" | "default" | "null");
    let key = error.key().filter(|_| matches!(error.problem, Problem::NotANumber { .. }) && is_off)?;
    Some(format!("for the default of '{key}', leave the key out"))
}

fn joined_hint(word: &str) -> String {
    format!("white space is dropped, so this is read as the one word '{word}'")
}

fn is_number(token: &Token) -> bool {
    number::stod(&token.text).is_ok_and(|read| read.len == token.text.len())
}
