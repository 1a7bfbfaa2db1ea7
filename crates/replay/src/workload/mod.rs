//! Workloads: the requests of a program, one JSON object a line (`docs/workload-format.md`).

mod error;
mod fields;
mod op;
mod reader;
mod scan;
mod writer;

use std::path::Path;

pub use error::{Fault, WorkloadError};
pub use op::{Launch, Op};
pub use reader::{Lines, ReadOptions};

/// The requests of a program, in order. A request's number is its index here; lines that hold none do not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The requests.
    pub ops: Vec<Op>,
}

impl Workload {
    /// Reads a file: plain, gzip or zstd, told apart by its first bytes.
    ///
    /// # Errors
    /// The first line that is not a request; a file that cannot be read or that unpacks beyond the bound.
    pub fn open(path: &Path, options: ReadOptions) -> Result<Self, WorkloadError> {
        let file = std::fs::File::open(path).map_err(|error| WorkloadError { line: 0, fault: Fault::Io(error) })?;
        Self::read(file, options)
    }

    /// Reads from any source, as [`Workload::open`].
    ///
    /// # Errors
    /// As [`Workload::open`].
    pub fn read(source: impl std::io::Read, options: ReadOptions) -> Result<Self, WorkloadError> {
        let mut ops = Vec::new();
        for op in Lines::new(source, options)? {
            ops.push(op?);
        }
        Ok(Workload { ops })
    }

    /// How many devices the requests speak of.
    pub fn devices(&self) -> u32 {
        let named = self.ops.iter().map(|op| if let Op::Device { device } = *op { device } else { 0 });
        named.max().unwrap_or(0).saturating_add(1)
    }
}
