//! Huffman codes of literals (RFC 8878, 4.2).

use std::io;

use super::bits::Backward;
use super::damaged;
use super::fse::Table;

const MOST_BITS: u32 = 11;
const MOST_SYMBOLS: usize = 256;

/// A decoding table: the next bits, as many as the longest code has, say the symbol and its length.
pub(super) struct Codes {
    cells: Vec<(u8, u8)>,
    log: u32,
}

impl Codes {
    /// Reads the codes; returns them and the bytes after them.
    pub fn read(bytes: &[u8]) -> io::Result<(Self, &[u8])> {
        let cut = || damaged("a zstd Huffman table is cut off");
        let (&head, rest) = bytes.split_first().ok_or_else(cut)?;
        let count = usize::from(head);
        if count < 128 {
            let (packed, rest) = rest.split_at_checked(count).ok_or_else(cut)?;
            return Ok((Self::of(unpack_weights(packed)?)?, rest));
        }
        let count = count - 127;
        let (nibbles, rest) = rest.split_at_checked(count.div_ceil(2)).ok_or_else(cut)?;
        let mut weights: Vec<u8> = nibbles.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        weights.truncate(count);
        Ok((Self::of(weights)?, rest))
    }

    /// Codes of these weights and of a last one, which fills what they leave.
    fn of(mut weights: Vec<u8>) -> io::Result<Self> {
        let wrong = || damaged("a zstd Huffman table does not add up");
        if weights.iter().any(|&weight| u32::from(weight) > MOST_BITS) || weights.len() >= MOST_SYMBOLS {
            return Err(wrong());
        }
        let share = |weight: u8| (1_u32 << weight) >> 1;
        let sum: u32 = weights.iter().map(|&weight| share(weight)).sum();
        let log = sum.checked_ilog2().ok_or_else(wrong)? + 1;
        let last = (1 << log) - sum;
        if log > MOST_BITS || !last.is_power_of_two() {
            return Err(wrong());
        }
        weights.push(last.ilog2() as u8 + 1);
        let mut cells = Vec::with_capacity(1 << log);
        for weight in 1..=log as u8 {
            for (symbol, _) in weights.iter().enumerate().filter(|(_, known)| **known == weight) {
                let cell = (symbol as u8, log as u8 + 1 - weight);
                cells.extend(std::iter::repeat_n(cell, share(weight) as usize));
            }
        }
        Ok(Self { cells, log })
    }

    /// Unpacks `count` literals of one bit stream.
    pub fn unpack(&self, stream: &[u8], count: usize, literals: &mut Vec<u8>) -> io::Result<()> {
        let mut bits = Backward::new(stream)?;
        for _ in 0..count {
            let (symbol, len) = self.cells[bits.peek(self.log) as usize];
            bits.take(len.into());
            literals.push(symbol);
        }
        if bits.is_finished() { Ok(()) } else { Err(damaged("a zstd stream of literals has another length")) }
    }
}

/// Weights that are packed themselves: two states take turns until the bits are used up.
fn unpack_weights(packed: &[u8]) -> io::Result<Vec<u8>> {
    let (table, stream) = Table::read(packed, 6, MOST_SYMBOLS)?;
    let mut bits = Backward::new(stream)?;
    let mut states = [table.begin(&mut bits), table.begin(&mut bits)];
    if bits.is_overrun() {
        return Err(damaged("a zstd Huffman table is cut off"));
    }
    let mut weights = Vec::new();
    loop {
        weights.push(table.symbol(states[0]));
        states[0] = table.next(states[0], &mut bits);
        if bits.is_overrun() {
            weights.push(table.symbol(states[1]));
            return Ok(weights);
        }
        if weights.len() >= MOST_SYMBOLS {
            return Err(damaged("a zstd Huffman table has too many weights"));
        }
        states.swap(0, 1);
    }
}
