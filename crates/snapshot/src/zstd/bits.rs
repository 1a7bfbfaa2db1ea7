//! Bits, read forward (tables) and backward (everything that is packed with them).

use std::io;

use super::damaged;

/// Bits from the front, lowest first.
pub(super) struct Forward<'a> {
    bytes: &'a [u8],
    /// Bits read.
    position: usize,
}

impl<'a> Forward<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next `count` bits, at most 16.
    pub fn read(&mut self, count: u32) -> io::Result<u32> {
        let value = window(self.bytes, self.position / 8) >> (self.position % 8) & ((1 << count) - 1);
        self.position += count as usize;
        if self.position > self.bytes.len() * 8 {
            return Err(damaged("a zstd table is cut off"));
        }
        Ok(value as u32)
    }

    /// Gives the last bit back.
    pub fn back(&mut self) {
        self.position -= 1;
    }

    /// What follows the last byte that was begun.
    pub fn rest(self) -> &'a [u8] {
        &self.bytes[self.position.div_ceil(8)..]
    }
}

/// Bits from the back: the last byte's highest set bit marks where they begin.
pub(super) struct Backward<'a> {
    bytes: &'a [u8],
    /// Bits that are left; below zero when more were read than there are.
    left: isize,
}

impl<'a> Backward<'a> {
    pub fn new(bytes: &'a [u8]) -> io::Result<Self> {
        match bytes.last() {
            None | Some(0) => Err(damaged("a zstd bit stream has no end mark")),
            Some(last) => {
                let left = bytes.len() as isize * 8 - last.leading_zeros() as isize - 1;
                Ok(Self { bytes, left })
            }
        }
    }

    /// The next `count` bits, at most 32, without taking them. Bits before the first are zero.
    pub fn peek(&self, count: u32) -> u64 {
        let mask = (1 << count) - 1;
        let start = self.left - count as isize;
        if start >= 0 {
            let start = start as usize;
            return window(self.bytes, start / 8) >> (start % 8) & mask;
        }
        if start <= -64 {
            return 0;
        }
        window(self.bytes, 0) << -start & mask
    }

    pub fn take(&mut self, count: u32) {
        self.left -= count as isize;
    }

    pub fn read(&mut self, count: u32) -> u64 {
        let value = self.peek(count);
        self.take(count);
        value
    }

    /// Whether more was read than there is.
    pub fn is_overrun(&self) -> bool {
        self.left < 0
    }

    /// Whether all was read, and no more.
    pub fn is_finished(&self) -> bool {
        self.left == 0
    }
}

/// Eight bytes from `at` on, little end first; zeros after the last.
fn window(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let mut whole = [0; 8];
    whole[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_from_the_lowest_bit() {
        let mut bits = Forward::new(&[0b1010_0110, 0xff, 7]);
        assert_eq!(bits.read(3).unwrap(), 0b110);
        assert_eq!(bits.read(9).unwrap(), 0b1_1111_0100);
        bits.back();
        assert_eq!(bits.read(1).unwrap(), 1);
        assert_eq!(bits.rest(), [7]);
        assert!(Forward::new(&[1]).read(9).is_err());
    }

    #[test]
    fn backward_from_the_end_mark() {
        let mut bits = Backward::new(&[0b1100_0011, 0b0000_1101]).unwrap();
        assert_eq!(bits.read(3), 0b101);
        assert_eq!(bits.read(4), 0b1100);
        assert_eq!(bits.peek(6), 0b00_1100, "zeros before the first bit");
        bits.take(4);
        assert!(bits.is_finished());
        assert_eq!(bits.read(5), 0);
        assert!(bits.is_overrun());
        assert!(Backward::new(&[1, 0]).is_err());
        assert!(Backward::new(&[]).is_err());
    }
}
