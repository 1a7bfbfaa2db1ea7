//! Pages held fast by hand.

use std::ops::Range;
use std::sync::Arc;

use crate::allocator::Allocator;
use crate::device::Core;
use crate::error::{Error, Result};

/// Ranges of addresses whose pages stay at home.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    last: u64,
    ranges: Vec<(u64, Range<u64>)>,
}

impl Pins {
    fn add(&mut self, range: Range<u64>) -> u64 {
        self.last += 1;
        self.ranges.push((self.last, range));
        self.last
    }

    fn remove(&mut self, id: u64) {
        self.ranges.retain(|&(other, _)| other != id);
    }

    /// Whether a page at `addr` has to stay.
    pub(super) fn hold(&self, addr: u64, bytes: u64) -> bool {
        self.ranges.iter().any(|(_, range)| range.start < addr + bytes && addr < range.end)
    }
}

/// While it lives, the pages under a range of addresses do not move, whoever has the addresses.
#[derive(Debug)]
pub struct PinnedPages {
    core: Arc<Core>,
    id: u64,
}

impl Drop for PinnedPages {
    fn drop(&mut self) {
        self.core.hold_ladder().pins.remove(self.id);
    }
}

impl Allocator {
    /// Holds the pages under `bytes` of the live block at `addr` fast, also when the block is free again: for memory that is
    /// registered, exported, or known by its address to somebody who does not know the allocator. What is free there is handed
    /// out as ever, and given back when the cache is emptied.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    pub fn pin_pages(&self, addr: u64, bytes: u64) -> Result<PinnedPages> {
        let mut held = self.core.hold();
        held.live_at(addr).ok_or(Error::UnknownAddress { addr })?;
        let id = held.ladder.pins.add(addr..addr.saturating_add(bytes));
        Ok(PinnedPages { core: Arc::clone(&self.core), id })
    }
}
