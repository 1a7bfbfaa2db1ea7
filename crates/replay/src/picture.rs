//! Segments in one picture language: `[A 16M]` live, `[. 8M]` free, `[~ 4M]` free but waiting for events, `[_ 20M]` reserved
//! and not mapped, `|` between segments.

use std::fmt::{self, Write as _};

use millpond::{BlockUse, PoolId, SegmentState};
use millpond_driver::{Bytes, Stream};

/// What the segments of a device look like: one row for each stream, size class and memory pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The rows, in the order of their first segments' addresses.
    pub rows: Vec<Row>,
}

/// The segments of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Their stream.
    pub stream: Stream,
    /// `small` or `large`.
    pub class: &'static str,
    /// Their memory pool.
    pub pool: PoolId,
    /// The segments, by address.
    pub segments: Vec<Vec<Cell>>,
}

/// Neighbouring blocks that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What they do.
    pub state: BlockUse,
    /// Their bytes together.
    pub bytes: Bytes,
    /// How many there are.
    pub blocks: u64,
}

/// How many cells of one segment are shown block by block; in fuller segments neighbours that do the same share a cell.
const CELLS: usize = 12;
/// How many segments of a row are shown.
const SEGMENTS: usize = 24;

impl Picture {
    /// The picture of some segments.
    pub fn of(segments: &[SegmentState]) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for segment in segments {
            let key = (segment.stream, segment.class.name(), segment.pool);
            let row = match rows.iter_mut().position(|row| (row.stream, row.class, row.pool) == key) {
                Some(row) => &mut rows[row],
                None => {
                    let (stream, class, pool) = key;
                    rows.push(Row { stream, class, pool, segments: Vec::new() });
                    let last = rows.len() - 1;
                    &mut rows[last]
                }
            };
            row.segments.push(cells(segment));
        }
        Picture { rows }
    }
}

fn cells(segment: &SegmentState) -> Vec<Cell> {
    let merges = segment.blocks.len() > CELLS;
    let mut cells: Vec<Cell> = Vec::new();
    for block in &segment.blocks {
        match cells.last_mut() {
            Some(last) if merges && last.state == block.state => {
                last.bytes.0 += block.size;
                last.blocks += 1;
            }
            _ => cells.push(Cell { state: block.state, bytes: Bytes(block.size), blocks: 1 }),
        }
    }
    cells
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { state, bytes, blocks } = *self;
        let mark = match state {
            BlockUse::Live => 'A',
            BlockUse::Pending => '~',
            BlockUse::Free => '.',
            BlockUse::Unmapped => '_',
        };
        let size = bytes.to_string();
        write!(f, "[{mark} {}", size.strip_suffix("iB").unwrap_or(&size))?;
        if blocks > 1 {
            write!(f, " in {blocks}")?;
        }
        f.write_char(']')
    }
}

impl fmt::Display for Row {
    /// The segments without the row's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.segments.len().min(SEGMENTS);
        for (place, cells) in self.segments[..shown].iter().enumerate() {
            if place > 0 {
                f.write_str(" | ")?;
            }
            cells.iter().try_for_each(|cell| cell.fmt(f))?;
        }
        let rest = &self.segments[shown..];
        if rest.is_empty() {
            return Ok(());
        }
        let sum = |state: Option<BlockUse>| {
            let cells = rest.iter().flatten().filter(|cell| match state {
                Some(state) => cell.state == state,
                None => cell.state != BlockUse::Unmapped,
            });
            Bytes(cells.map(|cell| cell.bytes.0).sum())
        };
        let (all, free) = (sum(None), sum(Some(BlockUse::Free)));
        write!(f, " | … {} more segments of {all}, {free} of it free", rest.len())
    }
}

impl fmt::Display for Picture {
    /// One line a row, under its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, row) in self.rows.iter().enumerate() {
            if place > 0 {
                f.write_char('\n')?;
            }
            write!(f, "{} {}", row.stream, row.class)?;
            if row.pool.is_private() {
                write!(f, " pool {}", row.pool)?;
            }
            write!(f, "\n  {row}")?;
        }
        Ok(())
    }
}
