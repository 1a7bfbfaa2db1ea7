//! A recording in memory: what was asked, and what PyTorch's allocator decided.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use millpond::config::{ConfigError, Settings};
use millpond_driver::{Bytes, ParseBytesError};
use millpond_sim::EventMode;

use super::files::Case;
use super::line::{Called, Header, Line, Segment, Traced};
use crate::machine::Setup;
use crate::runner::RunError;
use millpond_snapshot::Unpacked;

use crate::workload::{ReadOptions, Workload, WorkloadError};

/// Why a recording could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum ParityError {
    /// The outcome file cannot be read.
    #[error("cannot read the outcomes: {0}")]
    Io(#[from] std::io::Error),
    /// A line that is not of a recording.
    #[error("outcomes, line {line}: {error}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// No first line.
    #[error("the outcomes are empty: the first line is a header with config, capacity, events and va_base")]
    Empty,
    /// A header with an event mode that does not exist.
    #[error("the header's events are '{0}', and may be immediate or manual")]
    Events(String),
    /// A header with a size that is none.
    #[error("the header: {0}")]
    Size(#[from] ParseBytesError),
    /// A header with settings that are not understood.
    #[error("the header's config: {0}")]
    Settings(#[from] Box<ConfigError>),
    /// Requests that cannot be read.
    #[error("the requests: {0}")]
    Workload(#[from] WorkloadError),
    /// Requests that make no sense.
    #[error("the requests: {0}")]
    Run(#[from] RunError),
    /// The allocator could not be made.
    #[error("the allocator: {0}")]
    Allocator(#[from] Box<millpond::Error>),
}

/// What an allocation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allocated {
    /// Ordinal of the driver range, offset in it, address minus the lowest one.
    At { seg: u64, off: u64, va: u64 },
    /// The text.
    Oom(String),
    /// Type and text.
    Error(String),
}

/// What was asked and decided.
#[derive(Debug)]
pub struct Recording {
    /// The first line of the outcomes.
    pub header: Header,
    /// What was asked.
    pub workload: Workload,
    /// By request.
    pub(super) allocated: Vec<(u64, Allocated)>,
    pub(super) checkpoints: Vec<(u64, BTreeMap<String, i64>)>,
    pub(super) end: Option<BTreeMap<String, i64>>,
    pub(super) segments: Vec<Segment>,
    pub(super) trace: Vec<Traced>,
    pub(super) calls: Vec<Called>,
}

impl Recording {
    /// Reads a case's two files.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn open(case: &Case) -> Result<Self, ParityError> {
        let workload = Workload::open(&case.requests, ReadOptions::default())?;
        Self::read(&case.outcome, workload)
    }

    fn read(path: &Path, workload: Workload) -> Result<Self, ParityError> {
        let file = Unpacked::new(std::fs::File::open(path)?, Some(256))?;
        let mut lines = BufReader::with_capacity(1 << 16, file).split(b'\n').zip(1..);
        let (first, _) = lines.next().ok_or(ParityError::Empty)?;
        let header = serde_json::from_slice(&first?).map_err(|error| ParityError::Line { line: 1, error })?;
        let mut recording = Recording {
            header,
            workload,
            allocated: Vec::new(),
            checkpoints: Vec::new(),
            end: None,
            segments: Vec::new(),
            trace: Vec::new(),
            calls: Vec::new(),
        };
        for (text, line) in lines {
            let text = text?;
            if !text.is_empty() {
                recording.add(serde_json::from_slice(&text).map_err(|error| ParityError::Line { line, error })?);
            }
        }
        Ok(recording)
    }

    fn add(&mut self, line: Line) {
        let Line { i, seg, off, va, oom, error, stats, final_stats, segment, t, d, .. } = line;
        if let Some(seg) = seg {
            self.allocated.push((i, Allocated::At { seg, off, va }));
        } else if let Some(text) = oom {
            self.allocated.push((i, Allocated::Oom(text)));
        } else if let Some(text) = error {
            self.allocated.push((i, Allocated::Error(text)));
        }
        self.checkpoints.extend(stats.map(|stats| (i, stats)));
        self.end = final_stats.or(self.end.take());
        self.segments.extend(segment);
        self.trace.extend(t);
        self.calls.extend(d);
    }

    /// The machine that the recording was made on, as far as the allocator can tell.
    ///
    /// # Errors
    /// A header that is not understood.
    pub fn setup(&self) -> Result<Setup, ParityError> {
        let Header { config, capacity, events, va_base, used_outside, va_size, .. } = &self.header;
        let size = |text: &Option<String>| text.as_deref().map(str::parse::<Bytes>).transpose();
        let (settings, _) = Settings::parse(config).map_err(Box::new)?;
        let mut setup = Setup {
            capacity: capacity.parse()?,
            others: size(used_outside)?.unwrap_or_default(),
            events: match events.as_str() {
                "immediate" => EventMode::Immediate,
                "manual" => EventMode::Manual,
                other => return Err(ParityError::Events(other.to_owned())),
            },
            settings,
            devices: self.workload.devices(),
            va_base: *va_base,
            log: true,
            ..Setup::default()
        };
        if let Some(size) = size(va_size)? {
            setup.va_end = va_base.saturating_add(size.0);
        }
        Ok(setup)
    }
}
