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

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::*;

    fn written(text: &str) -> Settings {
        Settings::written(text).unwrap().0
    }

    fn problem(text: &str) -> Problem {
        Settings::written(text).unwrap_err().problem
    }

    #[test]
    fn a_preset_sets_defaults_and_a_key_written_out_wins() {
        let settings = written("preset:millpond");
        assert!(settings.retry_after_sync && settings.pinned_size_classes);
        assert_eq!((settings.preset, settings.page_reuse), (Preset::Millpond, PageReuse::Pressure));
        let settings = written("preset:millpond,retry_after_sync:False,page_reuse:always");
        assert!(!settings.retry_after_sync && settings.pinned_size_classes);
        assert_eq!(settings.page_reuse, PageReuse::Always);
        assert_eq!(written("preset:torch"), Settings { text: "preset:torch".into(), ..Settings::default() });
        assert_eq!(problem("page_reuse:off,preset:torch"), Problem::PresetNotFirst);
    }

    #[test]
    fn a_preset_leaves_the_keys_of_pytorch_alone() {
        let (mut settings, _) = Settings::parse("expandable_segments:True,max_split_size_mb:128").unwrap();
        settings.apply("preset:millpond", Dialect::Millpond).unwrap();
        assert!(settings.expandable_segments);
        assert_eq!(settings.max_split_size, 128 * MIB);
    }

    #[test]
    fn only_what_is_written_changes() {
        let before = "max_split_size_mb:128,garbage_collection_threshold:0.5,roundup_power2_divisions:8";
        let (mut settings, _) = Settings::parse(before).unwrap();
        settings.apply("roundup_power2_divisions:[1024:2],large_segment_size_mb:40", Dialect::Millpond).unwrap();
        assert_eq!(settings.max_split_size, 128 * MIB);
        assert_eq!(settings.garbage_collection_threshold, 0.5);
        assert_eq!(settings.roundup_power2_divisions[9..12], [2, 2, 0]);
        assert_eq!(settings.max_non_split_rounding, 40 * MIB, "the default follows the large segment");
    }

    #[test]
    fn an_error_changes_nothing() {
        let mut settings = Settings::default();
        for text in [
            "expandable_segments:True,max_split_size_mb:1",
            "expandable_segments:True,x:1",
            "expandable_segments:True x",
        ] {
            settings.apply(text, Dialect::Millpond).unwrap_err();
            assert_eq!(settings, Settings::default());
        }
    }

    #[test]
    fn r1_1_a_larger_segment_is_refused_when_it_passes_what_was_set_before() {
        let (mut settings, _) = Settings::parse("max_split_size_mb:30").unwrap();
        let error = settings.apply("large_segment_size_mb:40", Dialect::Millpond).unwrap_err();
        assert_eq!(error.problem, Problem::BelowLargeSegment { key: Key::MaxSplitSizeMb, mib: 30, least: 40 });
        settings.apply("large_segment_size_mb:40,max_split_size_mb:50", Dialect::Millpond).unwrap();
    }

    #[test]
    fn r10_7_separators_must_stand() {
        for (text, expected, found) in [
            ("max_split_size_mb,128", "':'", ","),
            ("max_split_size_mb:128:expandable_segments:True", "','", ":"),
            (",max_split_size_mb:128", "a key", ","),
            ("expandable_segments:True,,", "a key", ","),
            ("max_split_size_mb:,expandable_segments:True", "a value", ","),
            ("roundup_power2_divisions:[64,8]", "':'", ","),
            ("roundup_power2_divisions:[64:8:128:8]", "',' or ']'", ":"),
            ("expandable_segments_reserve_by_class:0.5", "'['", "0.5"),
            ("backend:[native]", "a value", "["),
        ] {
            match problem(text) {
                Problem::Sign { expected: e, found: f, .. } => assert_eq!((e, f.as_str()), (expected, found), "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn r10_5_white_space_may_stand_between_words_only() {
        assert!(written(" expandable_segments : True ,\n max_split_size_mb : 128 , ").expandable_segments);
        let error = Settings::written("expand able_segments:True").unwrap_err();
        assert_eq!(error.problem, Problem::SpaceInWord { word: "expandable_segments".into() });
        assert_eq!(error.nearest(), Some("expandable_segments"));
    }

    #[test]
    fn r10_8_numbers_are_read_to_the_end() {
        for text in
            ["max_split_size_mb:128MiB", "garbage_collection_threshold:0.8x", "roundup_power2_divisions:[64:8x]"]
        {
            assert!(matches!(problem(text), Problem::TrailingText { .. }), "{text}");
        }
        assert!(matches!(problem("max_split_size_mb:-1"), Problem::NotAllowed { .. }));
        assert!(matches!(problem("expandable_segments_reserve:40M"), Problem::Reserve { .. }));
        assert!(matches!(problem("expandable_segments_reserve_by_class:[a:40M]"), Problem::Reserve { .. }));
    }

    #[test]
    fn r10_10_unknown_keys_name_their_neighbour() {
        let error = Settings::written("page_reus:always").unwrap_err();
        assert_eq!(error.nearest(), Some("page_reuse"));
        assert_eq!(
            error.to_string(),
            "there is no key 'page_reus'; did you mean 'page_reuse'? (at byte 0 of \"page_reus:always\")"
        );
    }

    #[test]
    fn the_keys_of_millpond_are_checked() {
        assert_eq!(written("page_size_mb:4").page_size, 4 * MIB);
        for text in ["page_size_mb:0", "page_size_mb:3"] {
            assert!(matches!(problem(text), Problem::NotAllowed { .. }), "{text}");
        }
        for text in ["page_reuse:maybe", "preset:pytorch"] {
            assert!(matches!(problem(text), Problem::UnknownWord { .. }), "{text}");
        }
        for text in ["retry_after_sync:1", "pinned_size_classes:true"] {
            assert!(matches!(problem(text), Problem::NotAFlag { .. }), "{text}");
        }
        let error = Settings::written("page_reuse:presure").unwrap_err();
        assert_eq!(
            error.to_string(),
            "'page_reuse' cannot be 'presure'; allowed is off, pressure or always; did you mean 'pressure'? (at byte 11 of \
             \"page_reuse:presure\")"
        );
    }

    #[test]
    fn r10_18_the_backend_is_chosen_at_the_start_alone() {
        assert_eq!(written("backend:cudaMallocAsync").backend, Backend::CudaMallocAsync);
        let error = Settings::default().apply("backend:cudaMallocAsync", Dialect::Millpond).unwrap_err();
        assert!(matches!(error.problem, Problem::BackendIsChosen { .. }));
    }
}
