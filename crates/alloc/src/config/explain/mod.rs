//! What a settings string says: each key, each fault, what PyTorch makes of it, and what does not go together.

mod combine;
mod environment;
mod hint;
mod oddities;

use std::ops::Range;

use super::error::{ConfigError, Moment, Problem, TorchType};
use super::keys::{Key, Owner};
use super::parse;
use super::reader::Tokens;
use super::settings::{Backend, Settings};
use super::strict;
use super::{Dialect, Warning};

pub use environment::{EnvExplanation, explain_env};

/// Everything there is to say about a settings string.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The string.
    pub text: String,
    /// The keys that were understood, in the order they are written.
    pub entries: Vec<Entry>,
    /// What is refused. The first is the one that PyTorch meets first.
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

/// A way through the string as PyTorch goes, that does not end at the first fault.
struct Walk<'t> {
    tokens: Tokens<'t>,
    dialect: Dialect,
    settings: Settings,
    entries: Vec<Entry>,
    errors: Vec<ConfigError>,
    notices: Vec<Notice>,
}

impl<'t> Walk<'t> {
    fn through(text: &'t str, dialect: Dialect) -> Self {
        let (entries, errors, notices) = (Vec::new(), Vec::new(), Vec::new());
        let backend = parse::backend_at_import(text).unwrap_or_default();
        let settings = Settings { backend, ..Settings::default() };
        let tokens = Tokens::new(text, Moment::FirstUse);
        let mut walk = Walk { tokens, dialect, settings, entries, errors, notices };
        walk.read_large_segment();
        let mut index = 0;
        while let Some(last) = walk.pair(index) {
            index = last + 2;
        }
        walk.errors.dedup_by(|error, before| error.at == before.at);
        walk
    }

    /// It bounds other keys wherever it stands. What is wrong with it is told when the way comes to it.
    fn read_large_segment(&mut self) {
        for index in 0..self.tokens.len() {
            if self.tokens.is(index, Key::LargeSegmentSizeMb.name()) {
                let _ = parse::set(&mut self.settings, &self.tokens, Key::LargeSegmentSizeMb, index, &mut Vec::new());
            }
        }
        self.settings.max_non_split_rounding = self.settings.large_segment_size;
    }

    /// Reads the pair whose key stands at `index`: the index of its last token, none at the end.
    fn pair(&mut self, index: usize) -> Option<usize> {
        let name = self.tokens.get(index)?.text.clone();
        let may_stand = |key: &Key| self.dialect == Dialect::Millpond || key.owner() != Owner::Millpond;
        let last = match Key::find(&name).filter(may_stand) {
            Some(key) => self.known(key, index)?,
            None => {
                let parser = if self.is_async() { Owner::Generic } else { Owner::Cuda };
                self.errors.push(self.tokens.error(index, Problem::UnknownKey { key: name, parser }));
                self.skip(index)?
            }
        };
        oddities::of_separators(&mut self.notices, &self.tokens, index, last);
        Some(last)
    }

    fn known(&mut self, key: Key, index: usize) -> Option<usize> {
        let mut warnings = Vec::new();
        let outcome = parse::set(&mut self.settings, &self.tokens, key, index, &mut warnings);
        // The other backend never reads CUDA's keys (R10.19).
        let is_read = !self.is_async() || key.owner() != Owner::Cuda || key == Key::Backend;
        match outcome {
            Ok(last) => {
                oddities::of_pair(&mut self.notices, &self.tokens, key, index, last, &self.entries);
                oddities::of_warnings(&mut self.notices, &self.tokens, index, &warnings);
                self.entry(key, index, last);
                Some(last)
            }
            Err(error) => {
                if is_read {
                    self.errors.push(error);
                } else {
                    let message = format!("With backend:cudaMallocAsync PyTorch does not read '{}'.", key.name());
                    self.notices.push(Notice { kind: NoticeKind::AsyncIgnores, at: Some(error.at), message });
                }
                self.skip(index)
            }
        }
    }

    fn is_async(&self) -> bool {
        self.settings.backend == Backend::CudaMallocAsync
    }

    fn skip(&mut self, index: usize) -> Option<usize> {
        self.tokens.skip_pair(index).map_err(|error| self.errors.push(error)).ok()
    }

    fn entry(&mut self, key: Key, index: usize, last: usize) {
        let written =
            (index + 2..=last).filter_map(|at| self.tokens.get(at)).map(|token| token.text.as_str()).collect();
        let at = self.tokens.place(index).start..self.tokens.place(last).end;
        self.entries.push(Entry { key, written, at, value: self.settings.value_text(key) });
    }
}
