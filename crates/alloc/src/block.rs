//! Blocks, in a slab; neighbours by index.

/// The index of a block in its pool's slab.
pub(crate) type BlockId = u32;

/// No block.
pub(crate) const NONE: BlockId = u32::MAX;

/// A range of a segment: live, waiting for events, free, or (in an expandable segment) not mapped.
///
/// Invariant: the blocks of a segment tile it, linked in address order by `prev` and `next`.
///
/// It fills one cache line: a free looks at a block and its two neighbours, and with many blocks that is what it costs.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Block {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// What the caller asked for; stale once the block is free.
    pub requested: u64,
    /// Reading of the pool's collection clock when the block became free (R2.20).
    pub born: u64,
    /// Where it lies among all addresses that the pool ever took up, oldest segment first: the order of age, then address
    /// (R1.17, R1.18), as one number.
    pub position: u64,
    pub prev: BlockId,
    pub next: BlockId,
    /// The segment, by its index in the pool.
    pub segment: u32,
    /// Events that must complete before the block is free; of an unmapped block, guards of its old mapping.
    pub events: u32,
    pub allocated: bool,
    /// False for the part of an expandable segment that has no physical memory.
    pub mapped: bool,
    pub expandable: bool,
    /// Other streams were recorded on the block; which ones is in the pool's side table.
    pub used: bool,
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Memory that nobody uses, the only block of a segment.
    pub fn new(addr: u64, size: u64, segment: u32) -> Self {
        Block {
            addr,
            size,
            requested: 0,
            born: 0,
            position: 0,
            prev: NONE,
            next: NONE,
            segment,
            events: 0,
            allocated: false,
            mapped: true,
            expandable: false,
            used: false,
        }
    }

    /// Whether the block shares its segment with others (R2.51).
    pub fn is_split(&self) -> bool {
        self.prev != NONE || self.next != NONE
    }

    /// Not live and waiting for nothing: what a merge and a mapping may use (R3.14, R4.11).
    pub fn is_idle(&self) -> bool {
        !self.allocated && self.events == 0 && !self.used
    }

    /// Idle with memory behind it: in the free list.
    pub fn is_free(&self) -> bool {
        self.mapped && self.is_idle()
    }

    /// Live or waiting: counted as active (R9.2).
    pub fn is_active(&self) -> bool {
        self.mapped && !self.is_idle()
    }

    /// Addresses whose pages have moved away and whose old mapping is still there: they wait for a guard.
    pub fn is_leaving(&self) -> bool {
        !self.mapped && self.events > 0
    }

    pub fn end(&self) -> u64 {
        self.addr + self.size
    }
}

/// The blocks of one pool. Freed entries are used again; the chain of them runs through `next`.
#[derive(Debug)]
pub(crate) struct Slab {
    blocks: Vec<Block>,
    /// Which of them the free list has, a bit each: asked of both neighbours at every free, and seldom so, this must not fetch
    /// their lines.
    listed: Vec<u64>,
    vacant: BlockId,
    len: usize,
}

impl Default for Slab {
    fn default() -> Self {
        Slab { blocks: Vec::new(), listed: Vec::new(), vacant: NONE, len: 0 }
    }
}

impl Slab {
    pub fn insert(&mut self, block: Block) -> BlockId {
        self.len += 1;
        match self.vacant {
            NONE => {
                let id = self.blocks.len();
                self.blocks.push(block);
                if id.is_multiple_of(64) {
                    self.listed.push(0);
                }
                id as BlockId
            }
            id => {
                let place = &mut self.blocks[id as usize];
                self.vacant = place.next;
                *place = block;
                id
            }
        }
    }

    pub fn remove(&mut self, id: BlockId) {
        let vacant = std::mem::replace(&mut self.vacant, id);
        let place = &mut self.blocks[id as usize];
        // A vacant entry belongs to no segment: `verify` and `get` tell it by that.
        place.segment = u32::MAX;
        place.next = vacant;
        self.len -= 1;
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the free list has a block; `NONE` is in no list.
    #[inline]
    pub fn is_listed(&self, id: BlockId) -> bool {
        self.listed.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 != 0)
    }

    /// Notes that the free list has a block.
    #[inline]
    pub fn list(&mut self, id: BlockId) {
        self.listed[id as usize / 64] |= 1 << (id % 64);
    }

    /// Notes that the free list has a block no more.
    #[inline]
    pub fn unlist(&mut self, id: BlockId) {
        self.listed[id as usize / 64] &= !(1 << (id % 64));
    }

    /// All blocks in use with their ids, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.segment != u32::MAX)
            .map(|(id, block)| (id as BlockId, block))
    }
}

impl std::ops::Index<BlockId> for Slab {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Slab {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id as usize]
    }
}
