//! The fast reader: the three shapes that make up nearly all lines of a workload, as the writer writes them.

use super::op::Op;

/// The request of a line in one of the common shapes; `None` leaves it to the exact reader.
#[inline]
pub(super) fn scan(line: &[u8]) -> Option<Op> {
    let rest = line.strip_prefix(b"{\"op\":\"")?;
    if let Some(rest) = rest.strip_prefix(b"free\",\"id\":") {
        let (id, rest) = number(rest)?;
        return (rest == b"}").then_some(Op::Free { id });
    }
    if let Some(rest) = rest.strip_prefix(b"alloc\",\"id\":") {
        let (id, rest) = number(rest)?;
        let (size, rest) = number(rest.strip_prefix(b",\"size\":")?)?;
        let (stream, rest) = name(rest.strip_prefix(b",\"stream\":")?)?;
        if rest == b"}" {
            return Some(Op::Alloc { id, size, stream, pool: None });
        }
        let (pool, rest) = name(rest.strip_prefix(b",\"pool\":")?)?;
        return (rest == b"}").then_some(Op::Alloc { id, size, stream, pool: Some(pool) });
    }
    let (id, rest) = number(rest.strip_prefix(b"record_stream\",\"id\":")?)?;
    let (stream, rest) = name(rest.strip_prefix(b",\"stream\":")?)?;
    (rest == b"}").then_some(Op::RecordStream { id, stream })
}

/// A decimal of at most 19 digits, which always fits, and what follows it.
#[inline]
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut digits = 0;
    while let Some(digit) = text.get(digits).map(|c| c.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        if digits == 19 {
            return None;
        }
        value = value * 10 + u64::from(digit);
        digits += 1;
    }
    // JSON knows no leading zeros.
    if digits == 0 || (digits > 1 && text[0] == b'0') {
        return None;
    }
    Some((value, &text[digits..]))
}

#[inline]
fn name(text: &[u8]) -> Option<(u32, &[u8])> {
    let (value, rest) = number(text)?;
    Some((u32::try_from(value).ok()?, rest))
}
