//! From an address to its pool, without a lock.
//!
//! Driver memory comes in granules of 2 MiB, so a two-level table of granules answers with two loads. Segments that do not
//! start and end on granules (custom allocators may return anything) are in an ordered map behind a lock, and their
//! granules say so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Granules are 2 MiB.
const GRANULE_BITS: u32 = 21;
const LEAF_BITS: u32 = 13;
const TOP_BITS: u32 = 14;
/// Addresses below this (256 TiB) are in the table, the others in the map.
const TABLE_END: u64 = 1 << (GRANULE_BITS + LEAF_BITS + TOP_BITS);

/// Nothing of ours lies in the granule.
const VACANT: u32 = 0;
/// Look into the map.
const SHARED: u32 = u32::MAX;

type Leaf = Box<[AtomicU32]>;

/// Which pool an address belongs to.
pub(crate) struct AddressIndex {
    top: Box<[OnceLock<Leaf>]>,
    /// Base to (end, pool) of segments that do not fill granules.
    odd: Mutex<BTreeMap<u64, (u64, u32)>>,
}

impl Default for AddressIndex {
    fn default() -> Self {
        AddressIndex { top: std::iter::repeat_with(OnceLock::new).take(1 << TOP_BITS).collect(), odd: Mutex::default() }
    }
}

impl AddressIndex {
    fn granule(&self, addr: u64) -> Option<&AtomicU32> {
        let leaf = self.top.get((addr >> (GRANULE_BITS + LEAF_BITS)) as usize)?.get()?;
        leaf.get((addr >> GRANULE_BITS) as usize & ((1 << LEAF_BITS) - 1))
    }

    fn granule_or_new(&self, addr: u64) -> Option<&AtomicU32> {
        let leaf = self.top.get((addr >> (GRANULE_BITS + LEAF_BITS)) as usize)?;
        let leaf = leaf.get_or_init(|| std::iter::repeat_with(AtomicU32::default).take(1 << LEAF_BITS).collect());
        leaf.get((addr >> GRANULE_BITS) as usize & ((1 << LEAF_BITS) - 1))
    }

    fn granules(base: u64, size: u64) -> impl Iterator<Item = u64> {
        let end = base.saturating_add(size).min(TABLE_END);
        ((base >> GRANULE_BITS)..end.div_ceil(1 << GRANULE_BITS)).map(|granule| granule << GRANULE_BITS)
    }

    /// The pool of the segment that holds `addr`, if any.
    #[inline]
    pub fn pool_of(&self, addr: u64) -> Option<u32> {
        match self.granule(addr).map(|granule| granule.load(Acquire)) {
            Some(VACANT) => None,
            Some(SHARED) => self.odd_pool_of(addr),
            Some(pool) => Some(pool - 1),
            None if addr >= TABLE_END => self.odd_pool_of(addr),
            None => None,
        }
    }

    #[cold]
    fn odd_pool_of(&self, addr: u64) -> Option<u32> {
        let odd = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, &(end, pool)) = odd.range(..=addr).next_back()?;
        (addr < end).then_some(pool)
    }

    /// Records that [base, base+size) belongs to `pool`.
    pub fn insert(&self, base: u64, size: u64, pool: u32) {
        const MASK: u64 = (1 << GRANULE_BITS) - 1;
        let whole = base & MASK == 0 && size & MASK == 0 && base.saturating_add(size) <= TABLE_END;
        let granules = || Self::granules(base, size).filter_map(|addr| self.granule_or_new(addr));
        if whole && granules().all(|granule| granule.load(Acquire) == VACANT) {
            granules().for_each(|granule| granule.store(pool + 1, Release));
        } else {
            self.odd.lock().unwrap_or_else(PoisonError::into_inner).insert(base, (base.saturating_add(size), pool));
            granules().for_each(|granule| granule.store(SHARED, Release));
        }
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

    #[test]
    fn whole_granules_are_found_to_the_last_byte() {
        let index = AddressIndex::default();
        index.insert(0x2000_0000_0000, 20 * MIB, 7);
        for (addr, pool) in [
            (0x1fff_ffff_ffff, None),
            (0x2000_0000_0000, Some(7)),
            (0x2000_0000_0000 + 20 * MIB - 1, Some(7)),
            (0x2000_0000_0000 + 20 * MIB, None),
        ] {
            assert_eq!(index.pool_of(addr), pool, "{addr:#x}");
        }
        index.remove(0x2000_0000_0000, 20 * MIB);
        assert_eq!(index.pool_of(0x2000_0000_0000), None);
    }

    #[test]
    fn odd_segments_share_a_granule_with_any_other() {
        let index = AddressIndex::default();
        index.insert(0x1000, 2 * MIB, 1);
        index.insert(0x1000 + 2 * MIB, 4096, 2);
        index.insert(4 * MIB, 2 * MIB, 3);
        assert_eq!(index.pool_of(0xfff), None);
        assert_eq!(index.pool_of(0x1000), Some(1));
        assert_eq!(index.pool_of(0x1000 + 2 * MIB), Some(2));
        assert_eq!(index.pool_of(0x2000 + 2 * MIB), None);
        assert_eq!(index.pool_of(4 * MIB), Some(3));
        index.remove(0x1000, 2 * MIB);
        index.insert(0, 2 * MIB, 4);
        assert_eq!(index.pool_of(0x1000), Some(4), "a granule that was shared is still right");
    }

    #[test]
    fn addresses_beyond_the_table_are_found_too() {
        let index = AddressIndex::default();
        index.insert(0xffff_8000_0000_0000, 2 * MIB, 5);
        assert_eq!(index.pool_of(0xffff_8000_0000_0000 + MIB), Some(5));
        assert_eq!(index.pool_of(u64::MAX), None);
    }
}
