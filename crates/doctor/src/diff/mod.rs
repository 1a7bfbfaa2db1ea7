//! What grew between two states, by the place in the program that holds it.

use std::collections::{BTreeMap, BTreeSet};

use millpond_snapshot::{DeviceSummary, Snapshot, StackId};
use rustc_hash::FxHashMap;

use crate::frames::lines;

/// Two states, compared.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Diff {
    /// Those that either state has, ascending.
    pub devices: Vec<DeviceDiff>,
}

/// One device in two states.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeviceDiff {
    /// Its index.
    pub device: i32,
    /// The first state.
    pub before: Totals,
    /// The second one.
    pub after: Totals,
    /// Every place that holds memory in either, those that grew most first. Their bytes sum up to `allocated`.
    pub places: Vec<Place>,
}

/// Bytes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Totals {
    /// What the driver has handed over.
    pub reserved: u64,
    /// In live blocks.
    pub allocated: u64,
    /// In blocks that wait for other streams.
    pub pending: u64,
    /// The rest.
    pub free: u64,
}

/// A place in the program, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// Its stack as lines `file:line function`, innermost first; empty where none was recorded.
    pub stack: Vec<String>,
    /// Without a stack the bytes that were asked for tell places apart.
    pub requested: Option<u64>,
    /// In the first state.
    pub before: Held,
    /// In the second one.
    pub after: Held,
    /// Bytes in the second state less those in the first.
    pub grown: i64,
}

/// Live blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Held {
    /// Bytes, rounding included.
    pub bytes: u64,
    /// How many.
    pub blocks: u64,
}

/// What tells places apart: files number their stacks as they like.
type Key = (Vec<String>, Option<u64>);

/// Compares two states.
pub fn diff(before: &Snapshot, after: &Snapshot) -> Diff {
    let totals = [before, after].map(totals);
    let places = [before, after].map(places);
    let devices: BTreeSet<i32> = totals.iter().flat_map(|totals| totals.keys().copied()).collect();
    let devices = devices.into_iter().map(|device| {
        let [before, after] = totals.each_ref().map(|totals| totals.get(&device).copied().unwrap_or_default());
        let [was, is] = places.each_ref().map(|places| places.get(&device));
        DeviceDiff { device, before, after, places: joined(was, is) }
    });
    Diff { devices: devices.collect() }
}

fn totals(snapshot: &Snapshot) -> BTreeMap<i32, Totals> {
    let totals = |device: &DeviceSummary| Totals {
        reserved: device.reserved,
        allocated: device.allocated,
        pending: device.active.saturating_sub(device.allocated),
        free: device.reserved.saturating_sub(device.active),
    };
    snapshot.summary().devices.iter().map(|device| (device.device, totals(device))).collect()
}

/// What each place holds, by device.
fn places(snapshot: &Snapshot) -> BTreeMap<i32, BTreeMap<Key, Held>> {
    let mut devices: BTreeMap<i32, BTreeMap<Key, Held>> = BTreeMap::new();
    for (device, sums) in by_stack(snapshot) {
        let places = devices.entry(device).or_default();
        for ((stack, requested), held) in sums {
            // Stacks that read the same are one place, even if a file has them twice.
            places.entry((lines(snapshot, stack), requested)).or_default().add(held);
        }
    }
    devices
}

fn by_stack(snapshot: &Snapshot) -> BTreeMap<i32, FxHashMap<(StackId, Option<u64>), Held>> {
    let mut devices: BTreeMap<i32, FxHashMap<(StackId, Option<u64>), Held>> = BTreeMap::new();
    for segment in &snapshot.segments {
        for block in segment.blocks.iter().filter(|block| block.allocated() > 0) {
            let is_known = snapshot.stacks.frames(block.stack).next().is_some();
            let key = (block.stack, (!is_known).then_some(block.requested_size));
            let held = Held { bytes: block.size, blocks: 1 };
            devices.entry(segment.device).or_default().entry(key).or_default().add(held);
        }
    }
    devices
}

fn joined(before: Option<&BTreeMap<Key, Held>>, after: Option<&BTreeMap<Key, Held>>) -> Vec<Place> {
    let held = |places: Option<&BTreeMap<Key, Held>>, key: &Key| {
        places.and_then(|places| places.get(key)).copied().unwrap_or_default()
    };
    let keys: BTreeSet<&Key> = [before, after].into_iter().flatten().flat_map(BTreeMap::keys).collect();
    let mut places: Vec<Place> = Vec::with_capacity(keys.len());
    for key in keys {
        let (was, is) = (held(before, key), held(after, key));
        let (stack, requested) = key.clone();
        places.push(Place { stack, requested, before: was, after: is, grown: less(is.bytes, was.bytes) });
    }
    // Stable: places that grew alike stay in the order of their names.
    places.sort_by_key(|place| std::cmp::Reverse(place.grown));
    places
}

/// A file may state anything, so the difference stops at the largest figure there is.
fn less(is: u64, was: u64) -> i64 {
    i64::try_from(i128::from(is) - i128::from(was)).unwrap_or(if is > was { i64::MAX } else { i64::MIN })
}

impl Held {
    fn add(&mut self, more: Held) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.blocks = self.blocks.saturating_add(more.blocks);
    }
}

#[cfg(test)]
mod tests {
    use millpond_snapshot::{Block, BlockState, Frame, Segment};

    use super::*;

    /// Blocks of `(bytes, state, function)` in one segment of a device.
    fn state(device: i32, blocks: &[(u64, BlockState, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let blocks: Vec<Block> = blocks
            .iter()
            .map(|&(size, state, function)| {
                let frames: &[Frame] = if function.is_empty() { &[] } else { &[Frame::new(function, "model.py", 7)] };
                let stack = snapshot.stacks.intern(frames);
                Block { size, requested_size: size - 12, state, stack, ..Block::default() }
            })
            .collect();
        let total_size = blocks.iter().map(|block| block.size).sum();
        snapshot.segments.push(Segment { device, total_size, blocks, ..Segment::default() });
        snapshot
    }

    const LIVE: BlockState = BlockState::ActiveAllocated;
    const WAITS: BlockState = BlockState::ActivePendingFree;
    const FREE: BlockState = BlockState::Inactive;

    #[test]
    fn what_grew_stands_first_and_all_places_sum_up() {
        let before = state(0, &[(1024, LIVE, "gone"), (512, LIVE, "same"), (2048, FREE, "old")]);
        // The same functions under other numbers.
        let after =
            state(0, &[(512, LIVE, "same"), (4096, LIVE, "cache"), (512, WAITS, "sent"), (1024, LIVE, "cache")]);
        let diff = diff(&before, &after);
        let device = &diff.devices[0];
        assert_eq!(device.before, Totals { reserved: 3584, allocated: 1536, pending: 0, free: 2048 });
        assert_eq!(device.after, Totals { reserved: 6144, allocated: 5632, pending: 512, free: 0 });
        let grown: Vec<_> = device.places.iter().map(|place| (place.stack[0].as_str(), place.grown)).collect();
        assert_eq!(grown, [("model.py:7 cache", 5120), ("model.py:7 same", 0), ("model.py:7 gone", -1024)]);
        assert_eq!(device.places[0].after, Held { bytes: 5120, blocks: 2 });
        let sum: i64 = device.places.iter().map(|place| place.grown).sum();
        assert_eq!(sum, less(device.after.allocated, device.before.allocated));
    }

    #[test]
    fn without_stacks_sizes_tell_places_apart() {
        let before = state(0, &[(1024, LIVE, ""), (512, LIVE, "")]);
        let after = state(0, &[(1024, LIVE, ""), (1024, LIVE, ""), (512, LIVE, "")]);
        let places = &diff(&before, &after).devices[0].places;
        let short: Vec<_> = places.iter().map(|place| (place.requested, place.after.blocks, place.grown)).collect();
        assert_eq!(short, [(Some(1012), 2, 1024), (Some(500), 1, 0)]);
    }

    #[test]
    fn a_device_may_be_in_one_state_only() {
        let diff = diff(&state(0, &[(512, LIVE, "a")]), &state(3, &[(1024, LIVE, "a")]));
        let grown: Vec<_> = diff.devices.iter().map(|device| (device.device, device.places[0].grown)).collect();
        assert_eq!(grown, [(0, -512), (3, 1024)]);
        assert_eq!(diff.devices[1].before, Totals::default());
    }

    #[test]
    fn absurd_figures_of_a_file_do_no_harm() {
        let after = state(0, &[(u64::MAX, LIVE, "a")]);
        assert_eq!(diff(&Snapshot::default(), &after).devices[0].places[0].grown, i64::MAX);
        assert_eq!(diff(&after, &Snapshot::default()).devices[0].places[0].grown, i64::MIN);
    }
}
