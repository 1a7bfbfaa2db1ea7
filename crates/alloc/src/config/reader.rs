//! The tokens of one string, read as PyTorch reads them: every look is checked, every fault knows its place.

use std::ops::Range;

use super::error::{Assertion, ConfigError, Moment, Problem, Reader};
use super::grammar::{Token, tokenize};
use super::keys::Key;
use super::number::{self, NotRead};
use super::settings::{MIB, Reserve};

/// A tokenized string.
pub(super) struct Tokens<'t> {
    text: &'t str,
    moment: Moment,
    tokens: Vec<Token>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str, moment: Moment) -> Self {
        Tokens { text, moment, tokens: tokenize(text) }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn moment(&self) -> Moment {
        self.moment
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The token at `index`, if the string has so many.
    pub(super) fn get(&self, index: usize) -> Option<&Token> {
        self.tokens.get(index)
    }

    /// Whether the token at `index` exists and is `text`.
    pub(super) fn is(&self, index: usize, text: &str) -> bool {
        self.get(index).is_some_and(|token| token.text == text)
    }

    /// An error at the token at `index`, or at the end of the string.
    pub(super) fn error(&self, index: usize, problem: Problem) -> ConfigError {
        ConfigError { text: self.text.into(), at: self.place(index), moment: self.moment, problem }
    }

    /// Where the token at `index` stands, in bytes.
    pub(super) fn place(&self, index: usize) -> Range<usize> {
        self.get(index).map_or(self.text.len()..self.text.len(), |token| token.at.clone())
    }

    /// The token at `index`; past the end `assertion` fails, in the value of the key at `key`.
    pub(super) fn word(&self, key: usize, index: usize, assertion: Assertion) -> Result<&str, ConfigError> {
        match self.get(index) {
            Some(token) => Ok(&token.text),
            None => {
                let Token { text: name, at } = &self.tokens[key];
                let at = at.start..self.text.len();
                let problem = Problem::EndsEarly { key: name.clone(), assertion };
                Err(ConfigError { text: self.text.into(), at, moment: self.moment, problem })
            }
        }
    }

    /// Skips the pair whose key stands at `index`: the index of its last token. The separator is taken unseen (R10.7).
    pub(super) fn skip_pair(&self, index: usize) -> Result<usize, ConfigError> {
        self.word(index, index + 1, Assertion::Index)?;
        if self.word(index, index + 2, Assertion::Index)? != "[" {
            return Ok(index + 2);
        }
        let mut last = index + 3;
        while self.word(index, last, Assertion::Bracket)? != "]" {
            last += 1;
        }
        Ok(last)
    }

    /// An unsigned number at `index`, in the value of the key at `at`.
    pub(super) fn whole(&self, key: Key, at: usize, index: usize) -> Result<u64, ConfigError> {
        let word = self.word(at, index, Assertion::Index)?;
        number::stoull(word).map(|read| read.value).map_err(|why| self.not_read(key, index, why, Reader::Stoull))
    }

    /// A floating point number at `index`, in the value of the key at `at`.
    pub(super) fn real(&self, key: Key, at: usize, index: usize) -> Result<f64, ConfigError> {
        let word = self.word(at, index, Assertion::Index)?;
        number::stod(word).map(|read| read.value).map_err(|why| self.not_read(key, index, why, Reader::Stod))
    }

    /// A boolean at `index`: exactly `True` or `False` (R10.9).
    pub(super) fn flag(&self, key: Key, at: usize, index: usize) -> Result<bool, ConfigError> {
        match self.word(at, index, Assertion::Index)? {
            "True" => Ok(true),
            "False" => Ok(false),
            value => Err(self.error(index, Problem::NotAFlag { key, value: value.into(), index })),
        }
    }

    /// A number at `index` that the key does not allow.
    pub(super) fn not_allowed(&self, key: Key, index: usize) -> ConfigError {
        let value = self.tokens[index].text.clone();
        self.error(index, Problem::NotAllowed { key, value })
    }

    fn not_read(&self, key: Key, index: usize, why: NotRead, reader: Reader) -> ConfigError {
        let value = self.tokens[index].text.clone();
        let problem = match why {
            NotRead::NoDigits => Problem::NotANumber { key, value, reader },
            NotRead::OutOfRange => Problem::NumberOutOfRange { key, value, reader },
        };
        self.error(index, problem)
    }
}

/// MiB as bytes, at most the last whole MiB that 64 bits hold.
pub(super) fn bytes(mib: u64) -> u64 {
    mib.min(u64::MAX / MIB) * MIB
}

/// A reserve (R4.25): a positive, finite decimal number, as GiB when `G` or `g` follows.
pub(super) fn reserve(value: &str) -> Option<Reserve> {
    let (number, of): (_, fn(f64) -> Reserve) = match value.strip_suffix(['G', 'g']) {
        Some(number) => (number, Reserve::GiB),
        None => (value, Reserve::Fraction),
    };
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number > 0.0).then(|| of(number))
}
