//! What PyTorch accepts without a word although it is surely not meant.

use crate::config::keys::{Form, Key};
use crate::config::number;
use crate::config::reader::Tokens;
use crate::config::warning::Warning;

use super::{Entry, Notice, NoticeKind};

/// What is odd about a pair that was accepted: its key stands at `index`, its value ends at `last`.
pub(super) fn of_pair(
    notices: &mut Vec<Notice>,
    tokens: &Tokens,
    key: Key,
    index: usize,
    last: usize,
    before: &[Entry],
) {
    let mut note =
        |kind, at: usize, message: String| notices.push(Notice { kind, at: Some(tokens.place(at)), message });
    if before.iter().any(|entry| entry.key == key) {
        let message = format!("'{}' is written more than once; the last one counts.", key.name());
        note(NoticeKind::Repeated, index, message);
    }
    for at in index..=last {
        if let Some(token) = tokens.get(at).filter(|token| token.is_joined()) {
            let message = format!("White space is dropped: this is read as the one word '{}'.", token.text);
            note(NoticeKind::SpaceInWord, at, message);
        }
    }
    for at in numbers(tokens, key, index, last) {
        let Some(token) = tokens.get(at) else { continue };
        let word = token.text.as_str();
        let len = match key.form() {
            Form::Whole => number::stoull(word).map(|read| read.len),
            _ => number::stod(word).map(|read| read.len),
        };
        if let Ok(len) = len
            && len < word.len()
        {
            let message = format!("Only '{}' of '{word}' is read; what trails the number is ignored.", &word[..len]);
            note(NoticeKind::TrailingText, at, message);
        }
        if key.form() == Form::Whole && word.starts_with('-') {
            let message = format!("'{word}' is not refused but wraps around to a very large number.");
            note(NoticeKind::Minus, at, message);
        }
    }
    if key == Key::RoundupPower2Divisions {
        divisions(&mut note, tokens, index, last);
    }
}

/// The reserves that PyTorch ignores in the pair whose key stands at `index`, each at its place.
pub(super) fn of_warnings(notices: &mut Vec<Notice>, tokens: &Tokens, index: usize, warnings: &[Warning]) {
    for warning in warnings {
        if let Warning::Reserve { value } = warning {
            let at = (index + 2..tokens.len()).find(|&at| tokens.is(at, value)).map(|at| tokens.place(at));
            notices.push(Notice { kind: NoticeKind::IgnoredReserve, at, message: warning.to_string() });
        }
    }
}

/// Where another sign stands than belongs there. The signs of a list are looked at too.
pub(super) fn of_separators(notices: &mut Vec<Notice>, tokens: &Tokens, index: usize, last: usize) {
    let mut expect = |at: usize, sign: &str, name: &str| {
        if let Some(token) = tokens.get(at).filter(|token| token.text != sign) {
            let message = format!("{name} belongs here; PyTorch takes '{}' for it without a look.", token.text);
            notices.push(Notice { kind: NoticeKind::Separator, at: Some(token.at.clone()), message });
        }
    };
    expect(index + 1, ":", "A colon");
    if tokens.is(index + 2, "[") {
        for entry in (index + 3..last).step_by(4) {
            expect(entry + 1, ":", "A colon");
            if entry + 3 < last {
                expect(entry + 3, ",", "A comma");
            }
        }
    }
    expect(last + 1, ",", "A comma");
}

/// The tokens of a value that are read as numbers.
fn numbers(tokens: &Tokens, key: Key, index: usize, last: usize) -> Vec<usize> {
    match key.form() {
        Form::Word | Form::Reserve => Vec::new(),
        _ if !tokens.is(index + 2, "[") => vec![index + 2],
        _ => list_entries(index, last).flat_map(|entry| [entry, entry + 2]).filter(|&at| at < last).collect(),
    }
}

/// Where the entries of a well-formed list begin.
fn list_entries(index: usize, last: usize) -> impl Iterator<Item = usize> {
    (index + 3..last).step_by(4)
}

fn divisions(note: &mut impl FnMut(NoticeKind, usize, String), tokens: &Tokens, index: usize, last: usize) {
    let value = index + 2;
    if !tokens.is(value, "[") {
        if is_one(tokens, value) {
            note(NoticeKind::OneDivision, value, ONE_DIVISION.into());
        }
        return;
    }
    // The last listed interval, as the power of two of its size in MiB.
    let mut before: Option<u32> = None;
    for entry in list_entries(index, last) {
        if is_one(tokens, entry + 2) {
            note(NoticeKind::OneDivision, entry + 2, ONE_DIVISION.into());
        }
        let Some(size) = tokens.get(entry).and_then(|token| number::stoull(&token.text).ok()) else { continue };
        // All sizes from 32 GiB share the last interval.
        let at = size.value.checked_ilog2().unwrap_or(0).min(15);
        if let Some(before) = before
            && at > before + 1
        {
            let (from, to) = (1u64 << (before + 1), size.value);
            let message = format!(
                "Sizes from {from} to {to} MiB are not in the list and are not rounded: a gap does not take the entry before it."
            );
            note(NoticeKind::UnlistedIntervals, entry, message);
        }
        before = Some(at);
    }
}

const ONE_DIVISION: &str =
    "One division does not round to the next power of two: it does nothing, like 0. The least that rounds is 2.";

fn is_one(tokens: &Tokens, at: usize) -> bool {
    tokens.get(at).and_then(|token| number::stoull(&token.text).ok()).is_some_and(|read| read.value == 1)
}
