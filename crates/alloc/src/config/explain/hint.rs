//! How a fault was probably meant.

use crate::config::error::{ConfigError, Problem};
use crate::config::grammar::{Token, tokenize};
use crate::config::keys::Key;
use crate::config::{number, spelling};

/// A sentence that says how it was probably meant, if that can be told.
pub(super) fn hint(error: &ConfigError) -> Option<String> {
    let tokens = tokenize(&error.text);
    let index = tokens.iter().position(|token| token.at.start == error.at.start)?;
    slip_of_signs(error, &tokens, index).or_else(|| match &error.problem {
        Problem::EndsEarly { key, .. } if Key::find(key).is_some() && !error.text.contains('[') => {
            Some(format!("write '{key}:' and a value behind it"))
        }
        Problem::UnknownKey { key, .. } => known_elsewhere(key),
        Problem::NotANumber { key, value, .. } => is_default(value).then(|| leave_out(*key)),
        Problem::NotAllowed { key: key @ Key::GarbageCollectionThreshold, value } => {
            matches!(value.as_str(), "1" | "1.0" | "0" | "0.0").then(|| leave_out(*key))
        }
        Problem::Divisions { value, in_list: false } if value == "0" => Some(leave_out(Key::RoundupPower2Divisions)),
        Problem::Divisions { value, .. } | Problem::Interval { value } => neighbours(value),
        Problem::Threads { threads } if *threads < 128 => neighbours(&threads.to_string()),
        _ => None,
    })
}

/// Another sign, a space or quotes where the grammar has a comma or a colon.
fn slip_of_signs(error: &ConfigError, tokens: &[Token], index: usize) -> Option<String> {
    let token = &tokens[index];
    let is_key = matches!(error.problem, Problem::UnknownKey { .. } | Problem::EndsEarly { .. });
    if error.text.contains(';') {
        return Some("a comma stands between two settings, not a semicolon".into());
    }
    if let Some((name, value)) = token.text.split_once('=').filter(|_| is_key) {
        let name = Key::find(name).map(Key::name).or_else(|| spelling::nearest_key(name, false)).unwrap_or(name);
        return Some(format!("a colon stands between key and value: {name}:{value}"));
    }
    if token.text.contains(['"', '\'']) {
        return Some("quotes are read as part of the word: the shell should take them off".into());
    }
    let is_early = matches!(error.problem, Problem::EndsEarly { .. });
    let joined = tokens.iter().enumerate().find(|&(at, token)| token.is_joined() && (is_early || at == index));
    if let Some((_, joined)) = joined {
        return Some(format!(
            "white space is dropped and separates nothing: this is read as the one word '{}'",
            joined.text
        ));
    }
    let before = index.checked_sub(2).map(|before| &tokens[before]);
    if let Some(before) = before.filter(|before| is_key && is_number(token) && is_number(before)) {
        let (whole, part) = (&before.text, &token.text);
        return Some(format!("the comma ends the value and {part} is taken for a key: write {whole}.{part}"));
    }
    None
}

fn known_elsewhere(key: &str) -> Option<String> {
    match key {
        "expandable_segments_handle_type" => {
            Some("PyTorch's own error texts name this key, but its parser does not know it".into())
        }
        "roundup_bypass_threshold_mb" => Some("the key was proposed for PyTorch and is not in 2.15".into()),
        _ => None,
    }
}

/// Words with which other tools write a default.
fn is_default(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "none" | "off" | "unlimited" | "inf" | "default" | "null")
}

fn leave_out(key: Key) -> String {
    format!("for the default, {}, leave '{}' out", key.default_text(), key.name())
}

/// The powers of two beside a number that is none.
fn neighbours(value: &str) -> Option<String> {
    let number = number::stoull(value).ok()?.value;
    let above = number.checked_next_power_of_two()?;
    if number < 2 || above == number {
        return None;
    }
    Some(format!("the nearest powers of two are {} and {above}", above / 2))
}

fn is_number(token: &Token) -> bool {
    number::stod(&token.text).is_ok_and(|read| read.len == token.text.len())
}
