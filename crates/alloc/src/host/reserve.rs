//! The reserve segment: one pinned region from which blocks are cut (R7.13).

use std::collections::BTreeMap;

use super::bins::Classes;
use super::block::Source;

/// Blocks begin at multiples of this (R7.9).
const STEP: u64 = 4096;

/// The reserve segment of a cache.
#[derive(Debug, Default)]
pub(crate) enum Reserve {
    /// Nobody has asked for host memory yet.
    #[default]
    Unread,
    /// The setting was 0 when it was read, once.
    Off,
    /// There is one.
    Region(Region),
}

/// One pinned region. It is never given back while the cache lives.
#[derive(Debug)]
pub(crate) struct Region {
    pub base: u64,
    /// Free ranges, address to bytes. PyTorch's bump pointer is the one range behind all blocks.
    free: BTreeMap<u64, u64>,
    /// Whether ranges come back and merge (with `pinned_size_classes`), or are lost once they were cut (R7.13).
    splits: bool,
    /// How the region itself was made.
    pub source: Source,
}

impl Region {
    pub fn new((base, source): (u64, Source), size: u64, classes: Classes) -> Self {
        Region { base, free: BTreeMap::from([(base, size)]), splits: classes.splits_reserve(), source }
    }

    /// Cuts `bytes` off the smallest free range that has them; the lowest one of several.
    pub fn cut(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(STEP)?;
        let (&addr, &range) =
            self.free.iter().filter(|&(_, &range)| range >= bytes).min_by_key(|&(_, &range)| range)?;
        self.free.remove(&addr);
        if range > bytes {
            self.free.insert(addr + bytes, range - bytes);
        }
        Some(addr)
    }

    /// Takes a range back and merges it with its neighbours, if this region does that.
    pub fn put_back(&mut self, addr: u64, bytes: u64) {
        if !self.splits {
            return;
        }
        let (mut addr, mut bytes) = (addr, bytes.next_multiple_of(STEP));
        if let Some(behind) = self.free.remove(&(addr + bytes)) {
            bytes += behind;
        }
        if let Some((&before, &range)) = self.free.range(..addr).next_back()
            && before + range == addr
        {
            self.free.remove(&before);
            (addr, bytes) = (before, range + bytes);
        }
        self.free.insert(addr, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_9_blocks_are_cut_in_steps_of_4_kib_and_never_come_back() {
        let mut region = Region::new((0x1000, Source::Allocated), 3 * STEP, Classes::PowersOfTwo);
        assert_eq!(region.cut(1), Some(0x1000));
        region.put_back(0x1000, 1);
        assert_eq!(region.cut(STEP + 1), Some(0x2000));
        assert_eq!(region.cut(1), None);
    }

    #[test]
    fn ranges_that_split_merge_again() {
        let mut region = Region::new((0x1000, Source::Allocated), 8 * STEP, Classes::Eighths);
        let blocks: Vec<u64> = (0..4).filter_map(|_| region.cut(2 * STEP)).collect();
        assert_eq!(region.cut(1), None);
        for block in [1, 3, 2, 0] {
            region.put_back(blocks[block], 2 * STEP);
        }
        assert_eq!(region.cut(8 * STEP), Some(0x1000));
    }
}
