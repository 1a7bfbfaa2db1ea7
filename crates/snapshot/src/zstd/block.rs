//! Blocks (RFC 8878, 3.1.1.2) and what one leaves for the next: tables and offsets.

use std::io::{self, Read};

use super::huffman::Codes;
use super::sequences::{self, Sequence, Tables};
use super::{damaged, number};

/// What a block may hold at most, packed or unpacked, bytes.
pub(super) const MOST_BLOCK: usize = 128 << 10;

/// The blocks of one frame.
pub(super) struct Blocks {
    /// What a block of this frame may hold, bytes.
    most: usize,
    codes: Option<Codes>,
    tables: Tables,
    /// The last three offsets, newest first.
    offsets: [usize; 3],
    packed: Vec<u8>,
    literals: Vec<u8>,
}

impl Blocks {
    pub fn new(most: usize) -> Self {
        Self { most, codes: None, tables: Tables::new(), offsets: [1, 4, 8], packed: Vec::new(), literals: Vec::new() }
    }

    /// Unpacks the next block behind `history`; says whether it is the last.
    pub fn next(&mut self, source: &mut impl Read, history: &mut Vec<u8>) -> io::Result<bool> {
        let header = number(source, 3)? as usize;
        let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        if size > self.most {
            return Err(too_large());
        }
        match kind {
            0 => {
                let start = history.len();
                history.resize(start + size, 0);
                source.read_exact(&mut history[start..])?;
            }
            1 => {
                let byte = number(source, 1)? as u8;
                history.resize(history.len() + size, byte);
            }
            2 => {
                let mut packed = std::mem::take(&mut self.packed);
                packed.resize(size, 0);
                source.read_exact(&mut packed)?;
                self.unpack(&packed, history)?;
                self.packed = packed;
            }
            _ => return Err(damaged("a zstd block is of a kind that there is not")),
        }
        Ok(is_last)
    }

    fn unpack(&mut self, packed: &[u8], history: &mut Vec<u8>) -> io::Result<()> {
        let mut literals = std::mem::take(&mut self.literals);
        literals.clear();
        let rest = self.unpack_literals(packed, &mut literals)?;
        let end = history.len() + self.most;
        let mut used = 0;
        let (tables, offsets) = (&mut self.tables, &mut self.offsets);
        sequences::each(rest, tables, |sequence| {
            let next = used + sequence.literals;
            let Some(new) = literals.get(used..next) else {
                return Err(damaged("a zstd block uses more literals than it has"));
            };
            if history.len() + sequence.literals + sequence.len > end {
                return Err(too_large());
            }
            history.extend_from_slice(new);
            used = next;
            let offset = resolve(&sequence, offsets);
            repeat(history, offset, sequence.len)
        })?;
        let last = &literals[used..];
        if history.len() + last.len() > end {
            return Err(too_large());
        }
        history.extend_from_slice(last);
        self.literals = literals;
        Ok(())
    }

    /// Unpacks the literals; returns the bytes after them.
    fn unpack_literals<'a>(&mut self, packed: &'a [u8], literals: &mut Vec<u8>) -> io::Result<&'a [u8]> {
        let cut = || damaged("a zstd block is cut off in its literals");
        let &first = packed.first().ok_or_else(cut)?;
        let (kind, form) = (first & 3, first >> 2 & 3);
        let is_packed = kind >= 2;
        // How long the header is, and how many bits each size in it has, from which bit on.
        let (width, size_bits, skip) = match (is_packed, form) {
            (false, 0 | 2) => (1, 5, 3),
            (false, 1) => (2, 12, 4),
            (false, _) => (3, 20, 4),
            (true, 0 | 1) => (3, 10, 4),
            (true, 2) => (4, 14, 4),
            (true, _) => (5, 18, 4),
        };
        let (header, rest) = packed.split_at_checked(width).ok_or_else(cut)?;
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(header);
        let sizes = u64::from_le_bytes(bytes) >> skip;
        let mask = (1 << size_bits) - 1;
        let size = (sizes & mask) as usize;
        if size > self.most {
            return Err(too_large());
        }
        if !is_packed {
            let stored = if kind == 0 { size } else { 1 };
            let (stored, rest) = rest.split_at_checked(stored).ok_or_else(cut)?;
            match kind {
                0 => literals.extend_from_slice(stored),
                _ => literals.resize(size, stored[0]),
            }
            return Ok(rest);
        }
        let packed_size = (sizes >> size_bits & mask) as usize;
        let (mut streams, rest) = rest.split_at_checked(packed_size).ok_or_else(cut)?;
        if kind == 2 {
            let (codes, after) = Codes::read(streams)?;
            self.codes = Some(codes);
            streams = after;
        }
        let codes = self.codes.as_ref().ok_or_else(|| damaged("a zstd Huffman table is used that was never given"))?;
        if form == 0 {
            codes.unpack(streams, size, literals)?;
            return Ok(rest);
        }
        let (jumps, mut streams) = streams.split_at_checked(6).ok_or_else(cut)?;
        let each = size.div_ceil(4);
        let last = size.checked_sub(3 * each).ok_or_else(cut)?;
        for jump in jumps.chunks_exact(2) {
            let len = usize::from(u16::from_le_bytes([jump[0], jump[1]]));
            let (stream, after) = streams.split_at_checked(len).ok_or_else(cut)?;
            codes.unpack(stream, each, literals)?;
            streams = after;
        }
        codes.unpack(streams, last, literals)?;
        Ok(rest)
    }
}

fn too_large() -> io::Error {
    damaged("a zstd block unpacks to more than a block may hold")
}

/// How far back a sequence's match is, bytes; remembers it as the newest offset.
fn resolve(sequence: &Sequence, offsets: &mut [usize; 3]) -> usize {
    if sequence.offset > 3 {
        let offset = sequence.offset - 3;
        *offsets = [offset, offsets[0], offsets[1]];
        return offset;
    }
    // 1, 2 and 3 are the newest three. Without literals between, the newest would be one longer
    // match, and they mean the second, the third and one less than the newest.
    let index = sequence.offset - 1 + usize::from(sequence.literals == 0);
    let offset = offsets.get(index).copied().unwrap_or(offsets[0].wrapping_sub(1));
    match index {
        0 => {}
        1 => offsets.swap(0, 1),
        _ => *offsets = [offset, offsets[0], offsets[1]],
    }
    offset
}

/// Repeats `len` bytes from `offset` back, which may be some of those just written.
fn repeat(history: &mut Vec<u8>, offset: usize, len: usize) -> io::Result<()> {
    let start = history.len().checked_sub(offset);
    let Some(start) = start.filter(|_| offset > 0) else {
        return Err(damaged("a zstd block refers to before the beginning"));
    };
    let mut left = len;
    while left > 0 {
        let now = left.min(history.len() - start);
        history.extend_from_within(start..start + now);
        left -= now;
    }
    Ok(())
}
