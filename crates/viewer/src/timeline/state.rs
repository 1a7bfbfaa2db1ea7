//! The state at a moment, read off the lives.

use super::{Held, NONE, Timeline};

/// A range of a segment at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub holds: Holds,
}

/// What a range of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A block that the program has, by its index.
    Live(u32),
    /// A block that waits for events, by its index.
    Pending(u32),
    /// Free.
    Free,
}

/// What a segment holds at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentAt {
    /// Its index.
    pub segment: u32,
    /// Blocks and what lies between, by address. Where two do not touch, nothing is mapped.
    pub ranges: Vec<Range>,
}

impl Timeline {
    /// The segments that are there at a cursor, by address.
    pub fn segments_at(&self, cursor: u32) -> Vec<SegmentAt> {
        let mut held: Vec<Held> = self.held.iter().filter(|held| held.life.contains(cursor)).copied().collect();
        held.sort_unstable_by_key(|held| held.addr);
        held.dedup_by(|next, before| {
            let touches = before.segment == next.segment && before.addr + before.size == next.addr;
            before.size += if touches { next.size } else { 0 };
            touches
        });
        let is_there = |&index: &u32| {
            let block = &self.blocks[index as usize];
            block.segment != NONE && block.life.contains(cursor)
        };
        let mut blocks: Vec<u32> = (0..self.blocks.len() as u32).filter(is_there).collect();
        blocks.sort_unstable_by_key(|&index| self.blocks[index as usize].addr);

        let mut segments: Vec<SegmentAt> = Vec::new();
        let mut blocks = blocks.into_iter().peekable();
        for held in held {
            if segments.last().is_none_or(|last| last.segment != held.segment) {
                segments.push(SegmentAt { segment: held.segment, ranges: Vec::new() });
            }
            let last = segments.len() - 1;
            let ranges = &mut segments[last].ranges;
            let (mut at, end) = (held.addr, held.addr + held.size);
            while let Some(index) = blocks.next_if(|&index| self.blocks[index as usize].addr < end) {
                let block = &self.blocks[index as usize];
                if block.addr < at {
                    continue; // The recording contradicts itself here.
                }
                if block.addr > at {
                    ranges.push(Range { addr: at, size: block.addr - at, holds: Holds::Free });
                }
                let size = block.size.min(end - block.addr);
                let holds = if cursor < block.freed { Holds::Live(index) } else { Holds::Pending(index) };
                ranges.push(Range { addr: block.addr, size, holds });
                at = block.addr + size;
            }
            if at < end {
                ranges.push(Range { addr: at, size: end - at, holds: Holds::Free });
            }
        }
        segments
    }
}
