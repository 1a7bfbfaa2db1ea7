//! The way through a string that finds all there is to say about it.

use crate::config::Dialect;
use crate::config::error::{ConfigError, Moment, Problem};
use crate::config::keys::{Key, Owner};
use crate::config::parse;
use crate::config::reader::Tokens;
use crate::config::settings::{Backend, Settings};

use super::{Entry, Notice, NoticeKind, oddities};

/// The way ends at so many errors. Each holds the string, and a string with more of them is no settings string.
const MOST_ERRORS: usize = 32;

/// A way through the string as PyTorch goes, that does not end at the first fault.
pub(super) struct Walk<'t> {
    tokens: Tokens<'t>,
    dialect: Dialect,
    pub(super) settings: Settings,
    pub(super) entries: Vec<Entry>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) notices: Vec<Notice>,
}

impl<'t> Walk<'t> {
    pub(super) fn through(text: &'t str, dialect: Dialect) -> Self {
        let (entries, errors, notices) = (Vec::new(), Vec::new(), Vec::new());
        let backend = parse::backend_at_import(text).unwrap_or_default();
        let settings = Settings { backend, ..Settings::default() };
        let tokens = Tokens::new(text, Moment::FirstUse);
        let mut walk = Walk { tokens, dialect, settings, entries, errors, notices };
        walk.read_large_segment();
        let mut index = 0;
        while walk.errors.len() < MOST_ERRORS
            && let Some(last) = walk.pair(index)
        {
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
