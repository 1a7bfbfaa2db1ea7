//! Workload files, line by line.

use std::io::{BufRead, BufReader, Read};

use super::error::{Fault, WorkloadError};
use super::op::Op;
use super::{fields, scan};
use millpond_snapshot::{TooMuch, Unpacked};

/// The longest line that is read, bytes.
const LONGEST_LINE: usize = 1 << 20;

/// How a workload is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// How many times its packed size a file may unpack to; `None` for no bound.
    pub unpack_factor: Option<u64>,
}

impl Default for ReadOptions {
    /// 64 times.
    fn default() -> Self {
        ReadOptions { unpack_factor: Some(64) }
    }
}

/// The requests of a source, one at a time. Empty lines hold none.
pub struct Lines<'a> {
    source: BufReader<Unpacked<'a>>,
    buffer: Vec<u8>,
    line: u64,
    failed: bool,
}

impl<'a> Lines<'a> {
    /// Begins to read; gzip and zstd are told by the first bytes.
    ///
    /// # Errors
    /// The source's own.
    pub fn new(source: impl Read + 'a, options: ReadOptions) -> Result<Self, WorkloadError> {
        let source = Unpacked::new(source, options.unpack_factor)
            .map_err(|error| WorkloadError { line: 0, fault: Fault::Io(error) })?;
        let source = BufReader::with_capacity(1 << 16, source);
        Ok(Lines { source, buffer: Vec::with_capacity(128), line: 0, failed: false })
    }

    /// The next line without its end, in `buffer`; false at the end of the source.
    fn fill(&mut self) -> Result<bool, Fault> {
        self.buffer.clear();
        let mut limited = (&mut self.source).take(LONGEST_LINE as u64 + 1);
        let n = limited.read_until(b'\n', &mut self.buffer).map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref::<TooMuch>()) {
                Some(&TooMuch(factor)) => Fault::Unpacks { factor },
                None => Fault::Io(error),
            }
        })?;
        if n > LONGEST_LINE {
            return Err(Fault::LongLine { limit: LONGEST_LINE });
        }
        while self.buffer.last().is_some_and(u8::is_ascii_whitespace) {
            self.buffer.pop();
        }
        Ok(n > 0)
    }

    fn next_op(&mut self) -> Result<Option<Op>, Fault> {
        loop {
            if !self.fill()? {
                return Ok(None);
            }
            self.line += 1;
            if let Some(op) = scan::scan(&self.buffer) {
                return Ok(Some(op));
            }
            if !self.buffer.iter().all(u8::is_ascii_whitespace) {
                return fields::parse(&self.buffer).map(Some);
            }
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Op, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.next_op() {
            Ok(op) => op.map(Ok),
            Err(fault) => {
                self.failed = true;
                let line = match fault {
                    Fault::LongLine { .. } => self.line + 1,
                    Fault::Io(_) | Fault::Unpacks { .. } => 0,
                    _ => self.line,
                };
                Some(Err(WorkloadError { line, fault }))
            }
        }
    }
}

impl std::fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("line", &self.line).finish_non_exhaustive()
    }
}
