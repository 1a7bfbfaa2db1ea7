//! True shortage or fragmentation, and of which kind.
//!
//! The rule, with N the rounded request, *own* the free bytes of the pool that was asked, and *room* what the allocator might
//! still have taken from the device: if own and room together are less than N, the bytes are in other pools or pending if they
//! reach N with those, else there is a true shortage. Otherwise the free bytes exist and do not lie together: they are pinned
//! if at least half of them lie in segments at least half empty, else they are slack over many segments.

use millpond::{BlockState, BlockUse};
use millpond_replay::snapshot::Recording;
use serde::Serialize;

use super::account::{Account, CauseKind, Holder, is_in_use};
use super::moment::{Held, Moment, PoolKey};
use super::room::{Limit, Room};
use super::stacks::Origins;

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The bytes were there, and not in one piece or not in the pool.
    Fragmentation,
    /// The bytes were not there.
    TrueShortage,
    /// Nothing failed.
    None,
}

/// Where the bytes were that the request did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    /// Spread over many segments.
    OtherSegments,
    /// In segments at least half empty that blocks in use hold fast.
    Pinned,
    /// In another pool, or pending.
    OtherPool,
    /// Nowhere.
    None,
}

/// What stood behind a shortage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Behind {
    /// A limit below what the device has.
    Limit,
    /// What others hold of the device is more than the allocator holds, and more than the request.
    Outside,
}

/// The verdict. Bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What kind of failure it was.
    pub kind: Kind,
    /// Where the bytes were.
    pub cause: Where,
    /// The rounded request; `None` where nothing failed.
    pub request: Option<u64>,
    /// The largest free block of the pool that was asked.
    pub largest_free: u64,
    /// The smallest device on which the recorded requests survive under the recorded settings, found by replay.
    pub enough: Option<u64>,
    /// What stood behind it, beyond the allocator.
    pub behind: Option<Behind>,
    /// What was left on the device.
    pub room: Option<Room>,
    /// The cheapest way to make room in one piece.
    pub relief: Option<Relief>,
}

/// Blocks in use that would have to go for the request to fit between them. Bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Relief {
    /// What they hold.
    pub bytes: u64,
    /// What is free in one piece without them.
    pub makes: u64,
    /// The first byte of their segment.
    pub segment: u64,
    /// How many they are.
    pub count: u64,
    /// They, in order of address; at most [`super::NAMED`].
    pub blocks: Vec<Holder>,
}

impl Verdict {
    /// The verdict on an account.
    pub fn of(recording: &Recording<'_>, moment: &Moment, held: &Held, account: &Account, room: Option<Room>) -> Self {
        let largest_free = account.largest_free();
        let Some((request, room)) = recording.first_oom.map(|oom| oom.request).zip(room) else {
            return Verdict {
                kind: Kind::None,
                cause: Where::None,
                request: None,
                largest_free,
                enough: None,
                behind: None,
                room: None,
                relief: None,
            };
        };
        let own = account.own_free().saturating_add(room.usable);
        let elsewhere = account.pending.saturating_add(account.elsewhere_free());
        let pinned = account.bytes(CauseKind::Pinned);
        let (kind, cause) = if own < request {
            match own.saturating_add(elsewhere) >= request {
                true => (Kind::Fragmentation, Where::OtherPool),
                false => (Kind::TrueShortage, Where::None),
            }
        } else if pinned.saturating_mul(2) >= account.own_free() {
            (Kind::Fragmentation, Where::Pinned)
        } else {
            (Kind::Fragmentation, Where::OtherSegments)
        };
        let behind = match account.outside {
            // With the device to itself it would have had room.
            _ if room.limit.is_some() && room.usable < request && request <= room.device_free => Some(Behind::Limit),
            Some(outside) if outside > account.reserved && outside > request => Some(Behind::Outside),
            _ => None,
        };
        let relief = Relief::cheapest(recording, moment, held, request);
        Verdict { kind, cause, request: Some(request), largest_free, enough: None, behind, room: Some(room), relief }
    }

    /// Whether a limit was inferred, not stated.
    pub fn has_unknown_limit(&self) -> bool {
        matches!(self.room, Some(Room { limit: Some(Limit::Inferred { .. }), .. }))
    }
}

impl Relief {
    /// Of all runs of neighbouring blocks that together are as large as the request, the one with the fewest bytes in use.
    fn cheapest(recording: &Recording<'_>, moment: &Moment, held: &Held, request: u64) -> Option<Self> {
        let own = held.segments.iter().filter(|segment| PoolKey::of(segment) == moment.pool);
        let runs = own.filter_map(|segment| Some((segment, cheapest_run(&segment.blocks, request)?)));
        let (segment, run) = runs.min_by_key(|(segment, run)| (in_use(&segment.blocks[run.clone()]), segment.base))?;
        let origins = Origins::at(recording, moment.entry);
        let run = &segment.blocks[run];
        let users = || run.iter().filter(|block| is_in_use(block));
        Some(Relief {
            bytes: in_use(run),
            makes: run.iter().map(|block| block.size).sum(),
            segment: segment.base,
            count: users().count() as u64,
            blocks: users().take(super::NAMED).map(|block| Holder::new(segment, block, &origins)).collect(),
        })
    }
}

fn in_use(blocks: &[BlockState]) -> u64 {
    blocks.iter().filter(|block| is_in_use(block)).map(|block| block.size).sum()
}

/// The run of neighbours of at least `wanted` bytes with the fewest bytes in use. For every end the shortest run is cheapest.
fn cheapest_run(blocks: &[BlockState], wanted: u64) -> Option<std::ops::Range<usize>> {
    let (mut start, mut total, mut used) = (0, 0u64, 0u64);
    let mut best: Option<(u64, std::ops::Range<usize>)> = None;
    let weight = |block: &BlockState| if is_in_use(block) { block.size } else { 0 };
    for (index, block) in blocks.iter().enumerate() {
        if block.state == BlockUse::Unmapped {
            (start, total, used) = (index + 1, 0, 0);
            continue;
        }
        total += block.size;
        used += weight(block);
        while total - blocks[start].size >= wanted {
            total -= blocks[start].size;
            used -= weight(&blocks[start]);
            start += 1;
        }
        if total >= wanted && best.as_ref().is_none_or(|(least, _)| used < *least) {
            best = Some((used, start..index + 1));
        }
    }
    best.map(|(_, run)| run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(addr: u64, size: u64, state: BlockUse) -> BlockState {
        BlockState { addr, size, requested: size, state, stack: None }
    }

    #[test]
    fn c67_two_neighbours_are_not_enough_and_three_are() {
        let mib = 1 << 20;
        let mut blocks = Vec::new();
        for row in 0..11 {
            blocks.push(block(row * 100 * mib, 2 * mib, BlockUse::Live));
            blocks.push(block(row * 100 * mib + 2 * mib, 98 * mib, BlockUse::Free));
        }
        let run = cheapest_run(&blocks, 300 * mib).unwrap();
        assert_eq!(in_use(&blocks[run.clone()]), 6 * mib);
        let run = cheapest_run(&blocks, 298 * mib).unwrap();
        assert_eq!((in_use(&blocks[run.clone()]), run.len()), (4 * mib, 5));
        assert_eq!(cheapest_run(&blocks, 1200 * mib), None);
    }

    #[test]
    fn addresses_without_memory_divide() {
        let blocks = [block(0, 8, BlockUse::Free), block(8, 8, BlockUse::Unmapped), block(16, 8, BlockUse::Live)];
        assert_eq!(cheapest_run(&blocks, 9), None);
        assert_eq!(cheapest_run(&blocks, 8), Some(0..1));
    }
}
