//! The ranges that the driver has granted, numbered as recordings number them.

use std::collections::BTreeMap;

use millpond_sim::{Call, CallKind};

/// Granted ranges of both kinds, by address.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Base to (ordinal, bytes).
    live: BTreeMap<u64, (u64, u64)>,
    granted: u64,
}

impl Ranges {
    /// Follows one driver call.
    pub fn follow(&mut self, call: &Call) {
        match call.kind {
            _ if call.code.is_some() => {}
            CallKind::Malloc | CallKind::Reserve => {
                self.live.insert(call.addr, (self.granted, call.size));
                self.granted += 1;
            }
            CallKind::Free | CallKind::AddrFree => {
                self.live.remove(&call.addr);
            }
            _ => {}
        }
    }

    /// (ordinal, offset) of an address; `None` where nothing was granted.
    pub fn find(&self, addr: u64) -> Option<(u64, u64)> {
        let (base, &(ordinal, bytes)) = self.live.range(..=addr).next_back()?;
        (addr - base < bytes).then_some((ordinal, addr - base))
    }
}
