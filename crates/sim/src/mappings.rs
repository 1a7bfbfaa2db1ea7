//! What lies at which address: plain allocations, own ones and opened ones, reservations, pool chunks, and the mappings
//! inside reservations.

use std::collections::BTreeMap;

use millpond_driver::{Access, Bytes, Device, Location};

use crate::backing::Store;

/// A range that the address space has granted.
#[derive(Debug)]
pub(crate) enum Granted {
    /// `cuMemAlloc`: bytes as asked and in granules.
    Malloc { device: Device, asked: u64, bytes: u64, managed: bool, store: Option<Store> },
    /// `cuIpcOpenMemHandle`: memory of another process, in which it is counted.
    Opened { device: Device, asked: u64, bytes: u64, opened: u32, store: Store },
    /// `cuMemAddressReserve`.
    Reservation { bytes: u64 },
    /// Memory of a driver pool.
    Chunk { pool: u64, device: Device, bytes: u64, store: Option<Store> },
}

impl Granted {
    pub fn bytes(&self) -> u64 {
        match *self {
            Granted::Malloc { bytes, .. }
            | Granted::Opened { bytes, .. }
            | Granted::Reservation { bytes }
            | Granted::Chunk { bytes, .. } => bytes,
        }
    }
}

/// Part of a handle at an address.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub bytes: u64,
    pub handle: u64,
    pub offset: u64,
    /// What each accessor may do; absent means nothing.
    pub access: Vec<(Location, Access)>,
}

impl Mapping {
    pub fn access_of(&self, accessor: Location) -> Access {
        self.access.iter().find(|(location, _)| *location == accessor).map_or(Access::None, |&(_, access)| access)
    }

    pub fn set_access(&mut self, accessor: Location, access: Access) {
        match self.access.iter_mut().find(|(location, _)| *location == accessor) {
            Some(entry) => entry.1 = access,
            None => self.access.push((accessor, access)),
        }
    }
}

/// Everything that has an address on a device.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    pub granted: BTreeMap<u64, Granted>,
    pub mapped: BTreeMap<u64, Mapping>,
}

/// Why a range does not consist of whole mappings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotWhole {
    /// Nothing is mapped at this address.
    Hole(u64),
    /// The mapping that starts here lies partly outside.
    Cut(u64, u64),
}

impl std::fmt::Display for NotWhole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            NotWhole::Hole(addr) => write!(f, "nothing is mapped at {addr:#x}"),
            NotWhole::Cut(addr, bytes) => {
                write!(f, "the mapping of {} at {addr:#x} lies partly outside of the range", Bytes(bytes))
            }
        }
    }
}

/// Part of a range, in one piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub addr: u64,
    pub bytes: u64,
    /// The handle; 0 for memory that is at one address for good.
    pub handle: u64,
    /// Offset in the handle; without one, the address.
    pub offset: u64,
}

impl Mappings {
    /// A range by the memory that is behind it.
    pub fn parts(&self, addr: u64, bytes: u64) -> Vec<Part> {
        let end = addr.saturating_add(bytes);
        let (mut at, mut parts) = (addr, Vec::new());
        let plain = |from: u64, to: u64| Part { addr: from, bytes: to - from, handle: 0, offset: from };
        let first = self.mapping_at(addr).map_or(addr, |(base, _)| base);
        for (&base, mapping) in self.mapped.range(first..end) {
            let (from, to) = (base.max(addr), end.min(base + mapping.bytes));
            if at < from {
                parts.push(plain(at, from));
            }
            let offset = mapping.offset + (from - base);
            parts.push(Part { addr: from, bytes: to - from, handle: mapping.handle, offset });
            at = to;
        }
        if at < end {
            parts.push(plain(at, end));
        }
        parts
    }

    /// The granted range that holds `addr`.
    pub fn granted_at(&self, addr: u64) -> Option<(u64, &Granted)> {
        let (&base, granted) = self.granted.range(..=addr).next_back()?;
        (addr - base < granted.bytes()).then_some((base, granted))
    }

    /// The mapping that holds `addr`.
    pub fn mapping_at(&self, addr: u64) -> Option<(u64, &Mapping)> {
        let (&base, mapping) = self.mapped.range(..=addr).next_back()?;
        (addr - base < mapping.bytes).then_some((base, mapping))
    }

    /// The first mapping that overlaps `addr .. addr + bytes`.
    pub fn overlapping(&self, addr: u64, bytes: u64) -> Option<(u64, &Mapping)> {
        self.mapping_at(addr)
            .or_else(|| self.mapped.range(addr..addr.saturating_add(bytes)).next().map(|(&at, m)| (at, m)))
    }

    /// The number of mappings of which `addr .. addr + bytes` consists.
    pub fn whole(&self, addr: u64, bytes: u64) -> Result<u64, NotWhole> {
        let end = addr.saturating_add(bytes);
        if let Some((base, mapping)) = self.mapping_at(addr)
            && base != addr
        {
            return Err(NotWhole::Cut(base, mapping.bytes));
        }
        let mut at = addr;
        let mut count = 0;
        for (&base, mapping) in self.mapped.range(addr..end) {
            if base != at {
                return Err(NotWhole::Hole(at));
            }
            at = base + mapping.bytes;
            if at > end {
                return Err(NotWhole::Cut(base, mapping.bytes));
            }
            count += 1;
        }
        if at < end { Err(NotWhole::Hole(at)) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_where_its_memory_changes() {
        let mut maps = Mappings::default();
        for (addr, bytes, handle, offset) in [(100, 10, 7, 0), (120, 20, 8, 4)] {
            maps.mapped.insert(addr, Mapping { bytes, handle, offset, access: Vec::new() });
        }
        let parts: Vec<_> =
            maps.parts(95, 30).iter().map(|part| (part.addr, part.bytes, part.handle, part.offset)).collect();
        assert_eq!(parts, [(95, 5, 0, 95), (100, 10, 7, 0), (110, 10, 0, 110), (120, 5, 8, 4)]);
        let parts = maps.parts(130, 50);
        assert_eq!((parts.len(), parts[0].handle, parts[0].offset, parts[1].offset), (2, 8, 14, 140));
        assert_eq!(maps.parts(100, 0), []);
    }

    #[test]
    fn a_range_is_whole_when_mappings_fill_it_exactly() {
        let mut maps = Mappings::default();
        for (addr, bytes) in [(100, 10), (110, 20), (140, 10)] {
            maps.mapped.insert(addr, Mapping { bytes, handle: 1, offset: 0, access: Vec::new() });
        }
        assert_eq!(maps.whole(100, 30), Ok(2));
        assert_eq!(maps.whole(110, 20), Ok(1));
        assert_eq!(maps.whole(100, 35), Err(NotWhole::Hole(130)));
        assert_eq!(maps.whole(100, 50), Err(NotWhole::Hole(130)));
        assert_eq!(maps.whole(90, 20), Err(NotWhole::Hole(90)));
        assert_eq!(maps.whole(100, 15), Err(NotWhole::Cut(110, 20)));
        assert_eq!(maps.whole(105, 5), Err(NotWhole::Cut(100, 10)));
    }
}
