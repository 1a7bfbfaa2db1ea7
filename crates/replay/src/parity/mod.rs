//! Every decision held against a recording of PyTorch's own allocator.
//!
//! [`find`] takes outcome files and folders and pairs each with its requests; [`compare_all`] runs the requests with the
//! recorded settings, capacity and event mode, and compares addresses, segments, out-of-memory texts, statistics, final
//! segments and blocks, trace events and driver calls. The form of a recording is that of `golden/README.md`.

mod compare;
mod files;
mod line;
mod ranges;
mod recording;
mod rules;
mod segments;
mod stats;

use rayon::prelude::*;
use serde::Serialize;

pub use compare::compare;
pub use files::{Case, FindError, find};
pub use recording::{ParityError, Recording};

/// Where a file and a run differ first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The outcome file.
    pub file: String,
    /// The request's number; the number of requests for what is looked at when all are done.
    pub request: u64,
    /// What differs.
    pub what: &'static str,
    /// As it was recorded.
    pub expected: String,
    /// As it is here.
    pub got: String,
    /// The rules of the law that decide it.
    pub rule: &'static str,
}

/// What became of one file.
#[derive(Debug)]
pub struct FileReport {
    /// The outcome file.
    pub file: String,
    /// How many decisions were compared and equal, up to the first difference.
    pub decisions: u64,
    /// Whether the order of frees within a request was left out of it: PyTorch's own differs from run to run.
    pub unordered_frees: bool,
    /// The first difference, or why nothing could be compared.
    pub outcome: Result<Option<Difference>, ParityError>,
}

impl FileReport {
    /// Whether nothing differs.
    pub fn is_identical(&self) -> bool {
        matches!(self.outcome, Ok(None))
    }
}

impl std::fmt::Display for FileReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FileReport { file, decisions, .. } = self;
        match &self.outcome {
            Ok(None) => write!(f, "identical  {file}  {decisions} decisions")?,
            Ok(Some(Difference { request, what, expected, got, rule, .. })) => {
                write!(
                    f,
                    "different  {file}  request {request}: {what} ({rule})\n  recorded {expected}\n  here     {got}"
                )?;
            }
            Err(error) => write!(f, "unreadable {file}  {error}")?,
        }
        if self.unordered_frees && self.is_identical() {
            f.write_str(", unordered frees")?;
        }
        Ok(())
    }
}

/// What became of all files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The version of this form.
    pub schema: u32,
    /// How many files there were.
    pub files: u64,
    /// How many of them are identical.
    pub identical: u64,
    /// How many decisions were equal.
    pub decisions: u64,
    /// The first difference of each other file.
    pub different: Vec<Difference>,
}

impl Summary {
    /// Sums reports up. A file that could not be read counts as different.
    pub fn new(reports: &[FileReport]) -> Self {
        let different = reports.iter().filter_map(|report| match &report.outcome {
            Ok(difference) => difference.clone(),
            Err(error) => Some(Difference {
                file: report.file.clone(),
                request: 0,
                what: "file",
                expected: "a recording and its requests".to_owned(),
                got: error.to_string(),
                rule: "",
            }),
        });
        Summary {
            schema: 1,
            files: reports.len() as u64,
            identical: reports.iter().filter(|report| report.is_identical()).count() as u64,
            decisions: reports.iter().map(|report| report.decisions).sum(),
            different: different.collect(),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "identical {} of {} files, {} decisions", self.identical, self.files, self.decisions)
    }
}

/// Compares all cases, in parallel; the reports come in the order of the cases.
pub fn compare_all(cases: &[Case]) -> Vec<FileReport> {
    cases.par_iter().map(compare_case).collect()
}

/// Compares one case.
pub fn compare_case(case: &Case) -> FileReport {
    let mut report = FileReport {
        file: case.outcome.display().to_string(),
        decisions: 0,
        unordered_frees: case.unordered_frees,
        outcome: Ok(None),
    };
    report.outcome = Recording::open(case).and_then(|recording| {
        let (decisions, difference) = compare(&recording, case.unordered_frees)?;
        report.decisions = decisions;
        Ok(difference.map(|difference| Difference { file: report.file.clone(), ..difference }))
    });
    report
}
