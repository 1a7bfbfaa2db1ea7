//! Counts of calls, what they cost, and the host's clock.

use crate::calls::CallKind;
use crate::cost::CostTable;

#[derive(Debug)]
pub(crate) struct Meter {
    counts: [u64; CallKind::COUNT],
    /// Nanoseconds of each call by itself.
    fixed: [u64; CallKind::COUNT],
    /// Nanoseconds that came on top, by what the calls touched.
    extra: [u64; CallKind::COUNT],
    /// Calls of all kinds.
    pub total: u64,
    /// Nanoseconds on the host's clock.
    pub now: u64,
    cost: CostTable,
}

impl Meter {
    pub fn new(cost: CostTable) -> Self {
        let fixed = CallKind::ALL.map(|kind| cost.call(kind).fixed_ns);
        Meter { counts: [0; CallKind::COUNT], fixed, extra: [0; CallKind::COUNT], total: 0, now: 0, cost }
    }

    #[inline]
    pub fn count(&mut self, kind: CallKind) {
        self.counts[kind as usize] += 1;
        self.total += 1;
        self.now = self.now.saturating_add(self.fixed[kind as usize]);
    }

    /// Adds what the call costs by the handles, bytes and live ranges that it touched.
    pub fn charge(&mut self, kind: CallKind, handles: u64, bytes: u64, live: u64) {
        let ns = self.cost.call(kind).variable_ns(handles, bytes, live);
        self.extra[kind as usize] = self.extra[kind as usize].saturating_add(ns);
        self.now = self.now.saturating_add(ns);
    }

    pub fn cost(&self) -> &CostTable {
        &self.cost
    }

    pub fn counts(&self) -> impl Iterator<Item = (CallKind, u64)> {
        CallKind::ALL.into_iter().map(|kind| (kind, self.counts[kind as usize]))
    }

    pub fn time_ns(&self, kind: CallKind) -> u64 {
        self.counts[kind as usize].saturating_mul(self.fixed[kind as usize]).saturating_add(self.extra[kind as usize])
    }
}
