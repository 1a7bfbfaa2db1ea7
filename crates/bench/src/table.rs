//! The table of `millpond bench`: every case, and instructions where they were counted.

use std::collections::BTreeMap;

use millpond::config::Settings;
use serde::Serialize;

use crate::case::{Case, UnknownCase};
use crate::cost::cost;
use crate::run::Run;
use crate::subject::{Library, LibraryFailed};

/// A case and its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// Nanoseconds of a pair of an allocation and a free.
    pub ns: f64,
    /// Nanoseconds of a pair of `malloc` and `free` of 4 KiB in the same run.
    pub yardstick_ns: f64,
    /// `ns` in yardsticks.
    pub ratio: f64,
    /// Instructions of a pair, where callgrind counted them.
    pub instructions: Option<u64>,
}

/// Instructions a pair, by case, as `ci/instructions.sh` prints them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts(BTreeMap<String, u64>);

/// A line of counts that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCounts {
    /// Not a case and a number.
    #[error("line {line} is not a case and a number of instructions, such as `cached_4k 242`")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A case that is none.
    #[error("line {line}: {unknown}")]
    Case {
        /// Counted from 1.
        line: usize,
        /// Which.
        unknown: UnknownCase,
    },
}

impl Counts {
    /// Reads lines of a case and a number.
    ///
    /// # Errors
    /// The first line that is neither that nor empty.
    pub fn read(text: &str) -> Result<Self, BadCounts> {
        let mut counts = BTreeMap::new();
        for (line, words) in (1..).zip(text.lines()) {
            let mut words = words.split_whitespace();
            match (words.next(), words.next().map(str::parse), words.next()) {
                (None, ..) => {}
                (Some(case), Some(Ok(instructions)), None) => {
                    let case: Case = case.parse().map_err(|unknown| BadCounts::Case { line, unknown })?;
                    counts.insert(case.to_string(), instructions);
                }
                _ => return Err(BadCounts::Line { line }),
            }
        }
        Ok(Counts(counts))
    }
}

/// Measures a case on the library, on a simulated device.
///
/// # Errors
/// The allocator's.
pub fn row(case: Case, rounds: usize, pairs: u64, counts: &Counts) -> Result<Row, LibraryFailed> {
    let library = Library::simulated(Settings::default())?;
    let mut run = Run::prepare(&library, case)?;
    let times = cost(|pairs| run.pairs(pairs), rounds, pairs)?;
    let case = case.to_string();
    let instructions = counts.0.get(&case).copied();
    Ok(Row { ns: times.ns, yardstick_ns: times.yardstick_ns, ratio: times.ratio(), instructions, case })
}

/// Runs a case once and measures nothing, for a program that counts instructions from outside.
///
/// # Errors
/// The allocator's.
pub fn once(case: Case, pairs: u64) -> Result<(), LibraryFailed> {
    let library = Library::simulated(Settings::default())?;
    Run::prepare(&library, case)?.pairs(pairs)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_to_their_cases() {
        let counts = Counts::read("cached_4k 242\n\n  random_small_1k   700 \n").unwrap();
        let measured = |case: &str| row(case.parse().unwrap(), 1, 100, &counts).unwrap();
        assert_eq!(measured("cached_4k").instructions, Some(242));
        assert_eq!(measured("cached_512").instructions, None);
        let Row { ns, yardstick_ns, ratio, .. } = measured("cached_4k");
        assert_eq!(ratio, ns / yardstick_ns);
    }

    #[test]
    fn what_are_no_counts_is_said_with_its_line() {
        assert_eq!(Counts::read("cached_4k 242\ncached_4k many"), Err(BadCounts::Line { line: 2 }));
        assert_eq!(Counts::read("cached_4k 1 2"), Err(BadCounts::Line { line: 1 }));
        let unknown = UnknownCase("cold".into());
        assert_eq!(Counts::read("cold 3"), Err(BadCounts::Case { line: 1, unknown }));
    }
}
