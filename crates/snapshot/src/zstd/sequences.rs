//! Sequences (RFC 8878, 3.1.1.3.2): so many literals, then so many bytes from so far back.

use std::io;

use super::bits::Backward;
use super::damaged;
use super::fse::Table;

/// The three tables, which the next block may use again.
pub(super) struct Tables {
    literals: Option<Table>,
    offsets: Option<Table>,
    matches: Option<Table>,
}

impl Tables {
    pub fn new() -> Self {
        Self { literals: None, offsets: None, matches: None }
    }
}

/// One sequence.
pub(super) struct Sequence {
    /// Literals before the match, bytes.
    pub literals: usize,
    /// Length of the match, bytes.
    pub len: usize,
    /// 1 to 3: an offset used before; else the offset and 3.
    pub offset: usize,
}

/// Calls `each` for every sequence of a section, which ends with `bytes`.
pub(super) fn each(
    bytes: &[u8],
    tables: &mut Tables,
    mut each: impl FnMut(Sequence) -> io::Result<()>,
) -> io::Result<()> {
    let Some((count, bytes)) = count(bytes) else {
        return Err(damaged("a zstd section of sequences is cut off"));
    };
    if count == 0 {
        return if bytes.is_empty() { Ok(()) } else { Err(damaged("a zstd block goes on after its end")) };
    }
    let Some((&modes, bytes)) = bytes.split_first() else {
        return Err(damaged("a zstd section of sequences is cut off"));
    };
    if modes & 3 != 0 {
        return Err(damaged("a zstd block has its reserved bits set"));
    }
    let bytes = table(&mut tables.literals, modes >> 6, bytes, &LITERALS)?;
    let bytes = table(&mut tables.offsets, modes >> 4 & 3, bytes, &OFFSETS)?;
    let bytes = table(&mut tables.matches, modes >> 2 & 3, bytes, &MATCHES)?;
    let (Some(literals), Some(offsets), Some(matches)) = (&tables.literals, &tables.offsets, &tables.matches) else {
        return Err(damaged("a zstd table is used that was never given"));
    };
    let mut bits = Backward::new(bytes)?;
    let mut literal = literals.begin(&mut bits);
    let mut offset = offsets.begin(&mut bits);
    let mut len = matches.begin(&mut bits);
    for index in 1..=count {
        let offset_bits = u32::from(offsets.symbol(offset));
        let (len_base, len_bits) = match_len(matches.symbol(len));
        let (literal_base, literal_bits) = literal_len(literals.symbol(literal));
        let sequence = Sequence {
            offset: (1 << offset_bits) + bits.read(offset_bits) as usize,
            len: len_base + bits.read(len_bits) as usize,
            literals: literal_base + bits.read(literal_bits) as usize,
        };
        if index < count {
            literal = literals.next(literal, &mut bits);
            len = matches.next(len, &mut bits);
            offset = offsets.next(offset, &mut bits);
        }
        if bits.is_overrun() {
            return Err(damaged("a zstd section of sequences is cut off"));
        }
        each(sequence)?;
    }
    if bits.is_finished() { Ok(()) } else { Err(damaged("a zstd section of sequences is too long")) }
}

/// How many sequences there are, and the bytes after that.
fn count(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match *bytes {
        [first @ 0..=127, ref rest @ ..] => Some((first.into(), rest)),
        [255, low, high, ref rest @ ..] => Some((usize::from(u16::from_le_bytes([low, high])) + 0x7f00, rest)),
        [first @ 128..=254, low, ref rest @ ..] => Some((usize::from(u16::from_be_bytes([first - 128, low])), rest)),
        _ => None,
    }
}

/// What a kind of table may be, and what it is when nothing is said.
struct Form {
    default: (&'static [i16], u32),
    most_log: u32,
    symbols: usize,
}

/// Sets a table as its mode says; returns the bytes after it.
fn table<'a>(table: &mut Option<Table>, mode: u8, bytes: &'a [u8], form: &Form) -> io::Result<&'a [u8]> {
    let (new, rest) = match mode {
        0 => (Table::of(form.default.0, form.default.1), bytes),
        1 => match bytes.split_first() {
            Some((&symbol, rest)) if usize::from(symbol) < form.symbols => (Table::always(symbol), rest),
            _ => return Err(damaged("a zstd table has a symbol that there is not")),
        },
        2 => Table::read(bytes, form.most_log, form.symbols)?,
        _ => return Ok(bytes),
    };
    *table = Some(new);
    Ok(rest)
}

const LITERALS: Form = Form {
    default: (
        &[
            4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1,
            -1,
        ],
        6,
    ),
    most_log: 9,
    symbols: 36,
};

const OFFSETS: Form = Form {
    default: (&[1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1], 5),
    most_log: 8,
    symbols: 32,
};

const MATCHES: Form = Form {
    default: (
        &[
            1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
        ],
        6,
    ),
    most_log: 9,
    symbols: 53,
};

/// The least length of a code of literals, and how many bits say how much more.
fn literal_len(code: u8) -> (usize, u32) {
    const LONG: [(usize, u32); 20] = [
        (16, 1),
        (18, 1),
        (20, 1),
        (22, 1),
        (24, 2),
        (28, 2),
        (32, 3),
        (40, 3),
        (48, 4),
        (64, 6),
        (128, 7),
        (256, 8),
        (512, 9),
        (1024, 10),
        (2048, 11),
        (4096, 12),
        (8192, 13),
        (16384, 14),
        (32768, 15),
        (65536, 16),
    ];
    let code = usize::from(code);
    code.checked_sub(16).and_then(|long| LONG.get(long).copied()).unwrap_or((code, 0))
}

/// The least length of a code of matches, and how many bits say how much more.
fn match_len(code: u8) -> (usize, u32) {
    const LONG: [(usize, u32); 21] = [
        (35, 1),
        (37, 1),
        (39, 1),
        (41, 1),
        (43, 2),
        (47, 2),
        (51, 3),
        (59, 3),
        (67, 4),
        (83, 4),
        (99, 5),
        (131, 7),
        (259, 8),
        (515, 9),
        (1027, 10),
        (2051, 11),
        (4099, 12),
        (8195, 13),
        (16387, 14),
        (32771, 15),
        (65539, 16),
    ];
    let code = usize::from(code);
    code.checked_sub(32).and_then(|long| LONG.get(long).copied()).unwrap_or((code + 3, 0))
}
