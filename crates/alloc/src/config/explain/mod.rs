//! What a settings string says: each key, each fault, what PyTorch makes of it, and what does not go together.

mod combine;
mod environment;
mod hint;
mod oddities;
mod walk;

use std::ops::Range;

use super::error::{ConfigError, Moment, Problem, TorchType};
use super::keys::Key;
use super::settings::Settings;
use super::strict;
use super::{Dialect, Warning};

use walk::Walk;

pub use environment::{EnvExplanation, explain_env};

/// Everything there is to say about a settings string.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The string.
    pub text: String,
    /// The keys that were understood, in the order they are written.
    pub entries: Vec<Entry>,
    /// What is refused. The first is the one that PyTorch meets first; the search ends after 32 more.
    pub faults: Vec<Fault>,
    /// What is accepted and surely or probably not meant.
    pub notices: Vec<Notice>,
    /// The settings it makes; none when it is refused.
    pub settings: Option<Settings>,
}

/// A key that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value as written, without white space.
    pub written: String,
    /// The bytes of the string that hold the key and its value.
    pub at: Range<usize>,
    /// The value that was read, in words.
    pub value: String,
}

/// Something that is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What is bad, as written: a token, or all from the key whose value is not complete.
    pub token: String,
    /// Its bytes in the string.
    pub at: Range<usize>,
    /// The key it belongs to.
    pub key: Option<String>,
    /// What is allowed there.
    pub allowed: Option<&'static str>,
    /// The nearest valid spelling.
    pub nearest: Option<&'static str>,
    /// How it was probably meant, as a sentence.
    pub hint: Option<String>,
    /// What PyTorch 2.15 does with it.
    pub torch: Reaction,
    /// The error, whose text says what is wrong in one sentence.
    pub error: ConfigError,
}

/// What PyTorch does with a string that has a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// Raises an exception when the allocator is first used.
    Raises {
        /// Its type.
        exception: TorchType,
        /// Its text.
        text: String,
    },
    /// Ends the process with SIGABRT when torch is imported, even on a machine without a device.
    Aborts {
        /// What it writes to stderr.
        text: String,
    },
    /// Accepts the string silently.
    Accepts {
        /// The value it reads, in words.
        value: Option<String>,
    },
}

/// Something that is accepted and deserves a word.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// The bytes of the string it is about, if it is about one place.
    pub at: Option<Range<usize>>,
    /// One or two sentences.
    pub message: String,
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// Another sign where a colon or a comma belongs (R10.7).
    Separator,
    /// White space inside a word (R10.5).
    SpaceInWord,
    /// Text behind a number (R10.8).
    TrailingText,
    /// A minus that wraps around (R10.8).
    Minus,
    /// A key that is written twice.
    Repeated,
    /// A reserve that is ignored (R4.25).
    IgnoredReserve,
    /// Intervals between listed ones that stay off (R10.14).
    UnlistedIntervals,
    /// One division, which does nothing (R1.4).
    OneDivision,
    /// A threshold for collection without a limit it could refer to (R2.18).
    ThresholdWithoutLimit,
    /// Collection does not touch expandable segments (R2.18–R2.21).
    ThresholdWithExpandable,
    /// Expandable segments in a captured graph with NCCL.
    ExpandableWithCapture,
    /// Expandable blocks are split whatever `max_split_size_mb` says (R1.13).
    MaxSplitWithExpandable,
    /// Rounding of requests where blocks of any size are reused.
    RoundupWithExpandable,
    /// `large_segment_size_mb` is the page of expandable segments too (R1.1).
    LargeSegmentIsPage,
    /// A reserve for segments that are not there.
    ReserveWithoutExpandable,
    /// `max_non_split_rounding_mb` without `max_split_size_mb` (R1.25).
    RoundingWithoutMaxSplit,
    /// What `throw_on_cudamalloc_oom` does here (R2.40).
    ThrowOnOom,
    /// Keys of the caching allocator beside `backend:cudaMallocAsync` (R6.12, R10.19).
    AsyncIgnores,
    /// Rounding above the caching limit of pinned memory (R10.13).
    PinnedRoundAboveCached,
    /// Threads for a registration that does not happen (R7.11).
    ThreadsWithoutRegister,
    /// A variable that is set and not read (R10.1).
    IgnoredVariable,
    /// Two variables of which each is read in part (R10.1, R10.2).
    SplitVariables,
    /// A switch for caching that is not understood (R10.40).
    CachingSwitch,
}

/// Explains a string as PyTorch's variables or Millpond's hold it.
pub fn explain(text: &str, dialect: Dialect) -> Explanation {
    match dialect {
        Dialect::Torch => explain_torch(text),
        Dialect::Millpond => explain_millpond(text),
    }
}

fn explain_torch(text: &str) -> Explanation {
    let outcome = Settings::parse(text);
    let Walk { entries, errors, mut notices, settings: read, .. } = Walk::through(text, Dialect::Torch);
    let (settings, warnings, first) = match outcome {
        Ok((settings, warnings)) => (Some(settings), warnings, None),
        Err(error) => (None, Vec::new(), Some(error)),
    };
    let others = errors.into_iter().filter(|error| first.as_ref().is_some_and(|first| !tells_same(first, error)));
    let faults = first.iter().cloned().chain(others).map(torch_fault).collect();
    notices.extend(warnings.iter().filter_map(from_warning));
    notices.extend(combine::notices(settings.as_ref().unwrap_or(&read), &entries));
    Explanation { text: text.into(), entries, faults, notices, settings }
}

fn explain_millpond(text: &str) -> Explanation {
    let mut settings = Settings::default();
    let outcome = strict::apply(&mut settings, text, Moment::FirstUse);
    let Walk { entries, notices, .. } = Walk::through(text, Dialect::Millpond);
    match outcome {
        Ok(warnings) => {
            let mut notices: Vec<Notice> = notices.into_iter().filter(|notice| notice.kind.is_strict()).collect();
            notices.extend(warnings.iter().filter_map(from_warning));
            notices.extend(combine::notices(&settings, &entries));
            Explanation { text: text.into(), entries, faults: Vec::new(), notices, settings: Some(settings) }
        }
        Err(error) => {
            let faults = vec![millpond_fault(error, &entries)];
            Explanation { text: text.into(), entries, faults, notices: Vec::new(), settings: None }
        }
    }
}

impl NoticeKind {
    /// Whether the strict dialect accepts it too, so that it is worth a word there.
    fn is_strict(self) -> bool {
        matches!(self, NoticeKind::Repeated | NoticeKind::UnlistedIntervals | NoticeKind::OneDivision)
    }
}

/// Whether `error` adds nothing to `first`.
fn tells_same(first: &ConfigError, error: &ConfigError) -> bool {
    match (&first.problem, &error.problem) {
        (Problem::EndsEarly { key: ended, .. }, Problem::UnknownKey { key, .. }) => ended == key,
        _ => first.at == error.at,
    }
}

fn torch_fault(error: ConfigError) -> Fault {
    let torch = reaction(&error).unwrap_or(Reaction::Accepts { value: None });
    fault(error, torch)
}

/// A fault of Millpond's dialect, with what PyTorch makes of the same string.
fn millpond_fault(error: ConfigError, entries: &[Entry]) -> Fault {
    let torch = match Settings::parse(&error.text) {
        Err(of_torch) => reaction(&of_torch),
        Ok(_) => None,
    };
    let value = entries.iter().find(|entry| entry.at.contains(&error.at.start)).map(|entry| entry.value.clone());
    fault(error, torch.unwrap_or(Reaction::Accepts { value }))
}

fn fault(error: ConfigError, torch: Reaction) -> Fault {
    Fault {
        token: error.text[error.at.clone()].into(),
        at: error.at.clone(),
        key: error.key().map(str::to_string),
        allowed: error.allowed(),
        nearest: error.nearest(),
        hint: hint::hint(&error),
        torch,
        error,
    }
}

fn reaction(error: &ConfigError) -> Option<Reaction> {
    let text = error.torch_text()?;
    Some(match error.torch_type()? {
        TorchType::Abort => Reaction::Aborts { text },
        exception => Reaction::Raises { exception, text },
    })
}

/// PyTorch's own warnings, as far as nothing else here says the same.
fn from_warning(warning: &Warning) -> Option<Notice> {
    let kind = match warning {
        Warning::PinnedRoundAboveCached { .. } => NoticeKind::PinnedRoundAboveCached,
        Warning::CachingSwitch { .. } => NoticeKind::CachingSwitch,
        Warning::Reserve { .. } | Warning::AsyncIgnores => return None,
    };
    Some(Notice { kind, at: None, message: warning.to_string() })
}

#[cfg(test)]
mod tests {
    use NoticeKind::*;

    use super::*;

    fn kinds(text: &str) -> Vec<NoticeKind> {
        let explanation = explain(text, Dialect::Torch);
        assert!(explanation.faults.is_empty(), "{text}: {:?}", explanation.faults);
        explanation.notices.iter().map(|notice| notice.kind).collect()
    }

    fn first_fault(text: &str) -> Fault {
        explain(text, Dialect::Torch).faults.swap_remove(0)
    }

    #[test]
    fn each_key_is_told_with_its_value() {
        let text = "max_split_size_mb:128, garbage_collection_threshold : 0.8";
        let told: Vec<_> = explain(text, Dialect::Torch)
            .entries
            .into_iter()
            .map(|entry| (entry.key, entry.written, text[entry.at].to_string(), entry.value))
            .collect();
        let expected = [
            (Key::MaxSplitSizeMb, "128", "max_split_size_mb:128", "128 MiB"),
            (Key::GarbageCollectionThreshold, "0.8", "garbage_collection_threshold : 0.8", "0.8 of the limit"),
        ]
        .map(|(key, written, at, value)| (key, written.to_string(), at.to_string(), value.to_string()));
        assert_eq!(told, expected);
    }

    #[test]
    fn r10_7_r10_8_accepted_mistakes_are_told() {
        for (text, kind, place) in [
            ("max_split_size_mb,128", Separator, ","),
            ("max_split_size_mb:128:expandable_segments:False", Separator, ":"),
            ("roundup_power2_divisions:[64:8:128:4]", Separator, ":"),
            ("max_split _size_mb:128", SpaceInWord, "max_split _size_mb"),
            ("max_split_size_mb:128MB", TrailingText, "128MB"),
            ("per_process_memory_fraction:0.5x", TrailingText, "0.5x"),
            ("max_split_size_mb:-1", Minus, "-1"),
            ("max_split_size_mb:64,max_split_size_mb:128", Repeated, "max_split_size_mb"),
            ("release_lock_on_cudamalloc:True,release_lock_on_hipmalloc:True", Repeated, "release_lock_on_hipmalloc"),
            ("roundup_power2_divisions:[64:8,1024:4,>:4]", UnlistedIntervals, "1024"),
            ("roundup_power2_divisions:1", OneDivision, "1"),
            ("roundup_power2_divisions:[256:1,>:2]", OneDivision, "1"),
        ] {
            assert_eq!(kinds(text), [kind], "{text}");
            let at = explain(text, Dialect::Torch).notices[0].at.clone().unwrap();
            assert_eq!(&text[at], place, "{text}");
        }
    }

    #[test]
    fn what_is_right_is_not_commented_on() {
        for text in [
            "",
            "max_split_size_mb:128,",
            "roundup_power2_divisions:[64:8,128:2,256:2,512:4,1024:2,>:2]",
            "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9",
            "max_split_size_mb:400,max_non_split_rounding_mb:600",
            "pinned_use_cuda_host_register:True,pinned_num_register_threads:8",
            "backend:cudaMallocAsync",
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        for (text, expected) in [
            ("garbage_collection_threshold:0.8", vec![ThresholdWithoutLimit]),
            ("expandable_segments:True", vec![ExpandableWithCapture]),
            ("expandable_segments:True,max_split_size_mb:128", vec![ExpandableWithCapture, MaxSplitWithExpandable]),
            (
                "expandable_segments:True,garbage_collection_threshold:0.8,per_process_memory_fraction:0.9",
                vec![ExpandableWithCapture, ThresholdWithExpandable],
            ),
            ("expandable_segments:True,roundup_power2_divisions:8", vec![ExpandableWithCapture, RoundupWithExpandable]),
            ("expandable_segments:True,large_segment_size_mb:64", vec![ExpandableWithCapture, LargeSegmentIsPage]),
            ("expandable_segments_reserve:0.5", vec![ReserveWithoutExpandable]),
            ("expandable_segments:True,expandable_segments_reserve:40M", vec![IgnoredReserve, ExpandableWithCapture]),
            ("max_non_split_rounding_mb:600", vec![RoundingWithoutMaxSplit]),
            ("backend:cudaMallocAsync,max_split_size_mb:128", vec![AsyncIgnores]),
            ("backend:cudaMallocAsync,release_lock_on_cudamalloc:none", vec![AsyncIgnores]),
            ("pinned_max_round_threshold_mb:100,pinned_max_cached_size_mb:50", vec![PinnedRoundAboveCached]),
            ("pinned_num_register_threads:8", vec![ThreadsWithoutRegister]),
        ] {
            assert_eq!(kinds(text), expected, "{text}");
        }
    }

    #[test]
    fn c61_what_the_refusal_does_depends_on_the_fraction() {
        let message = |text: &str| explain(text, Dialect::Torch).notices.swap_remove(0).message;
        let with = message("per_process_memory_fraction:0.95,throw_on_cudamalloc_oom:True");
        assert!(with.contains("changes nothing"), "{with}");
        let without = message("throw_on_cudamalloc_oom:True");
        assert!(without.contains("whole device"), "{without}");
    }

    #[test]
    fn c57_faults_say_what_pytorch_does_and_what_was_meant() {
        for (text, token, hint) in [
            ("expandable_segments", "expandable_segments", "write 'expandable_segments:' and a value behind it"),
            (
                "expandable_segments=True",
                "expandable_segments=True",
                "a colon stands between key and value: expandable_segments:True",
            ),
            ("expandable_segments:True;x:1", "1", "a comma stands between two settings, not a semicolon"),
            (
                "max_split_size_mb 128",
                "max_split_size_mb 128",
                "white space is dropped and separates nothing: this is read as the one word 'max_split_size_mb128'",
            ),
            ("garbage_collection_threshold:0,8", "8", "the comma ends the value and 8 is taken for a key: write 0.8"),
        ] {
            let fault = first_fault(text);
            assert!(matches!(fault.torch, Reaction::Aborts { .. }), "{text}");
            assert_eq!((fault.token.as_str(), fault.hint.as_deref()), (token, Some(hint)), "{text}");
        }
    }

    #[test]
    fn faults_name_the_key_the_place_and_the_nearest_spelling() {
        let fault = first_fault("max_split_size_mb:128,expandable_segments:true");
        assert_eq!((fault.token.as_str(), fault.at.clone()), ("true", 42..46));
        assert_eq!(fault.key.as_deref(), Some("expandable_segments"));
        assert_eq!((fault.allowed, fault.nearest), (Some("True or False"), Some("True")));
        let text = "Expected 'True' or 'False' at index 6 in ConfigTokenizer but got 'true'".into();
        assert_eq!(fault.torch, Reaction::Raises { exception: TorchType::ValueError, text });
        assert_eq!(first_fault("expandable_segment:True").nearest, Some("expandable_segments"));
        assert_eq!(
            first_fault("roundup_power2_divisions:3").hint.as_deref(),
            Some("the nearest powers of two are 2 and 4")
        );
    }

    #[test]
    fn every_fault_is_found_and_the_first_of_pytorch_comes_first() {
        let explanation = explain("expandable_segments:true,nope:1,backend:foo,max_split_size_mb:1", Dialect::Torch);
        let keys: Vec<_> = explanation.faults.iter().filter_map(|fault| fault.key.as_deref()).collect();
        assert_eq!(keys, ["nope", "expandable_segments", "backend", "max_split_size_mb"]);
        assert_eq!(explanation.settings, None);
    }

    #[test]
    fn a_string_that_is_no_settings_string_is_answered_in_bounds() {
        for piece in ["a:b,", ",", "max_split_size_mb:1;", "[", "expandable_segments_reserve_by_class:[a:1,", " x"] {
            let text = piece.repeat(20_000 / piece.len());
            for dialect in [Dialect::Torch, Dialect::Millpond] {
                assert!((1..=34).contains(&explain(&text, dialect).faults.len()), "{piece}");
            }
        }
    }

    #[test]
    fn the_strict_dialect_tells_what_pytorch_accepts() {
        let explanation = explain("max_split_size_mb,128", Dialect::Millpond);
        assert_eq!(explanation.faults.len(), 1);
        assert_eq!(explanation.faults[0].torch, Reaction::Accepts { value: Some("128 MiB".into()) });
        let explanation = explain("preset:millpond,expandable_segments:True", Dialect::Millpond);
        assert_eq!(explanation.faults, []);
        assert_eq!(explanation.entries[0].key, Key::Preset);
    }

    #[test]
    fn l6_trap_3_the_value_in_words_shows_the_gaps() {
        let explanation = explain("roundup_power2_divisions:[64:8,1024:4]", Dialect::Torch);
        assert_eq!(
            explanation.entries[0].value,
            "below 128 MiB: 8, 128 MiB to 1 GiB: off, 1 GiB to 2 GiB: 4, from 2 GiB: off"
        );
    }
}
