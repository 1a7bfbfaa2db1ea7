//! Where every reserved byte is: in live blocks, in pending ones, or free under exactly one cause.

use millpond::{BlockState, BlockUse, PoolId, SegmentState};
use millpond_replay::snapshot::Recording;
use serde::Serialize;

use super::moment::{Held, Moment, PoolKey};
use super::room::Room;
use super::stacks::{Origin, Origins};

/// Why free bytes did not serve the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// In the request's own pool, in segments that are wholly free or mostly full: slack over many segments.
    OtherSegments,
    /// In the request's own pool, in segments at least half empty that blocks in use hold fast.
    Pinned,
    /// In the other size class.
    OtherSize,
    /// On another stream.
    OtherStream,
    /// In another memory pool.
    PrivatePool,
    /// In segments whose blocks the file does not list.
    Unlisted,
}

/// Free bytes under one cause.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// Which.
    pub kind: CauseKind,
    /// Bytes.
    pub bytes: u64,
    /// In so many segments.
    pub segments: u64,
    /// The largest free block.
    pub largest: u64,
    /// Of the bytes, those in segments without any block in use: cached, and given back by `empty_cache`.
    pub returnable: u64,
    /// Of pinned bytes the blocks that hold them fast, segments with most free bytes first; at most [`NAMED`].
    pub blocks: Vec<Holder>,
}

/// How many blocks are named under a cause.
pub const NAMED: usize = 64;

/// A block in use that holds a segment fast. Bytes and microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// First byte.
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// The first byte of its segment.
    pub segment: u64,
    /// What is free in its segment.
    pub pins: u64,
    /// Trace entries since it was allocated; `None` if it is older than the trace.
    pub age: Option<u64>,
    /// Time since it was allocated.
    pub age_us: Option<u64>,
    /// Where it was allocated, innermost first.
    pub stack: Vec<String>,
}

impl Holder {
    /// A block and where it comes from.
    pub fn new(segment: &SegmentState, block: &BlockState, origins: &Origins<'_>) -> Self {
        let Origin { age, age_us, stack } = origins.of(block.addr);
        Holder { address: block.addr, size: block.size, segment: segment.base, pins: free(segment), age, age_us, stack }
    }
}

/// The account at one moment. Bytes; `allocated + pending +` the causes `= reserved`.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// The device's memory: what is told, or else held plus free.
    pub total: Option<u64>,
    /// Held by others: known only where the total is told.
    pub outside: Option<u64>,
    /// Free on the device.
    pub device_free: Option<u64>,
    /// Held from the driver.
    pub reserved: u64,
    /// In live blocks.
    pub allocated: u64,
    /// Of that, more than was asked for.
    pub rounding: u64,
    /// In blocks that wait for other streams.
    pub pending: u64,
    /// The rest, each byte once, the largest first.
    pub causes: Vec<Cause>,
}

impl Account {
    /// The account of a moment; `total` is the device's memory where somebody knows it.
    pub fn of(recording: &Recording<'_>, moment: &Moment, held: &Held, room: Option<Room>, total: Option<u64>) -> Self {
        let mut account = Self::counted(held, moment.pool);
        account.name_holders(recording, moment, held);
        account.device_free = room.map(|room| room.device_free);
        let known = room.map(|room| account.reserved.saturating_add(room.device_free));
        account.outside = total.zip(known).map(|(total, known)| total.saturating_sub(known));
        account.total = total.or(known);
        account
    }

    /// The account without what only a recording knows.
    pub(super) fn counted(held: &Held, wanted: PoolKey) -> Self {
        let mut account = Account {
            total: None,
            outside: None,
            device_free: None,
            reserved: held.unlisted,
            allocated: 0,
            rounding: 0,
            pending: 0,
            causes: Vec::new(),
        };
        for segment in &held.segments {
            account.reserved += segment.mapped();
            for block in &segment.blocks {
                match block.state {
                    BlockUse::Live => {
                        account.allocated += block.size;
                        account.rounding += block.size.saturating_sub(block.requested);
                    }
                    BlockUse::Pending => account.pending += block.size,
                    BlockUse::Free | BlockUse::Unmapped => {}
                }
            }
            account.add_free(segment, wanted);
        }
        if held.unlisted > 0 {
            account.cause(CauseKind::Unlisted).bytes = held.unlisted;
        }
        account.causes.sort_by_key(|cause| std::cmp::Reverse(cause.bytes));
        account
    }

    fn add_free(&mut self, segment: &SegmentState, wanted: PoolKey) {
        let bytes = free(segment);
        if bytes == 0 {
            return;
        }
        let is_free = |block: &&BlockState| block.state == BlockUse::Free;
        let largest = segment.blocks.iter().filter(is_free).map(|block| block.size).max().unwrap_or(0);
        let cause = self.cause(kind(segment, wanted));
        cause.bytes += bytes;
        cause.segments += 1;
        cause.largest = cause.largest.max(largest);
        cause.returnable += if is_held_fast(segment) { 0 } else { bytes };
    }

    fn cause(&mut self, kind: CauseKind) -> &mut Cause {
        let known = self.causes.iter().position(|cause| cause.kind == kind);
        let index = known.unwrap_or(self.causes.len());
        if known.is_none() {
            self.causes.push(Cause { kind, bytes: 0, segments: 0, largest: 0, returnable: 0, blocks: Vec::new() });
        }
        &mut self.causes[index]
    }

    fn name_holders(&mut self, recording: &Recording<'_>, moment: &Moment, held: &Held) {
        let is_pinned = |segment: &&SegmentState| free(segment) > 0 && kind(segment, moment.pool) == CauseKind::Pinned;
        let mut pinned: Vec<&SegmentState> = held.segments.iter().filter(is_pinned).collect();
        if pinned.is_empty() {
            return;
        }
        pinned.sort_by_key(|segment| std::cmp::Reverse(free(segment)));
        let origins = Origins::at(recording, moment.entry);
        let in_use = |segment: &'_ SegmentState| {
            let blocks = segment.blocks.iter().filter(|block| is_in_use(block));
            blocks.map(|block| Holder::new(segment, block, &origins)).take(NAMED).collect::<Vec<_>>()
        };
        self.cause(CauseKind::Pinned).blocks = pinned.into_iter().flat_map(in_use).take(NAMED).collect();
    }

    /// Bytes under one cause.
    pub fn bytes(&self, kind: CauseKind) -> u64 {
        self.causes.iter().filter(|cause| cause.kind == kind).map(|cause| cause.bytes).sum()
    }

    /// Free bytes of the request's own pool.
    pub fn own_free(&self) -> u64 {
        self.bytes(CauseKind::OtherSegments) + self.bytes(CauseKind::Pinned)
    }

    /// Free bytes of all other pools.
    pub fn elsewhere_free(&self) -> u64 {
        use CauseKind::{OtherSize, OtherStream, PrivatePool};
        [OtherSize, OtherStream, PrivatePool].into_iter().map(|kind| self.bytes(kind)).sum()
    }

    /// The largest free block of the request's own pool.
    pub fn largest_free(&self) -> u64 {
        let is_own = |cause: &&Cause| matches!(cause.kind, CauseKind::OtherSegments | CauseKind::Pinned);
        self.causes.iter().filter(is_own).map(|cause| cause.largest).max().unwrap_or(0)
    }

    /// Bytes in segments without any block in use.
    pub fn returnable(&self) -> u64 {
        self.causes.iter().map(|cause| cause.returnable).sum()
    }
}

/// Free bytes of a segment.
pub fn free(segment: &SegmentState) -> u64 {
    segment.blocks.iter().filter(|block| block.state == BlockUse::Free).map(|block| block.size).sum()
}

/// Whether a program, or a stream, still uses a block.
pub fn is_in_use(block: &BlockState) -> bool {
    matches!(block.state, BlockUse::Live | BlockUse::Pending)
}

fn is_held_fast(segment: &SegmentState) -> bool {
    segment.blocks.iter().any(is_in_use)
}

fn kind(segment: &SegmentState, wanted: PoolKey) -> CauseKind {
    let PoolKey { stream, class, pool } = PoolKey::of(segment);
    if pool != wanted.pool {
        CauseKind::PrivatePool
    } else if stream != wanted.stream {
        CauseKind::OtherStream
    } else if class != wanted.class {
        CauseKind::OtherSize
    } else if free(segment).saturating_mul(2) >= segment.mapped() && is_held_fast(segment) {
        CauseKind::Pinned
    } else {
        CauseKind::OtherSegments
    }
}

/// What one pool holds. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PoolShare {
    /// Which.
    #[serde(flatten)]
    pub pool: PoolKey,
    /// Segments.
    pub segments: u64,
    /// Held from the driver.
    pub reserved: u64,
    /// In live blocks.
    pub allocated: u64,
    /// In blocks that wait for other streams.
    pub pending: u64,
    /// Free.
    pub free: u64,
}

impl PoolShare {
    /// Those of all pools, the largest first.
    pub fn all(held: &Held) -> Vec<Self> {
        let mut shares: Vec<PoolShare> = Vec::new();
        for segment in &held.segments {
            let pool = PoolKey::of(segment);
            let index = shares.iter().position(|share| share.pool == pool).unwrap_or_else(|| {
                shares.push(PoolShare { pool, segments: 0, reserved: 0, allocated: 0, pending: 0, free: 0 });
                shares.len() - 1
            });
            let share = &mut shares[index];
            let sum = |state| segment.blocks.iter().filter(|b| b.state == state).map(|b| b.size).sum::<u64>();
            share.segments += 1;
            share.reserved += segment.mapped();
            share.allocated += sum(BlockUse::Live);
            share.pending += sum(BlockUse::Pending);
            share.free += sum(BlockUse::Free);
        }
        shares.sort_by_key(|share| std::cmp::Reverse(share.reserved));
        shares
    }

    /// Whether this is a default pool.
    pub fn is_default(&self) -> bool {
        self.pool.pool == PoolId::DEFAULT
    }
}
