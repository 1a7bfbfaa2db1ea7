//! Millpond's dialect: the same grammar held to the letter, all keys, and no reset of what is not written.
//!
//! The form is checked first, from end to end; then the keys are set by the very functions of PyTorch's dialect, so that what is
//! accepted here means the same there. An error changes nothing.

use super::error::{Assertion, ConfigError, Moment, Problem};
use super::grammar::Token;
use super::keys::{Form, Key, Owner};
use super::number;
use super::parse::{self, Seen};
use super::reader::{Tokens, bytes, reserve};
use super::settings::{Backend, MIB, PageReuse, Preset, Settings};
use super::warning::Warning;

/// A key and the index of its token.
type Pair = (Key, usize);

/// Applies a string at run time or, at first use, over what PyTorch's variables set.
pub(super) fn apply(settings: &mut Settings, text: &str, moment: Moment) -> Result<Vec<Warning>, ConfigError> {
    let tokens = Tokens::new(text, moment);
    let pairs = Grammar { tokens: &tokens }.pairs()?;
    let mut changed = settings.clone();
    changed.text = text.into();
    let mut warnings = Vec::new();

    set_large_segment(&mut changed, &tokens, &pairs)?;
    let written = |key| pairs.iter().find(|&&(written, _)| written == key).map(|&(_, at)| at);
    if written(Key::RoundupPower2Divisions).is_some() {
        changed.roundup_power2_divisions = [0; 16];
    }
    if let (Moment::FirstUse, Some(at)) = (tokens.moment(), written(Key::Backend)) {
        let is_async = tokens.is(at + 2, Backend::CudaMallocAsync.name());
        changed.backend = if is_async { Backend::CudaMallocAsync } else { Backend::Native };
    }
    let mut seen = Seen::default();
    for &(key, at) in &pairs {
        seen.note(key, at, &tokens);
        if key != Key::LargeSegmentSizeMb {
            parse::set(&mut changed, &tokens, key, at, &mut warnings)?;
        }
    }
    seen.warn(&changed, &mut warnings);
    *settings = changed;
    Ok(warnings)
}

/// `large_segment_size_mb` bounds two other keys, so it is read first. What an earlier string set must not fall below it.
fn set_large_segment(settings: &mut Settings, tokens: &Tokens, pairs: &[Pair]) -> Result<(), ConfigError> {
    let follows = settings.max_non_split_rounding == settings.large_segment_size;
    let mut last = None;
    for &(key, at) in pairs.iter().filter(|(key, _)| *key == Key::LargeSegmentSizeMb) {
        parse::set(settings, tokens, key, at, &mut Vec::new())?;
        last = Some(at);
    }
    let Some(at) = last else { return Ok(()) };
    let least = settings.large_segment_size;
    if follows {
        settings.max_non_split_rounding = least;
    }
    let bounded =
        [(Key::MaxSplitSizeMb, settings.max_split_size), (Key::MaxNonSplitRoundingMb, settings.max_non_split_rounding)];
    for (key, size) in bounded {
        let is_written = pairs.iter().any(|&(written, _)| written == key);
        if size < least && !is_written {
            return Err(tokens.error(at + 2, Problem::BelowLargeSegment { key, mib: size / MIB, least: least / MIB }));
        }
    }
    Ok(())
}

/// Sets one of Millpond's own keys, which stands at `at`: the index of its value.
pub(super) fn set(settings: &mut Settings, tokens: &Tokens, key: Key, at: usize) -> Result<usize, ConfigError> {
    let value = at + 2;
    let word = tokens.word(at, value, Assertion::Index)?;
    let unknown = || tokens.error(value, Problem::UnknownWord { key, value: word.into() });
    match key {
        Key::Preset => match word {
            "torch" => Preset::Torch.set_defaults(settings),
            "millpond" => Preset::Millpond.set_defaults(settings),
            _ => return Err(unknown()),
        },
        Key::RetryAfterSync => settings.retry_after_sync = tokens.flag(key, at, value)?,
        Key::PageReuse => {
            settings.page_reuse = match word {
                "off" => PageReuse::Off,
                "pressure" => PageReuse::Pressure,
                "always" => PageReuse::Always,
                _ => return Err(unknown()),
            }
        }
        Key::PageSizeMb => {
            let mib = tokens.whole(key, at, value)?;
            if mib < 2 || mib % 2 != 0 {
                return Err(tokens.not_allowed(key, value));
            }
            settings.page_size = bytes(mib);
        }
        Key::PinnedSizeClasses => settings.pinned_size_classes = tokens.flag(key, at, value)?,
        _ => debug_assert!(key.owner() != Owner::Millpond, "{key:?} is set here"),
    }
    Ok(value)
}

/// The check of the form.
struct Grammar<'t> {
    tokens: &'t Tokens<'t>,
}

impl Grammar<'_> {
    /// The pairs of a well-formed string. A comma may trail.
    fn pairs(&self) -> Result<Vec<Pair>, ConfigError> {
        let mut pairs = Vec::new();
        let mut index = 0;
        while index < self.tokens.len() {
            let token = self.plain(index, "a key", None)?;
            let Some(key) = Key::find(&token.text) else {
                let key = token.text.clone();
                return Err(self.tokens.error(index, Problem::UnknownKey { key, parser: Owner::Millpond }));
            };
            if key == Key::Preset && index > 0 {
                return Err(self.tokens.error(index, Problem::PresetNotFirst));
            }
            pairs.push((key, index));
            self.tokens.word(index, index + 1, Assertion::Index)?;
            self.sign(index + 1, ":", "':'", &token.text)?;
            let last = self.value(key, index)?;
            if last + 1 < self.tokens.len() {
                self.sign(last + 1, ",", "','", self.tokens.word(index, last, Assertion::Index)?)?;
            }
            index = last + 2;
        }
        Ok(pairs)
    }

    /// Checks the value of the key at `at`: the index of its last token.
    fn value(&self, key: Key, at: usize) -> Result<usize, ConfigError> {
        let value = at + 2;
        let is_list = self.tokens.word(at, value, Assertion::Index)? == "[";
        match key {
            Key::RoundupPower2Divisions | Key::ExpandableSegmentsReserveByClass if is_list => self.list(key, at),
            Key::ExpandableSegmentsReserveByClass => {
                Err(self.tokens.error(value, self.missing("'['", value, Some(key.name()))))
            }
            _ => {
                self.plain(value, "a value", Some(key.name()))?;
                self.number(key, value)?;
                Ok(value)
            }
        }
    }

    /// Checks the entries of a list: the index of its closing bracket.
    fn list(&self, key: Key, at: usize) -> Result<usize, ConfigError> {
        let mut index = at + 3;
        while self.tokens.word(at, index, Assertion::Bracket)? != "]" {
            let name = self.plain(index, "an entry", Some(key.name()))?;
            self.tokens.word(at, index + 1, Assertion::Bracket)?;
            self.sign(index + 1, ":", "':'", &name.text)?;
            self.tokens.word(at, index + 2, Assertion::Bracket)?;
            self.plain(index + 2, "a value", Some(&name.text))?;
            if key == Key::RoundupPower2Divisions && name.text != ">" {
                self.number(key, index)?;
            }
            self.number(key, index + 2)?;
            index += 3;
            if self.tokens.word(at, index, Assertion::Bracket)? != "]" {
                self.sign(index, ",", "',' or ']'", self.tokens.word(at, index - 1, Assertion::Bracket)?)?;
                index += 1;
            }
        }
        Ok(index)
    }

    /// A word, in one piece.
    fn plain(&self, index: usize, expected: &'static str, key: Option<&str>) -> Result<&Token, ConfigError> {
        match self.tokens.get(index) {
            Some(token) if token.is_sign() => Err(self.tokens.error(index, self.missing(expected, index, key))),
            Some(token) if token.is_joined() => {
                Err(self.tokens.error(index, Problem::SpaceInWord { word: token.text.clone() }))
            }
            Some(token) => Ok(token),
            None => Err(self.tokens.error(index, self.missing(expected, index, key))),
        }
    }

    fn sign(&self, index: usize, sign: &str, expected: &'static str, after: &str) -> Result<(), ConfigError> {
        if self.tokens.is(index, sign) {
            return Ok(());
        }
        Err(self.tokens.error(index, self.missing(expected, index, Some(after))))
    }

    fn missing(&self, expected: &'static str, index: usize, after: Option<&str>) -> Problem {
        let found = self.tokens.get(index).map_or_else(String::new, |token| token.text.clone());
        Problem::Sign { expected, found, key: after.map(str::to_string) }
    }

    /// A number to its last letter and without a minus that would wrap around; a reserve that is one.
    fn number(&self, key: Key, index: usize) -> Result<(), ConfigError> {
        let Some(token) = self.tokens.get(index) else { return Ok(()) };
        let value = token.text.clone();
        let read = match key.form() {
            Form::Whole if value.starts_with('-') => return Err(self.tokens.not_allowed(key, index)),
            Form::Whole => number::stoull(&value).map(|read| read.len),
            Form::Real => number::stod(&value).map(|read| read.len),
            Form::Reserve if reserve(&value).is_none() => {
                return Err(self.tokens.error(index, Problem::Reserve { key, value }));
            }
            _ => return Ok(()),
        };
        match read {
            Ok(len) if len < value.len() => {
                let number = value[..len].to_string();
                Err(self.tokens.error(index, Problem::TrailingText { key, value, number }))
            }
            // What is no number at all is refused when it is set.
            _ => Ok(()),
        }
    }
}
