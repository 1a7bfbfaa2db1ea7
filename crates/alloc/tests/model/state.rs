//! What the model holds: flat lists of segments and blocks, and questions about them.

use std::collections::BTreeSet;

use super::device::Device;
use super::settings::Conf;
use super::stats::{Statistics, What};
use super::table::Table;

/// A memory pool's id.
pub type Id = (u64, u64);
pub const DEFAULT: Id = (0, 0);

/// Where a custom allocator's segments come from: the same rule on both sides of a comparison.
pub trait Source: std::fmt::Debug {
    fn take(&mut self, bytes: u64) -> Option<u64>;
    fn give(&mut self, addr: u64, bytes: u64);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Driver,
    Custom,
    Expandable { page: u64 },
}

#[derive(Clone, Debug)]
pub struct Segment {
    pub base: u64,
    pub size: u64,
    pub stream: u64,
    pub pool: Id,
    pub small: bool,
    pub kind: Kind,
    /// R1.18.
    pub counter: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Live,
    /// Given back, and other streams may still use it.
    Pending,
    Free,
    Unmapped,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub id: u64,
    /// The counter of its segment, which no other segment has.
    pub segment: u64,
    pub addr: u64,
    pub size: u64,
    pub requested: u64,
    pub used: Use,
    /// Foreign streams that use it.
    pub streams: Table,
    /// Those of them that were recorded in a capture.
    pub captured: Vec<u64>,
    pub events: u32,
    /// The pool's clock when it became free (R2.20).
    pub born: u64,
}

#[derive(Clone, Debug)]
pub struct Pool {
    pub id: Id,
    pub use_count: i64,
    /// R5.3: counts driver allocations as PyTorch does.
    pub driver_count: i64,
    pub custom: Option<usize>,
    pub no_split: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Any,
    Thread(u64),
    Stream(u64),
    /// A capture, once it has begun.
    Capture(Option<u64>),
    /// A function that accepts these.
    Streams(Vec<u64>),
}

/// The calling thread and its current stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub stream: u64,
    pub thread: u64,
}

/// A trace entry: PyTorch's word, address, size.
pub type Entry = (&'static str, u64, u64);

#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    TooLarge,
    Rejected { requested: u64 },
    Oom(OomFacts),
    UnknownAddress,
    ScopeOpen,
    ScopeNotOpen,
    PoolReleased,
    UnknownPool,
    Misaligned,
    NotFree,
    InvalidFraction,
}

/// The figures of the OOM text (R2.46).
#[derive(Clone, Debug, PartialEq)]
pub struct OomFacts {
    pub requested: u64,
    pub rounded: u64,
    pub alloc_size: u64,
    pub device_free: u64,
    pub limit: Option<u64>,
    pub allocated: u64,
    pub reserved: u64,
    pub cached_in_private_pools: u64,
    pub hint: Hint,
    pub custom_failed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    TryExpandable,
    AddressSpace,
    ReserveTooSmall(u64),
}

#[derive(Debug)]
pub struct Model {
    pub device: Device,
    pub conf: Conf,
    pub limit: Option<u64>,
    pub segments: Vec<Segment>,
    pub blocks: Vec<Block>,
    pub pools: Vec<Pool>,
    /// Innermost last.
    pub scopes: Vec<(Id, Filter)>,
    pub lenders: Table,
    pub freeable: Table,
    /// Event queues by stream: (event, block), oldest first.
    pub queues: Vec<(u64, Vec<(u64, u64)>)>,
    pub queue_order: Table,
    /// Blocks freed in a capture that wait for its end.
    pub deferred: Vec<u64>,
    pub captures: i64,
    /// GC clocks by memory pool and size class (R1.21).
    pub clocks: Vec<(Id, bool, u64)>,
    pub stats: Statistics,
    pub trace: Vec<Entry>,
    pub next_block: u64,
    pub next_counter: u64,
    pub sources: Vec<Box<dyn Source>>,
    /// Why the law says nothing from here on.
    pub undefined: Option<&'static str>,
    /// Whether a request found the device or the limit exhausted.
    pub exhausted: bool,
    /// Whether several deferred blocks were freed at once: their order is unspecified (R3.16).
    pub unordered: bool,
    /// Which of [`REACHABLE`] happened: so that a test can tell that its scripts go everywhere.
    pub reached: BTreeSet<&'static str>,
}

/// What random scripts must all have met.
pub const REACHABLE: [&str; 27] = [
    "R1.5 divided",
    "R1.12 whole by no_split",
    "R1.23 a smaller growable block",
    "R1.24 expandable skipped",
    "R1.25 oversize block refused",
    "R1.25 rounding refused",
    "R2.11 limit",
    "R2.14 custom allocator empty",
    "R2.22 collected",
    "R2.25 one oversize block",
    "R2.26 several oversize blocks",
    "R2.27 lent",
    "R2.31 pending block freed",
    "R2.32 pool erased",
    "R2.33 only the pool's events",
    "R2.40 rejected",
    "R2.43 out of memory",
    "R2.54 prefix",
    "R2.7 served after retry",
    "R3.13 event not ready",
    "R4.11 gap first",
    "R4.12 reserve too small",
    "R4.14 mapping failed half-way",
    "R4.19 edges stay",
    "R4.22 segment destroyed",
    "R5.29 deferred",
    "R5.37 event after a capture",
];

impl Model {
    pub fn new(conf: Conf, capacity: u64, manual: bool) -> Self {
        let limit = limit_of(conf.fraction, capacity);
        let stats = Statistics { max_split: conf.max_split as i64, ..Statistics::default() };
        Model {
            device: Device::new(capacity, manual),
            conf,
            limit,
            segments: Vec::new(),
            blocks: Vec::new(),
            pools: vec![Pool { id: DEFAULT, use_count: 1, driver_count: 0, custom: None, no_split: false }],
            scopes: Vec::new(),
            lenders: Table::default(),
            freeable: Table::default(),
            queues: Vec::new(),
            queue_order: Table::default(),
            deferred: Vec::new(),
            captures: 0,
            clocks: Vec::new(),
            stats,
            trace: Vec::new(),
            next_block: 0,
            next_counter: 0,
            sources: Vec::new(),
            undefined: None,
            exhausted: false,
            unordered: false,
            reached: BTreeSet::new(),
        }
    }

    /// Bytes held from the driver (R2.11).
    pub fn held(&self) -> u64 {
        self.blocks.iter().filter(|block| block.used != Use::Unmapped).map(|block| block.size).sum()
    }

    pub fn block(&self, id: u64) -> &Block {
        self.blocks.iter().find(|block| block.id == id).expect("a block")
    }

    pub fn block_mut(&mut self, id: u64) -> &mut Block {
        self.blocks.iter_mut().find(|block| block.id == id).expect("a block")
    }

    pub fn segment_of(&self, id: u64) -> &Segment {
        let counter = self.block(id).segment;
        self.segments.iter().find(|segment| segment.counter == counter).expect("a segment")
    }

    pub fn is_expandable(&self, id: u64) -> bool {
        matches!(self.segment_of(id).kind, Kind::Expandable { .. })
    }

    /// The block before it in its segment.
    pub fn prev(&self, id: u64) -> Option<u64> {
        let block = self.block(id);
        self.blocks.iter().find(|b| b.segment == block.segment && b.addr + b.size == block.addr).map(|b| b.id)
    }

    pub fn next(&self, id: u64) -> Option<u64> {
        let block = self.block(id);
        self.blocks.iter().find(|b| b.segment == block.segment && block.addr + block.size == b.addr).map(|b| b.id)
    }

    /// Whether it has a neighbour.
    pub fn is_split(&self, id: u64) -> bool {
        let block = self.block(id);
        self.blocks.iter().any(|b| b.segment == block.segment && b.id != id)
    }

    /// The free blocks of one stream of a pool in the order of R1.17.
    pub fn free_blocks(&self, pool: Id, small: bool, stream: u64) -> Vec<u64> {
        self.free_set(pool, small).into_iter().filter(|&id| self.segment_of(id).stream == stream).collect()
    }

    /// All free blocks of a pool in the order of R1.17.
    pub fn free_set(&self, pool: Id, small: bool) -> Vec<u64> {
        let mut free: Vec<_> = self
            .blocks
            .iter()
            .filter(|block| block.used == Use::Free)
            .map(|block| (block, self.segment_of(block.id)))
            .filter(|(_, segment)| segment.pool == pool && segment.small == small)
            .map(|(block, segment)| (segment.stream, block.size, segment.counter, block.addr, block.id))
            .collect();
        free.sort_unstable();
        free.into_iter().map(|(.., id)| id).collect()
    }

    pub fn pool(&self, id: Id) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.id == id)
    }

    pub fn pool_mut(&mut self, id: Id) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.id == id)
    }

    pub fn clock(&mut self, pool: Id, small: bool) -> &mut u64 {
        let at = self.clocks.iter().position(|&(p, s, _)| p == pool && s == small).unwrap_or_else(|| {
            self.clocks.push((pool, small, 0));
            self.clocks.len() - 1
        });
        &mut self.clocks[at].2
    }

    /// R5.22.
    pub fn in_capture(&self, who: Who) -> bool {
        self.captures > 0 && self.device.capture_of(who.stream).is_some()
    }

    /// R1.7: the newest scope that accepts the request.
    pub fn route(&self, stream: u64, who: Who) -> Id {
        let accepts = |filter: &Filter| match filter {
            Filter::Any => true,
            Filter::Thread(thread) => *thread == who.thread,
            Filter::Stream(only) => *only == stream,
            Filter::Capture(capture) => capture.is_some() && self.device.capture_of(stream) == *capture,
            Filter::Streams(streams) => streams.contains(&stream),
        };
        self.scopes.iter().rev().find(|(_, filter)| accepts(filter)).map_or(DEFAULT, |(pool, _)| *pool)
    }

    pub fn reach(&mut self, what: &'static str) {
        self.reached.insert(what);
    }

    pub fn tell(&mut self, action: &'static str, addr: u64, size: u64) {
        self.trace.push((action, addr, size));
    }

    /// Adds a segment of one block, in the state `used`; returns the block.
    pub fn add_segment(&mut self, segment: Segment, used: Use) -> u64 {
        let (base, size, counter) = (segment.base, segment.size, segment.counter);
        self.segments.push(segment);
        self.add_block(counter, base, size, used)
    }

    pub fn add_block(&mut self, segment: u64, addr: u64, size: u64, used: Use) -> u64 {
        self.next_block += 1;
        self.blocks.push(Block {
            id: self.next_block,
            segment,
            addr,
            size,
            requested: 0,
            used,
            streams: Table::default(),
            captured: Vec::new(),
            events: 0,
            born: 0,
        });
        self.next_block
    }

    pub fn register(&mut self) -> u64 {
        self.next_counter += 1;
        self.next_counter - 1
    }

    /// `reserved_bytes`, also of the pool (R2.17, R2.36, R4.15, R4.21).
    pub fn reserved(&mut self, pool: Id, small: bool, change: i64) {
        self.stats.add(What::ReservedBytes, small, change);
        if pool != DEFAULT {
            super::stats::add(self.stats.by_pool.entry(pool).or_default(), small, change);
        }
    }
}

/// R2.38.
pub fn limit_of(fraction: f64, total: u64) -> Option<u64> {
    (fraction < 1.0).then(|| (fraction * total as f64).round() as u64)
}

/// A custom allocator: a budget, and addresses that jump about and are odd multiples of 256.
#[derive(Debug)]
pub struct Jumpy {
    /// Where its addresses start.
    base: u64,
    left: u64,
    calls: u64,
    given: Vec<(u64, u64)>,
}

impl Jumpy {
    pub fn new(nth: u64, budget: u64) -> Self {
        Jumpy { base: 0x7000_0000_0000 + (nth << 50), left: budget, calls: 0, given: Vec::new() }
    }
}

impl Source for Jumpy {
    fn take(&mut self, bytes: u64) -> Option<u64> {
        if bytes > self.left {
            return None;
        }
        self.left -= bytes;
        self.calls += 1;
        // Multiples of an odd number modulo a power of two come in no order and never twice.
        let slot = (self.calls * 0x9E37) % (1 << 16);
        let addr = self.base + (slot << 30) + 256;
        self.given.push((addr, bytes));
        Some(addr)
    }

    fn give(&mut self, addr: u64, bytes: u64) {
        let at = self.given.iter().position(|&given| given == (addr, bytes)).expect("what was taken, with its size");
        self.given.swap_remove(at);
        self.left += bytes;
    }
}
