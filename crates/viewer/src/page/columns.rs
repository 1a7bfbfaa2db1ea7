//! Columns of numbers, as a page reads them: each value as the zigzag of its difference to the one before, seven bits a byte.
//!
//! Rows of a timeline follow each other closely, so most values take one byte or two before they are packed.

use serde::Serialize;

/// The greatest figure that a page's numbers hold exactly.
pub const LIMIT: u64 = 1 << 53;

/// Where a column stands among the bytes of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its first byte.
    pub offset: usize,
    /// How many values there are.
    pub count: usize,
}

/// The bytes of all columns.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    pub bytes: Vec<u8>,
    /// The first figure beyond [`LIMIT`] that came along.
    pub beyond: Option<u64>,
}

impl Columns {
    /// Writes a column.
    pub fn add(&mut self, values: impl IntoIterator<Item = u64>) -> Column {
        let (offset, mut count, mut before) = (self.bytes.len(), 0, 0u64);
        for value in values {
            if value >= LIMIT {
                self.beyond.get_or_insert(value);
            }
            let difference = value.wrapping_sub(before) as i64;
            self.number(((difference << 1) ^ (difference >> 63)) as u64);
            before = value;
            count += 1;
        }
        Column { offset, count }
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As web/src/data/columns.ts does it.
    fn read(columns: &Columns, column: Column) -> Vec<u64> {
        let (mut at, mut before, mut values) = (column.offset, 0u64, Vec::new());
        for _ in 0..column.count {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                let byte = columns.bytes[at];
                at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            before = before.wrapping_add(((value >> 1) as i64 ^ -((value & 1) as i64)) as u64);
            values.push(before);
        }
        values
    }

    #[test]
    fn columns_come_back_as_they_were() {
        let mut columns = Columns::default();
        let first = [0, 5, 3, LIMIT - 1, 0, 1 << 40];
        let (a, b) = (columns.add(first), columns.add([7, 7, 7]));
        assert_eq!(read(&columns, a), first);
        assert_eq!(read(&columns, b), [7, 7, 7]);
        assert_eq!((b.count, columns.bytes.len() - b.offset), (3, 3));
        assert_eq!(columns.beyond, None);
    }

    #[test]
    fn figures_that_a_page_cannot_hold_are_named() {
        let mut columns = Columns::default();
        let column = columns.add([1, LIMIT + 3, u64::MAX]);
        assert_eq!(columns.beyond, Some(LIMIT + 3));
        assert_eq!(read(&columns, column), [1, LIMIT + 3, u64::MAX]);
    }
}
