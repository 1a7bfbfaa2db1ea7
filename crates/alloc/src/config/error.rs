//! What can be wrong with a settings string, in PyTorch's words and in better ones.

use std::fmt;
use std::ops::Range;

use super::keys::{Key, Owner};
use super::spelling;

/// When PyTorch meets the string. It answers the same fault differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// `import torch` reads the variable for the backend, before Python could catch anything.
    Import,
    /// The first call that needs the allocator parses the variable (R10.3, R10.20).
    FirstUse,
    /// `torch._C._accelerator_setAllocatorSettings` (R10.16).
    Call,
}

/// What PyTorch does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorchType {
    /// Raises `ValueError`.
    ValueError,
    /// Raises `RuntimeError`.
    RuntimeError,
    /// Raises `IndexError`.
    IndexError,
    /// The process ends with SIGABRT.
    Abort,
}

impl fmt::Display for TorchType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TorchType::ValueError => "ValueError",
            TorchType::RuntimeError => "RuntimeError",
            TorchType::IndexError => "IndexError",
            TorchType::Abort => "SIGABRT",
        })
    }
}

/// The function of the C++ library that reads a number; it is also the whole text of PyTorch's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Unsigned integers.
    Stoull,
    /// Floating point numbers.
    Stod,
}

impl Reader {
    fn name(self) -> &'static str {
        match self {
            Reader::Stoull => "stoull",
            Reader::Stod => "stod",
        }
    }
}

/// Which of the tokenizer's assertions fails when the string ends too early. Each has its own line in PyTorch's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// A token is taken without a look (line 54).
    Word,
    /// A token is looked at (line 123).
    Index,
    /// A list is skipped (line 114).
    Bracket,
    /// The list of divisions is read (line 213 of another file).
    Divisions,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// No such key.
    UnknownKey {
        /// The key as written.
        key: String,
        /// The parser that met it first.
        parser: Owner,
    },
    /// The string ends where a separator, a value or a closing bracket must stand.
    EndsEarly {
        /// The key whose value is not complete.
        key: String,
        /// The assertion that fails in PyTorch.
        assertion: Assertion,
    },
    /// Something else than `True` or `False`.
    NotAFlag {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
        /// The number of the token, counted from 0.
        index: usize,
    },
    /// A number must stand there, and no digit does.
    NotANumber {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
        /// What reads it.
        reader: Reader,
    },
    /// A number that no 64 bits hold.
    NumberOutOfRange {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
        /// What reads it.
        reader: Reader,
    },
    /// A number outside of what the key allows.
    NotAllowed {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
    },
    /// A size below `large_segment_size_mb`.
    BelowLargeSegment {
        /// The key: `max_split_size_mb` or `max_non_split_rounding_mb`.
        key: Key,
        /// What was asked, in MiB.
        mib: u64,
        /// What is allowed at least, in MiB.
        least: u64,
    },
    /// A number of divisions that is no power of two.
    Divisions {
        /// The value as written.
        value: String,
        /// Whether it stands in a list, where 0 is allowed too.
        in_list: bool,
    },
    /// A size in the list of divisions that is no power of two.
    Interval {
        /// The value as written.
        value: String,
    },
    /// A number of threads that is no power of two, or above 128.
    Threads {
        /// The number.
        threads: u64,
    },
    /// A value that is none of the key's words.
    UnknownWord {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
    },
    /// A backend other than the one that was chosen at the start (R10.18).
    BackendIsChosen {
        /// The backend asked for.
        asked: String,
        /// The one in force.
        chosen: &'static str,
    },
    /// Strict: a sign is missing or stands in the wrong place.
    Sign {
        /// What must stand there.
        expected: &'static str,
        /// What does.
        found: String,
        /// The key it belongs to, if any.
        key: Option<String>,
    },
    /// Strict: whitespace inside a word.
    SpaceInWord {
        /// The word without it.
        word: String,
    },
    /// Strict: something trails the number.
    TrailingText {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
        /// The part that is a number.
        number: String,
    },
    /// Strict: a reserve that PyTorch ignores with a warning (R4.25).
    Reserve {
        /// The key.
        key: Key,
        /// The value as written.
        value: String,
    },
    /// Strict: `preset` stands behind another key.
    PresetNotFirst,
}

/// An error in a settings string: the string, the place in it, and what is wrong there.
///
/// Its text is a sentence for the person who wrote the string; [`torch_text`](Self::torch_text) is PyTorch's own.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigError {
    /// The whole string.
    pub text: String,
    /// The bytes of the string that are wrong: a token, or all from the key whose value is not complete.
    pub at: Range<usize>,
    /// When PyTorch meets it.
    pub moment: Moment,
    /// What is wrong.
    pub problem: Problem,
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// What PyTorch 2.15 does; none for an error that only the strict dialect knows.
    pub fn torch_type(&self) -> Option<TorchType> {
        let number = |at_call| {
            if self.moment == Moment::Call { at_call } else { TorchType::RuntimeError }
        };
        match &self.problem {
            Problem::EndsEarly { .. } if self.moment == Moment::Import => Some(TorchType::Abort),
            Problem::EndsEarly { .. } | Problem::BackendIsChosen { .. } => Some(TorchType::RuntimeError),
            Problem::NotANumber { .. } => Some(number(TorchType::ValueError)),
            Problem::NumberOutOfRange { .. } => Some(number(TorchType::IndexError)),
            _ => self.torch_text().map(|_| TorchType::ValueError),
        }
    }

    /// PyTorch's text, to the letter, but for the folder of its own source, which is written `...`. None for an error that only
    /// the strict dialect knows.
    pub fn torch_text(&self) -> Option<String> {
        let text = match &self.problem {
            Problem::UnknownKey { key, parser: Owner::Cuda } => {
                format!("Unrecognized key '{key}' in CUDA allocator config.")
            }
            Problem::UnknownKey { key, .. } => {
                format!("Unrecognized key '{key}' in Accelerator allocator config.")
            }
            Problem::EndsEarly { assertion, .. } => assertion_text(*assertion),
            Problem::NotAFlag { value, index, .. } => {
                format!("Expected 'True' or 'False' at index {index} in ConfigTokenizer but got '{value}'")
            }
            Problem::NotANumber { reader, .. } | Problem::NumberOutOfRange { reader, .. } => reader.name().into(),
            Problem::NotAllowed { key, .. } => return not_allowed_text(*key).map(Into::into),
            Problem::BelowLargeSegment { key, least, .. } => {
                format!("CachingAllocator option {} too small, must be >= {least}", key.name())
            }
            Problem::Divisions { in_list: false, .. } => "For roundups, the divisions has to be power of 2 ".into(),
            Problem::Divisions { in_list: true, .. } => {
                "For roundups, the divisions has to be power of 2 or 0 to disable roundup ".into()
            }
            Problem::Interval { .. } => "For roundups, the intervals have to be power of 2 ".into(),
            Problem::Threads { threads } if threads.is_power_of_two() => {
                format!("Number of register threads should be less than or equal to 128, got {threads}")
            }
            Problem::Threads { threads } => {
                format!("Number of register threads has to be power of 2, got {threads}")
            }
            Problem::UnknownWord { key: Key::Backend, .. } => {
                "Unknown allocator backend, options are native and cudaMallocAsync".into()
            }
            Problem::BackendIsChosen { asked, chosen } => format!(
                "tokenizer[i] == get()->name() INTERNAL ASSERT FAILED at \".../c10/cuda/CUDAAllocatorConfig.cpp\":64, \
                 please report a bug to PyTorch. Allocator backend parsed at runtime != allocator backend parsed at load \
                 time, {asked} != {chosen}"
            ),
            Problem::UnknownWord { .. }
            | Problem::Sign { .. }
            | Problem::SpaceInWord { .. }
            | Problem::TrailingText { .. }
            | Problem::Reserve { .. }
            | Problem::PresetNotFirst => return None,
        };
        Some(text)
    }

    /// The key concerned, as written or by its name.
    pub fn key(&self) -> Option<&str> {
        match &self.problem {
            Problem::UnknownKey { key, .. } | Problem::EndsEarly { key, .. } => Some(key),
            Problem::NotAFlag { key, .. }
            | Problem::NotANumber { key, .. }
            | Problem::NumberOutOfRange { key, .. }
            | Problem::NotAllowed { key, .. }
            | Problem::BelowLargeSegment { key, .. }
            | Problem::UnknownWord { key, .. }
            | Problem::TrailingText { key, .. }
            | Problem::Reserve { key, .. } => Some(key.name()),
            Problem::Divisions { .. } | Problem::Interval { .. } => Some(Key::RoundupPower2Divisions.name()),
            Problem::Threads { .. } => Some(Key::PinnedNumRegisterThreads.name()),
            Problem::BackendIsChosen { .. } => Some(Key::Backend.name()),
            Problem::Sign { key, .. } => key.as_deref(),
            Problem::SpaceInWord { .. } => None,
            Problem::PresetNotFirst => Some(Key::Preset.name()),
        }
    }

    /// What may stand there, as the end of the sentence "allowed is …"; none when the key itself is wrong.
    pub fn allowed(&self) -> Option<&'static str> {
        self.key().and_then(Key::find).map(Key::allowed)
    }

    /// The nearest valid spelling of what is wrong, if one is near.
    pub fn nearest(&self) -> Option<&'static str> {
        match &self.problem {
            Problem::EndsEarly { key, .. } => spelling::nearest_key(key, false),
            Problem::UnknownKey { key, parser } => spelling::nearest_key(key, *parser == Owner::Millpond),
            Problem::SpaceInWord { word } => {
                Key::find(word).map(Key::name).or_else(|| spelling::nearest_key(word, true))
            }
            Problem::NotAFlag { value, .. } => spelling::nearest_flag(value),
            Problem::UnknownWord { key, value } => spelling::nearest(value, key.words().iter().copied()),
            _ => None,
        }
    }
}

fn assertion_text(assertion: Assertion) -> String {
    let (tokens, line, what) = match assertion {
        Assertion::Word => ("config_", "h\":54", "Index out of bounds"),
        Assertion::Index => ("config_", "h\":123", "Index out of bounds"),
        Assertion::Bracket => ("config_", "h\":114", "Expected closing bracket ']'"),
        Assertion::Divisions => ("tokenizer", "cpp\":213", "Expected closing bracket ']'"),
    };
    let end = if what.starts_with("Index") { "" } else { " but reached end of config" };
    format!(
        "i < {tokens}.size() INTERNAL ASSERT FAILED at \".../c10/core/AllocatorConfig.{line}, please report a bug to \
         PyTorch. {what} in ConfigTokenizer{end}"
    )
}

fn not_allowed_text(key: Key) -> Option<&'static str> {
    match key {
        Key::LargeSegmentSizeMb => Some("CachingAllocator option large_segment_size_mb must be > 10 MB"),
        Key::GarbageCollectionThreshold => Some("garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
        Key::PerProcessMemoryFraction => Some("per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
        Key::PinnedReserveSegmentSizeMb => Some("Pinned reserve segment size has to be greater than 0"),
        _ => None,
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::UnknownKey { key, .. } => match Key::find(key) {
                Some(_) => write!(
                    f,
                    "'{key}' is Millpond's own key and stands in MILLPOND_CONF or --conf, not in PyTorch's variables"
                )?,
                None => write!(f, "there is no key '{key}'")?,
            },
            Problem::EndsEarly { key, assertion: Assertion::Bracket | Assertion::Divisions } => {
                write!(f, "the list of '{key}' has no closing bracket")?;
            }
            Problem::EndsEarly { key, .. } if Key::find(key).is_none() => {
                write!(f, "'{key}' is no key and has no value: a setting is written key:value")?;
            }
            Problem::EndsEarly { key, .. } => write!(f, "'{key}' has no value: a setting is written key:value")?,
            Problem::NotAFlag { key, value, .. }
            | Problem::NotANumber { key, value, .. }
            | Problem::NumberOutOfRange { key, value, .. }
            | Problem::NotAllowed { key, value, .. }
            | Problem::UnknownWord { key, value }
            | Problem::Reserve { key, value } => write!(f, "'{}' cannot be '{value}'", key.name())?,
            Problem::BelowLargeSegment { key, mib, least } => {
                write!(f, "'{}' cannot be {mib}, which is below the large_segment_size_mb of {least}", key.name())?;
            }
            Problem::Divisions { value, .. } => {
                write!(f, "'roundup_power2_divisions' cannot have '{value}' divisions")?
            }
            Problem::Interval { value } => {
                write!(f, "'roundup_power2_divisions' cannot have an interval at '{value}' MiB")?
            }
            Problem::Threads { threads } => write!(f, "'pinned_num_register_threads' cannot be {threads}")?,
            Problem::BackendIsChosen { asked, chosen } => {
                write!(f, "the backend is {chosen} and cannot become {asked}: it is chosen at the start and stays")?;
            }
            Problem::Sign { expected, found, key } => {
                match key {
                    Some(key) => write!(f, "{expected} must stand after '{key}'")?,
                    None => write!(f, "{expected} must stand there")?,
                }
                if !found.is_empty() {
                    write!(f, ", not '{found}'")?;
                }
            }
            Problem::SpaceInWord { word } => write!(f, "there is white space inside '{word}'")?,
            Problem::TrailingText { key, value, number } => {
                write!(f, "'{}' cannot be '{value}', of which only '{number}' is a number", key.name())?;
            }
            Problem::PresetNotFirst => f.write_str("'preset' sets defaults and must be the first key")?,
        }
        if let Some(allowed) = self.allowed_here() {
            write!(f, "; allowed is {allowed}")?;
        }
        if let Some(nearest) = self.nearest() {
            write!(f, "; did you mean '{nearest}'?")?;
        }
        write!(f, " (at byte {} of \"{}\")", self.at.start, self.text)
    }
}

impl ConfigError {
    /// What is allowed, where saying it helps.
    fn allowed_here(&self) -> Option<&'static str> {
        match self.problem {
            Problem::UnknownKey { .. }
            | Problem::BelowLargeSegment { .. }
            | Problem::BackendIsChosen { .. }
            | Problem::PresetNotFirst
            | Problem::Sign { .. } => None,
            _ => self.allowed(),
        }
    }
}
