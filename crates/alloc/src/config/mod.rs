//! Settings: what can be set, the grammar it is written in, and what is wrong with a text that is not understood.
//!
//! ```
//! use millpond::config::{Dialect, Settings};
//!
//! let mut settings = Settings::default();
//! settings.apply("expandable_segments:True,max_split_size_mb:128", Dialect::Torch)?;
//! assert_eq!(settings.max_split_size, 128 << 20);
//!
//! let error = settings.apply("expandable_segments:true", Dialect::Torch).unwrap_err();
//! assert_eq!(error.nearest(), Some("True"));
//! # Ok::<(), millpond::config::ConfigError>(())
//! ```

mod env;
mod error;
mod explain;
mod grammar;
mod keys;
mod number;
mod parse;
#[cfg(test)]
mod properties;
mod reader;
mod reserve;
mod settings;
mod spelling;
mod strict;
mod value;
mod warning;

pub use env::{EnvError, FromEnv, Source, Sources, Variable, caching_disabled_from_env};
pub use error::{Assertion, ConfigError, Moment, Problem, Reader, TorchType};
pub use explain::{Entry, EnvExplanation, Explanation, Fault, Notice, NoticeKind, Reaction, explain, explain_env};
pub use keys::{Form, Key, Owner};
pub use settings::{Backend, PageReuse, Preset, Reserve, Settings};
pub use warning::Warning;

/// In which language a settings string is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PyTorch's, with all its tolerance, and its keys alone.
    Torch,
    /// Millpond's: PyTorch's grammar held to the letter, and all keys.
    Millpond,
}

impl Settings {
    /// Changes the settings at run time, as `torch._C._accelerator_setAllocatorSettings` does (R10.16).
    ///
    /// In PyTorch's dialect `max_split_size_mb`, `max_non_split_rounding_mb`, `garbage_collection_threshold` and
    /// `roundup_power2_divisions` go back to their defaults when `text` does not name them (R10.15), and an error leaves what
    /// stands left of it applied (R10.11). In Millpond's dialect only what is written changes, and an error changes nothing.
    pub fn apply(&mut self, text: &str, dialect: Dialect) -> Result<Vec<Warning>, ConfigError> {
        match dialect {
            Dialect::Torch => parse::apply(self, text),
            Dialect::Millpond => strict::apply(self, text, Moment::Call),
        }
    }

    /// The settings of a process that starts with `text` in PyTorch's variable. The backend is chosen by it.
    pub fn parse(text: &str) -> Result<(Settings, Vec<Warning>), ConfigError> {
        parse::start(text, text).map_err(|refused| refused.error)
    }

    /// The settings that `text` writes over the defaults: PyTorch's and Millpond's keys in Millpond's dialect, as the command
    /// line's `--conf` takes them. The backend is chosen by it.
    pub fn written(text: &str) -> Result<(Settings, Vec<Warning>), ConfigError> {
        let mut settings = Settings::default();
        let warnings = strict::apply(&mut settings, text, Moment::FirstUse)?;
        Ok((settings, warnings))
    }
}
