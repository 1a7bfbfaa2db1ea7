//! From an address to its pool and segment, without a lock.
//!
//! Driver memory comes in granules of 2 MiB, so a two-level table of granules answers with two loads. Segments that do not
//! start and end on granules (custom allocators may return anything) are in an ordered map behind a lock, and their
//! granules say so.

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

/// Granules are 2 MiB.
const GRANULE_BITS: u32 = 21;
// A model pays for every atomic.
const LEAF_BITS: u32 = if cfg!(loom) { 4 } else { 13 };
const TOP_BITS: u32 = 14;
/// Addresses below this (256 TiB) are in the table, the others in the map.
const TABLE_END: u64 = 1 << (GRANULE_BITS + LEAF_BITS + TOP_BITS);

/// Nothing of ours lies in the granule.
const VACANT: u64 = 0;
/// Look into the map.
const SHARED: u64 = u64::MAX;

type Leaf = Box<[AtomicU64]>;

/// Where an address belongs: the index of its pool, and of its segment there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub pool: u32,
    pub segment: u32,
}

impl Place {
    /// Neither [`VACANT`] nor [`SHARED`], for no index reaches `u32::MAX`.
    fn packed(self) -> u64 {
        (u64::from(self.pool) + 1) << 32 | u64::from(self.segment)
    }

    fn unpacked(packed: u64) -> Self {
        Place { pool: (packed >> 32) as u32 - 1, segment: packed as u32 }
    }
}

/// Which pool and segment an address belongs to.
pub(crate) struct AddressIndex {
    top: Box<[OnceLock<Leaf>]>,
    /// Base to (end, place) of segments that do not fill granules.
    odd: Mutex<BTreeMap<u64, (u64, Place)>>,
}

impl Default for AddressIndex {
    fn default() -> Self {
        AddressIndex { top: std::iter::repeat_with(OnceLock::new).take(1 << TOP_BITS).collect(), odd: Mutex::default() }
    }
}

impl AddressIndex {
    #[inline(always)]
    fn granule(&self, addr: u64) -> Option<&AtomicU64> {
        let leaf = self.top.get((addr >> (GRANULE_BITS + LEAF_BITS)) as usize)?.get()?;
        leaf.get((addr >> GRANULE_BITS) as usize & ((1 << LEAF_BITS) - 1))
    }

    fn granule_or_new(&self, addr: u64) -> Option<&AtomicU64> {
        let leaf = self.top.get((addr >> (GRANULE_BITS + LEAF_BITS)) as usize)?;
        let leaf = leaf.get_or_init(|| std::iter::repeat_with(AtomicU64::default).take(1 << LEAF_BITS).collect());
        leaf.get((addr >> GRANULE_BITS) as usize & ((1 << LEAF_BITS) - 1))
    }

    fn granules(base: u64, size: u64) -> impl Iterator<Item = u64> {
        let end = base.saturating_add(size).min(TABLE_END);
        ((base >> GRANULE_BITS)..end.div_ceil(1 << GRANULE_BITS)).map(|granule| granule << GRANULE_BITS)
    }

    /// The pool and segment that hold `addr`, if any.
    #[inline]
    pub fn find(&self, addr: u64) -> Option<Place> {
        match self.granule(addr).map(|granule| granule.load(Acquire)) {
            Some(VACANT) => None,
            Some(SHARED) => self.find_odd(addr),
            Some(packed) => Some(Place::unpacked(packed)),
            None if addr >= TABLE_END => self.find_odd(addr),
            None => None,
        }
    }

    #[cold]
    fn find_odd(&self, addr: u64) -> Option<Place> {
        let odd = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, &(end, place)) = odd.range(..=addr).next_back()?;
        (addr < end).then_some(place)
    }

    /// Records where [base, base+size) belongs.
    pub fn insert(&self, base: u64, size: u64, place: Place) {
        const MASK: u64 = (1 << GRANULE_BITS) - 1;
        let whole = base & MASK == 0 && size & MASK == 0 && base.saturating_add(size) <= TABLE_END;
        let granules = || Self::granules(base, size).filter_map(|addr| self.granule_or_new(addr));
        if whole && granules().all(|granule| granule.load(Acquire) == VACANT) {
            granules().for_each(|granule| granule.store(place.packed(), Release));
        } else {
            self.odd.lock().unwrap_or_else(PoisonError::into_inner).insert(base, (base.saturating_add(size), place));
            granules().for_each(|granule| granule.store(SHARED, Release));
        }
    }

    /// Whether any byte of [base, base+size) belongs somewhere.
    pub fn overlaps(&self, base: u64, size: u64) -> bool {
        let end = base.saturating_add(size);
        let granules = Self::granules(base, size).filter_map(|addr| self.granule(addr));
        let whole = || granules.map(|granule| granule.load(Acquire)).any(|found| found != VACANT && found != SHARED);
        let odd = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        odd.range(..end).next_back().is_some_and(|(_, &(other, _))| other > base) || whole()
    }

    /// Forgets [base, base+size). A granule once shared stays so.
    pub fn remove(&self, base: u64, size: u64) {
        self.odd.lock().unwrap_or_else(PoisonError::into_inner).remove(&base);
        for granule in Self::granules(base, size).filter_map(|addr| self.granule(addr)) {
            if granule.load(Acquire) != SHARED {
                granule.store(VACANT, Release);
            }
        }
    }
}

impl std::fmt::Debug for AddressIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddressIndex").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn place(pool: u32) -> Place {
        Place { pool, segment: pool * 10 }
    }

    #[test]
    fn whole_granules_are_found_to_the_last_byte() {
        let index = AddressIndex::default();
        index.insert(0x2000_0000_0000, 20 * MIB, place(7));
        for (addr, pool) in [
            (0x1fff_ffff_ffff, None),
            (0x2000_0000_0000, Some(7)),
            (0x2000_0000_0000 + 20 * MIB - 1, Some(7)),
            (0x2000_0000_0000 + 20 * MIB, None),
        ] {
            assert_eq!(index.find(addr), pool.map(place), "{addr:#x}");
        }
        index.remove(0x2000_0000_0000, 20 * MIB);
        assert_eq!(index.find(0x2000_0000_0000), None);
    }

    #[test]
    fn odd_segments_share_a_granule_with_any_other() {
        let index = AddressIndex::default();
        index.insert(0x1000, 2 * MIB, place(1));
        index.insert(0x1000 + 2 * MIB, 4096, place(2));
        index.insert(4 * MIB, 2 * MIB, place(3));
        assert_eq!(index.find(0xfff), None);
        assert_eq!(index.find(0x1000), Some(place(1)));
        assert_eq!(index.find(0x1000 + 2 * MIB), Some(place(2)));
        assert_eq!(index.find(0x2000 + 2 * MIB), None);
        assert_eq!(index.find(4 * MIB), Some(place(3)));
        index.remove(0x1000, 2 * MIB);
        index.insert(0, 2 * MIB, place(4));
        assert_eq!(index.find(0x1000), Some(place(4)), "a granule that was shared is still right");
    }

    #[test]
    fn a_range_overlaps_what_any_of_its_bytes_belongs_to() {
        let index = AddressIndex::default();
        index.insert(4 * MIB, 2 * MIB, place(1));
        index.insert(9 * MIB, MIB, place(2));
        for (base, size, overlaps) in [
            (0, 4 * MIB, false),
            (0, 4 * MIB + 1, true),
            (6 * MIB - 1, 1, true),
            (6 * MIB, 3 * MIB, false),
            (8 * MIB, 4 * MIB, true),
            (10 * MIB, 1 << 40, false),
        ] {
            assert_eq!(index.overlaps(base, size), overlaps, "{base:#x} {size:#x}");
        }
    }

    #[test]
    fn addresses_beyond_the_table_are_found_too() {
        let index = AddressIndex::default();
        index.insert(0xffff_8000_0000_0000, 2 * MIB, place(5));
        assert_eq!(index.find(0xffff_8000_0000_0000 + MIB), Some(place(5)));
        assert_eq!(index.find(u64::MAX), None);
    }
}
