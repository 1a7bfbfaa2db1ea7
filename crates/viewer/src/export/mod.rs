//! Files for other tools, all of them from timelines.
//!
//! - [`snapshot`]: a snapshot that PyTorch's viewer (memory_viz) and everything else that knows its form reads.
//! - [`perfetto`]: trace events in JSON, for ui.perfetto.dev and chrome://tracing.
//! - [`csv`], [`json_lines`] and, with the feature `parquet`, `parquet`: a row for each event with the totals after it.

mod ledger;
#[cfg(feature = "parquet")]
mod parquet;
mod perfetto;
mod pickle;

use std::io::{self, Write};

use millpond_snapshot::Snapshot;

use crate::page::Page;
use crate::timeline::{Event, Subject, Timeline};

/// Rows as comma-separated values, with a line of names.
///
/// # Errors
/// Those of `out`.
pub fn csv(page: &Page<'_>, out: impl Write) -> io::Result<()> {
    ledger::csv(page, io::BufWriter::new(out))
}

/// Rows as JSON objects, one a line.
///
/// # Errors
/// Those of `out`.
pub fn json_lines(page: &Page<'_>, out: impl Write) -> io::Result<()> {
    ledger::json_lines(page, io::BufWriter::new(out))
}

/// Rows as a Parquet file.
///
/// # Errors
/// Those of `out`.
#[cfg(feature = "parquet")]
pub fn parquet(page: &Page<'_>, out: impl Write + Send) -> io::Result<()> {
    parquet::write(page, out)
}

/// Trace events: counters of memory, the lives of segments and blocks, and what is worth a mark.
///
/// # Errors
/// Those of `out`.
pub fn perfetto(page: &Page<'_>, out: impl Write) -> io::Result<()> {
    perfetto::write(page, io::BufWriter::new(out))
}

/// A snapshot: the segments at the end, the events as traces.
pub fn snapshot(page: &Page<'_>) -> Snapshot {
    pickle::snapshot(page)
}

/// Address and bytes of an event, as PyTorch's traces have them.
fn figures(timeline: &Timeline, event: &Event) -> (u64, u64) {
    match event.subject {
        Subject::Block(index) => {
            let block = &timeline.blocks[index as usize];
            (block.addr, block.requested)
        }
        Subject::Range { addr, size } => (addr, size),
    }
}
