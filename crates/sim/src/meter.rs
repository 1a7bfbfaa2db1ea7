//! Counts of calls, what they cost, and the host's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    now: Clock,
    cost: CostTable,
}

/// Nanoseconds on the host's clock. They change under the lock of the machine, and are read without it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Meter {
    pub fn new(cost: CostTable) -> Self {
        let fixed = CallKind::ALL.map(|kind| cost.call(kind).fixed_ns);
        Meter {
            counts: [0; CallKind::COUNT],
            fixed,
            extra: [0; CallKind::COUNT],
            total: 0,
            now: Clock::default(),
            cost,
        }
    }

    #[inline]
    pub fn count(&mut self, kind: CallKind) {
        self.counts[kind as usize] += 1;
        self.total += 1;
        self.pass(self.fixed[kind as usize]);
    }

    /// Adds what the call costs by the handles, bytes and live ranges that it touched.
    pub fn charge(&mut self, kind: CallKind, handles: u64, bytes: u64, live: u64) {
        let ns = self.cost.call(kind).variable_ns(handles, bytes, live);
        self.extra[kind as usize] = self.extra[kind as usize].saturating_add(ns);
        self.pass(ns);
    }

    /// Nanoseconds on the host's clock.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.now()
    }

    /// The clock, for those without the lock.
    pub fn clock(&self) -> Clock {
        self.now.clone()
    }

    /// Time passes.
    #[inline]
    pub fn pass(&mut self, ns: u64) {
        self.now.0.store(self.now().saturating_add(ns), Relaxed);
    }

    /// The host waits until a moment, unless that has passed.
    pub fn wait_until(&mut self, ns: u64) {
        self.now.0.store(self.now().max(ns), Relaxed);
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
