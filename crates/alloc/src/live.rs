//! From the address of a live block to the block, by position in its segment: one load, no hashing.
//!
//! Small blocks start at multiples of 512, so a segment of the small class has a slot for each, in leaves of 2 MiB that are
//! made when first used. Large blocks are above 1 MiB, so at most two start within 2 MiB: two slots for each such stretch.

use crate::block::{BlockId, NONE};
use crate::size::{MIN_BLOCK, SizeClass};

/// Bytes of a leaf, and of a stretch of the large class.
const STRETCH: u64 = 2 << 20;
const SLOTS: usize = (STRETCH / MIN_BLOCK) as usize;

/// A start: offset in the segment and block.
type Start = (u64, BlockId);
const VACANT: Start = (u64::MAX, NONE);

/// Where the live blocks of a segment start.
///
/// A slot of the small class keeps the block that was live there last until another one is: who looks must make sure that the
/// block found is live and starts there. So a free writes no slot.
#[derive(Debug)]
pub(crate) struct Live {
    slots: Slots,
    /// Starts that found no slot: odd offsets, or a third start in a stretch (an exact address can cut that finely).
    odd: Vec<Start>,
}

#[derive(Debug)]
enum Slots {
    Small(Leaves),
    Large(Vec<[Start; 2]>),
}

type Leaf = Box<[BlockId; SLOTS]>;

/// Slots of the small class. Most segments are of one stretch, so that the first leaf is here.
#[derive(Debug, Default)]
struct Leaves {
    first: Option<Leaf>,
    others: Vec<Option<Leaf>>,
}

impl Leaves {
    #[inline]
    fn get(&self, stretch: usize) -> Option<&Leaf> {
        match stretch {
            0 => self.first.as_ref(),
            _ => self.others.get(stretch - 1)?.as_ref(),
        }
    }

    #[inline]
    fn get_or_new(&mut self, stretch: usize) -> &mut Leaf {
        let leaf = match stretch {
            0 => &mut self.first,
            _ => {
                if self.others.len() < stretch {
                    self.others.resize_with(stretch, || None);
                }
                &mut self.others[stretch - 1]
            }
        };
        leaf.get_or_insert_with(new_leaf)
    }
}

impl Live {
    /// For a segment of a class.
    pub fn new(class: SizeClass) -> Self {
        let slots = match class {
            SizeClass::Small => Slots::Small(Leaves::default()),
            SizeClass::Large => Slots::Large(Vec::new()),
        };
        Live { slots, odd: Vec::new() }
    }

    #[inline]
    pub fn insert(&mut self, offset: u64, block: BlockId) {
        let stretch = (offset / STRETCH) as usize;
        match &mut self.slots {
            Slots::Small(leaves) if offset.is_multiple_of(MIN_BLOCK) => {
                leaves.get_or_new(stretch)[(offset % STRETCH / MIN_BLOCK) as usize] = block;
            }
            Slots::Large(stretches) => {
                if stretches.len() <= stretch {
                    stretches.resize(stretch + 1, [VACANT; 2]);
                }
                match stretches[stretch].iter_mut().find(|start| **start == VACANT) {
                    Some(start) => *start = (offset, block),
                    None => self.odd.push((offset, block)),
                }
            }
            Slots::Small(_) => self.odd.push((offset, block)),
        }
    }

    /// The block that starts at `offset` if any live one does.
    #[inline]
    pub fn get(&self, offset: u64) -> Option<BlockId> {
        let stretch = (offset / STRETCH) as usize;
        let found = match &self.slots {
            Slots::Small(leaves) if offset.is_multiple_of(MIN_BLOCK) => {
                let leaf = leaves.get(stretch)?;
                return Some(leaf[(offset % STRETCH / MIN_BLOCK) as usize]).filter(|&block| block != NONE);
            }
            Slots::Small(_) => None,
            Slots::Large(stretches) => stretches.get(stretch)?.iter().find(|start| start.0 == offset),
        };
        found.or_else(|| self.odd.iter().find(|start| start.0 == offset)).map(|start| start.1)
    }

    /// Makes room where a live block starts at `offset`: it is live no longer.
    #[inline]
    pub fn vacate(&mut self, offset: u64) {
        match &mut self.slots {
            Slots::Small(_) if offset.is_multiple_of(MIN_BLOCK) => return,
            Slots::Small(_) => {}
            Slots::Large(stretches) => {
                let stretch = stretches.get_mut((offset / STRETCH) as usize);
                if let Some(start) = stretch.and_then(|starts| starts.iter_mut().find(|start| start.0 == offset)) {
                    *start = VACANT;
                    return;
                }
            }
        }
        self.odd.retain(|start| start.0 != offset);
    }
}

#[cold]
fn new_leaf() -> Leaf {
    Box::new([NONE; SLOTS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_found_wherever_they_are() {
        for class in SizeClass::ALL {
            let mut live = Live::new(class);
            let offsets =
                [0, 512, 1024, 700, STRETCH - 512, STRETCH, 5 * STRETCH + 512, 5 * STRETCH + 1024, 5 * STRETCH + 3];
            for (block, &offset) in (0..).zip(&offsets) {
                assert_eq!(live.get(offset), None);
                live.insert(offset, block);
            }
            for (block, &offset) in (0..).zip(&offsets) {
                assert_eq!(live.get(offset), Some(block), "{class:?} {offset}");
                live.vacate(offset);
                live.insert(offset, block + 100);
                assert_eq!(live.get(offset), Some(block + 100), "{class:?} {offset}");
            }
            assert_eq!(live.get(1 << 40), None);
        }
    }
}
