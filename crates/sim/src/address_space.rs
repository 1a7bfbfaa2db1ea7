//! Which addresses are free: one space for everything that a device sees.
//!
//! The lowest fit wins, ranges are whole granules, and a freed range is used again at once. With recorded placement the
//! addresses of a recording are handed out first; everything else goes outside of them.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::config::{Placement, RecordedRange};

/// No address at or above this one is ever handed out.
const TOP: u64 = 1 << 56;

#[derive(Debug)]
pub(crate) struct AddressSpace {
    granule: u64,
    /// Free ranges, start → end, disjoint and never touching.
    free: BTreeMap<u64, u64>,
    /// Where the lowest fit may look, ascending and disjoint.
    allowed: Vec<(u64, u64)>,
    /// Recorded addresses by size, in order of use.
    recorded: FxHashMap<u64, VecDeque<u64>>,
    /// Where the next range must go.
    next: Option<u64>,
}

impl AddressSpace {
    pub fn new(base: u64, end: u64, granule: u64, placement: &Placement) -> Self {
        let mut space = AddressSpace {
            granule,
            free: BTreeMap::from([(granule, TOP)]),
            allowed: Vec::new(),
            recorded: FxHashMap::default(),
            next: None,
        };
        let base = base.clamp(granule, TOP).next_multiple_of(granule);
        let end = end.min(TOP) / granule * granule;
        if base < end {
            space.allowed.push((base, end));
        }
        if let Placement::Recorded(ranges) = placement {
            space.set_aside(ranges);
        }
        space
    }

    fn set_aside(&mut self, ranges: &[RecordedRange]) {
        let mut aside: Vec<(u64, u64)> = Vec::new();
        for range in ranges {
            let Some(size) = self.round(range.size.0) else { continue };
            let Some(end) = range.addr.checked_add(size).filter(|&end| end <= TOP) else { continue };
            self.recorded.entry(size).or_default().push_back(range.addr);
            aside.push((range.addr / self.granule * self.granule, end.next_multiple_of(self.granule)));
        }
        aside.sort_unstable();
        let mut allowed = Vec::new();
        for &(start, end) in &self.allowed {
            let mut at = start;
            for &(from, to) in &aside {
                if from >= end {
                    break;
                }
                if from > at {
                    allowed.push((at, from));
                }
                at = at.max(to);
            }
            if at < end {
                allowed.push((at, end));
            }
        }
        self.allowed = allowed;
    }

    /// `bytes` in whole granules.
    pub fn round(&self, bytes: u64) -> Option<u64> {
        bytes.checked_next_multiple_of(self.granule).filter(|&rounded| rounded != 0)
    }

    /// Makes the next range start at `addr`, if that place is free then.
    pub fn place_next(&mut self, addr: Option<u64>) {
        self.next = addr;
    }

    /// Takes `len` bytes (whole granules) at a multiple of `align` (a power of two): at `hint` if it is free there.
    /// Only recorded addresses may lie off the granules, where `align` allows it.
    pub fn take(&mut self, len: u64, align: u64, hint: u64) -> Option<u64> {
        let align = align.max(1);
        let addr = self
            .next
            .take()
            .filter(|&addr| addr.is_multiple_of(align) && self.is_free(addr, len))
            .or_else(|| Some(hint).filter(|&hint| hint != 0 && hint % align == 0 && self.is_free(hint, len)))
            .or_else(|| self.take_recorded(len, align))
            .or_else(|| self.lowest_fit(len, align.max(self.granule)))?;
        self.remove(addr, len);
        Some(addr)
    }

    fn take_recorded(&mut self, len: u64, align: u64) -> Option<u64> {
        if self.recorded.is_empty() {
            return None;
        }
        let queue = self.recorded.get(&len)?;
        let position = queue.iter().position(|&addr| addr.is_multiple_of(align) && self.is_free(addr, len))?;
        self.recorded.get_mut(&len)?.remove(position)
    }

    fn lowest_fit(&self, len: u64, align: u64) -> Option<u64> {
        let fit = |start: u64, end: u64| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= end).then_some(at)
        };
        for &(low, high) in &self.allowed {
            if high - low < len {
                continue;
            }
            let first = self.free.range(..=low).next_back().filter(|&(_, &end)| end > low);
            let found = first
                .and_then(|(_, &end)| fit(low, end.min(high)))
                .or_else(|| self.free.range(low + 1..high).find_map(|(&start, &end)| fit(start, end.min(high))));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn is_free(&self, addr: u64, len: u64) -> bool {
        let Some(end) = addr.checked_add(len) else { return false };
        self.free.range(..=addr).next_back().is_some_and(|(_, &free_end)| free_end >= end)
    }

    fn remove(&mut self, addr: u64, len: u64) {
        let Some((&start, &end)) = self.free.range(..=addr).next_back() else { return };
        if start == addr {
            self.free.remove(&start);
        } else {
            self.free.insert(start, addr);
        }
        if end > addr + len {
            self.free.insert(addr + len, end);
        }
    }

    /// Gives back a range that was taken.
    pub fn give(&mut self, addr: u64, len: u64) {
        let mut start = addr;
        let mut end = addr + len;
        if let Some(next_end) = self.free.remove(&end) {
            end = next_end;
        }
        if let Some((&before, &before_end)) = self.free.range(..addr).next_back()
            && before_end == addr
        {
            start = before;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_driver::Bytes;
    use proptest::prelude::*;

    const G: u64 = 2 << 20;

    fn space(granules: u64) -> AddressSpace {
        AddressSpace::new(16 * G, (16 + granules) * G, G, &Placement::LowestFit)
    }

    #[test]
    fn the_lowest_hole_that_fits_is_used_again_at_once() {
        let mut space = space(10);
        let [a, b, c] = [2, 1, 3].map(|n| space.take(n * G, 0, 0).unwrap());
        assert_eq!([a, b, c], [16 * G, 18 * G, 19 * G]);
        space.give(a, 2 * G);
        assert_eq!(space.take(3 * G, 0, 0), Some(22 * G));
        assert_eq!(space.take(G, 0, 0), Some(16 * G));
        assert_eq!(space.take(G, 0, 0), Some(17 * G));
        assert_eq!(space.take(2 * G, 0, 0), None, "one granule is left");
    }

    #[test]
    fn alignment_and_hints_are_honoured_where_possible() {
        let mut space = space(20);
        assert_eq!(space.take(G, 0, 30 * G), Some(30 * G));
        assert_eq!(space.take(G, 0, 30 * G), Some(16 * G), "the hint is taken");
        assert_eq!(space.take(G, 8 * G, 0), Some(24 * G));
        assert_eq!(space.take(G, 64 * G, 0), None);
    }

    #[test]
    fn recorded_addresses_go_out_in_order_by_size_and_the_rest_outside_of_them() {
        let recorded = [(20, 2), (16, 2), (20, 1), (900, 4)]
            .map(|(addr, size)| RecordedRange { addr: addr * G, size: Bytes(size * G) });
        let mut space = AddressSpace::new(16 * G, 26 * G, G, &Placement::Recorded(recorded.to_vec()));
        assert_eq!(space.take(2 * G, 0, 0), Some(20 * G));
        assert_eq!(space.take(G, 0, 0), Some(18 * G), "its own address is in use: outside of all recorded ranges");
        space.give(20 * G, 2 * G);
        assert_eq!(space.take(G, 0, 0), Some(20 * G), "free now, and never used");
        assert_eq!(space.take(2 * G, 0, 0), Some(16 * G));
        assert_eq!(space.take(4 * G, 0, 0), Some(900 * G));
        assert_eq!(space.take(4 * G, 0, 0), Some(22 * G));
        assert_eq!(space.take(G, 0, 0), Some(19 * G));
        assert_eq!(space.take(G, 0, 0), None, "21 G is free but recorded");
    }

    #[test]
    fn the_next_range_can_be_placed_by_hand() {
        let mut space = space(4);
        space.place_next(Some(500 * G));
        assert_eq!(space.take(G, 0, 0), Some(500 * G));
        space.place_next(Some(500 * G));
        assert_eq!(space.take(G, 0, 0), Some(16 * G));
        space.give(500 * G, G);
        assert_eq!(space.take(4 * G, 0, 0), None, "what lies outside of the space is not used by the lowest fit");
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(steps in prop::collection::vec((any::<bool>(), 0usize..8, 1u64..5, 0u32..3), 1..200)) {
            const N: usize = 24;
            let mut space = AddressSpace::new(16 * G, (16 + N as u64) * G, G, &Placement::LowestFit);
            let mut used = [false; N];
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (free, pick, granules, shift) in steps {
                if free && !live.is_empty() {
                    let (addr, len) = live.swap_remove(pick % live.len());
                    space.give(addr, len);
                    let at = (addr / G - 16) as usize;
                    used[at..at + (len / G) as usize].fill(false);
                } else {
                    let n = granules as usize;
                    let expected = (0..=N - n).find(|&at| (at + 16) % (1 << shift) == 0 && used[at..at + n].iter().all(|&u| !u));
                    let got = space.take(granules * G, G << shift, 0);
                    prop_assert_eq!(got, expected.map(|at| (at as u64 + 16) * G));
                    if let (Some(addr), Some(at)) = (got, expected) {
                        used[at..at + n].fill(true);
                        live.push((addr, granules * G));
                    }
                }
            }
        }
    }
}
