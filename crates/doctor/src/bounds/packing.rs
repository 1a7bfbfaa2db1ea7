//! An offline packing: every block gets one place for its whole life, with all lifetimes known in advance.
//!
//! As MiniMalloc does it, blocks are put down one by one at the lowest place that is free for as long as they live. What its
//! search decides, the order, is here the best of a few static ones, for a recording has up to a million blocks and a
//! compiler's graph a few hundred: greedy by size, by area and by length. Large blocks look for gaps between those that
//! stand already; the small ones, many and light, are put on top of everything.

use rayon::prelude::*;

use super::lifetimes::Lifetime;
use super::skyline::Skyline;

/// What is told of it.
pub const METHOD: &str =
    "greedy by size, area and length at the lowest free place (MiniMalloc's placement without its search)";

/// Pairs of blocks that live at the same time, up to which gaps are looked for: seconds, and 4 bytes each.
const MOST_PAIRS: u64 = 12_000_000;

/// What orders the blocks, the first one put down having the most.
type Weight = fn(&Lifetime) -> (u128, u64);

const WEIGHTS: [Weight; 3] = [
    |life| (u128::from(life.size), life.length()),
    |life| (u128::from(life.size) * u128::from(life.length()), life.size),
    |life| (u128::from(life.length()), life.size),
];

/// Bytes that the best of the orders needs. `lives` are sorted by birth; `live` is the largest sum of live bytes.
pub fn pack(lives: &[Lifetime], live: u64) -> u64 {
    let (large, small) = divide(lives);
    let neighbours = Neighbours::of(&large);
    let by = |weight: &Weight| {
        let places = neighbours.place(&large, &order(&large, *weight));
        top(lives, &large, &places, &small)
    };
    let first = by(&WEIGHTS[0]);
    if first - live <= live / 1000 {
        return first;
    }
    let others = WEIGHTS[1..].par_iter().map(by).min().unwrap_or(first);
    // With many blocks left out of the search for gaps, none at all may be better.
    first.min(others).min(top(lives, &[], &[], lives))
}

/// Indices, those with the most weight first.
fn order(lives: &[Lifetime], weight: Weight) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lives.len() as u32).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(weight(&lives[index as usize])));
    order
}

/// Those among which gaps are looked for, and the rest; both by birth.
fn divide(lives: &[Lifetime]) -> (Vec<Lifetime>, Vec<Lifetime>) {
    let mut limit = 1 << 20;
    loop {
        let (large, small): (Vec<_>, Vec<_>) = lives.iter().copied().partition(|life| life.size > limit);
        if pairs(&large) <= MOST_PAIRS {
            return (large, small);
        }
        limit *= 2;
    }
}

/// How many pairs live at the same time.
fn pairs(lives: &[Lifetime]) -> u64 {
    let younger = |(index, life): (usize, &Lifetime)| born_before(lives, life.death).saturating_sub(index + 1);
    lives.iter().enumerate().map(|each| younger(each) as u64).sum()
}

/// How many are born before `time`.
fn born_before(lives: &[Lifetime], time: u32) -> usize {
    lives.partition_point(|life| life.birth < time)
}

/// Who lives at the same time as whom.
struct Neighbours {
    /// For each block those that live at its birth and were born before; one list after the other.
    elders: Vec<u32>,
    /// Where each block's list ends.
    ends: Vec<usize>,
}

impl Neighbours {
    fn of(lives: &[Lifetime]) -> Self {
        let mut living: Vec<u32> = Vec::new();
        let (mut elders, mut ends) = (Vec::new(), Vec::with_capacity(lives.len()));
        for (index, life) in lives.iter().enumerate() {
            living.retain(|&other| lives[other as usize].death > life.birth);
            elders.extend_from_slice(&living);
            ends.push(elders.len());
            living.push(index as u32);
        }
        Neighbours { elders, ends }
    }

    fn elders(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.elders[start..self.ends[index]]
    }

    /// The place of each block when they are put down in this order, each in the lowest gap.
    fn place(&self, lives: &[Lifetime], order: &[u32]) -> Vec<u64> {
        const NOWHERE: u64 = u64::MAX;
        let mut places = vec![NOWHERE; lives.len()];
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for &index in order {
            let index = index as usize;
            let life = &lives[index];
            let younger = index as u32 + 1..born_before(lives, life.death) as u32;
            let stands = |other: u32| {
                let place = places[other as usize];
                (place != NOWHERE).then(|| (place, place + lives[other as usize].size))
            };
            taken.clear();
            taken.extend(self.elders(index).iter().copied().chain(younger).filter_map(stands));
            taken.sort_unstable();
            let mut at = 0;
            for &(start, end) in &taken {
                if start >= at + life.size {
                    break;
                }
                at = at.max(end);
            }
            places[index] = at;
        }
        places
    }
}

/// How high everything stands with the large blocks at their places and the small ones on top, longest first.
fn top(lives: &[Lifetime], large: &[Lifetime], places: &[u64], small: &[Lifetime]) -> u64 {
    let mut skyline = Skyline::new(lives.len());
    let range = |life: &Lifetime| (born_before(lives, life.birth), born_before(lives, life.death));
    let mut ends: Vec<(u64, &Lifetime)> =
        large.iter().zip(places).map(|(life, place)| (place + life.size, life)).collect();
    // The lowest first, so that a range is only ever raised.
    ends.sort_unstable_by_key(|&(end, _)| end);
    let mut height = 0;
    for (end, life) in ends {
        let (from, to) = range(life);
        skyline.raise(from, to, end);
        height = height.max(end);
    }
    let mut small: Vec<&Lifetime> = small.iter().collect();
    small.sort_by_key(|life| std::cmp::Reverse(life.length()));
    for life in small {
        let (from, to) = range(life);
        let end = skyline.highest(from, to).saturating_add(life.size);
        skyline.raise(from, to, end);
        height = height.max(end);
    }
    height
}
