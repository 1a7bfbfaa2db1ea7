//! Finite state entropy (RFC 8878, 4.1): a symbol a state, and bits that say which state is next.

use std::io;

use super::bits::{Backward, Forward};
use super::damaged;

/// The symbol of a state, and how to come to the next one.
#[derive(Clone, Copy, Default)]
struct Cell {
    symbol: u8,
    bits: u8,
    base: u16,
}

/// A decoding table.
#[derive(Clone)]
pub(super) struct Table {
    cells: Vec<Cell>,
    log: u32,
}

impl Table {
    /// A table that always gives the same symbol.
    pub fn always(symbol: u8) -> Self {
        Self { cells: vec![Cell { symbol, ..Cell::default() }], log: 0 }
    }

    /// A table of how often each symbol comes, of `1 << log` in all; −1 is less than once.
    pub fn of(counts: &[i16], log: u32) -> Self {
        let size = 1_usize << log;
        let mut cells = vec![Cell::default(); size];
        let mut next: Vec<u16> = counts.iter().map(|&count| count.unsigned_abs()).collect();
        let mut end = size;
        for (symbol, _) in counts.iter().enumerate().filter(|(_, count)| **count == -1) {
            end -= 1;
            cells[end].symbol = symbol as u8;
        }
        let step = (size >> 1) + (size >> 3) + 3;
        let mut at = 0;
        for (symbol, &count) in counts.iter().enumerate() {
            for _ in 0..count.max(0) {
                cells[at].symbol = symbol as u8;
                at = (at + step) & (size - 1);
                while at >= end {
                    at = (at + step) & (size - 1);
                }
            }
        }
        for cell in &mut cells {
            let state = &mut next[usize::from(cell.symbol)];
            cell.bits = (log - state.ilog2()) as u8;
            cell.base = (*state << cell.bits) - size as u16;
            *state += 1;
        }
        Self { cells, log }
    }

    /// Reads a table of at most `most_symbols` symbols; returns it and the bytes after it.
    pub fn read(bytes: &[u8], most_log: u32, most_symbols: usize) -> io::Result<(Self, &[u8])> {
        let mut bits = Forward::new(bytes);
        let log = bits.read(4)? + 5;
        if log > most_log {
            return Err(damaged("a zstd table is larger than it may be"));
        }
        let mut counts: Vec<i16> = Vec::new();
        let mut left = 1_u32 << log;
        while left > 0 {
            let width = (left + 1).ilog2() + 1;
            let mut value = bits.read(width)?;
            // The smaller half of the values takes a bit less.
            let mask = (1 << (width - 1)) - 1;
            let short = (1 << width) - 1 - (left + 1);
            if value & mask < short {
                bits.back();
                value &= mask;
            } else if value > mask {
                value -= short;
            }
            let count = value as i16 - 1;
            left = left
                .checked_sub(count.unsigned_abs().into())
                .ok_or_else(|| damaged("a zstd table counts more than its size"))?;
            counts.push(count);
            let mut more = if count == 0 { 3 } else { 0 };
            while more == 3 {
                more = bits.read(2)?;
                counts.extend(std::iter::repeat_n(0, more as usize));
            }
            if counts.len() > most_symbols {
                return Err(damaged("a zstd table has more symbols than there are"));
            }
        }
        Ok((Self::of(&counts, log), bits.rest()))
    }

    /// The first state.
    pub fn begin(&self, bits: &mut Backward<'_>) -> usize {
        bits.read(self.log) as usize
    }

    pub fn symbol(&self, state: usize) -> u8 {
        self.cells[state].symbol
    }

    /// The state after this one.
    pub fn next(&self, state: usize, bits: &mut Backward<'_>) -> usize {
        let cell = self.cells[state];
        usize::from(cell.base) + bits.read(cell.bits.into()) as usize
    }
}
