//! Statistics (section 8 of the law), as plain counters.

use std::collections::BTreeMap;

/// (current, peak, allocated, freed), R8.1. Signed, since R8.4 lets a counter drift below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    pub current: i64,
    pub peak: i64,
    pub allocated: i64,
    pub freed: i64,
}

impl Counter {
    /// Up for a positive change, down for a negative one.
    pub fn add(&mut self, change: i64) {
        self.current += change;
        if change > 0 {
            self.peak = self.peak.max(self.current);
            self.allocated += change;
        } else {
            self.freed -= change;
        }
    }
}

/// The metrics in the order of R8.2; the last two have no size classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Allocation,
    AllocatedBytes,
    RequestedBytes,
    Active,
    ActiveBytes,
    InactiveSplit,
    InactiveSplitBytes,
    Segment,
    ReservedBytes,
    OversizeAllocations,
    OversizeSegments,
}

impl What {
    pub const ALL: [What; 11] = [
        What::Allocation,
        What::AllocatedBytes,
        What::RequestedBytes,
        What::Active,
        What::ActiveBytes,
        What::InactiveSplit,
        What::InactiveSplitBytes,
        What::Segment,
        What::ReservedBytes,
        What::OversizeAllocations,
        What::OversizeSegments,
    ];

    pub fn key(self) -> &'static str {
        [
            "allocation",
            "allocated_bytes",
            "requested_bytes",
            "active",
            "active_bytes",
            "inactive_split",
            "inactive_split_bytes",
            "segment",
            "reserved_bytes",
            "oversize_allocations",
            "oversize_segments",
        ][self as usize]
    }

    pub fn has_classes(self) -> bool {
        !matches!(self, What::OversizeAllocations | What::OversizeSegments)
    }
}

/// All, small, large.
pub type ByClass = [Counter; 3];

#[derive(Clone, Debug, Default)]
pub struct Statistics {
    pub metrics: [ByClass; 11],
    pub by_pool: BTreeMap<(u64, u64), ByClass>,
    pub retries: i64,
    pub ooms: i64,
    pub syncs: i64,
    pub device_allocs: i64,
    pub device_frees: i64,
    pub rejections: i64,
    /// `max_split_size` when the allocator was made.
    pub max_split: i64,
}

pub fn add(counters: &mut ByClass, small: bool, change: i64) {
    if change != 0 {
        counters[0].add(change);
        counters[if small { 1 } else { 2 }].add(change);
    }
}

impl Statistics {
    pub fn add(&mut self, what: What, small: bool, change: i64) {
        add(&mut self.metrics[what as usize], small, change);
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.metrics.iter_mut().chain(self.by_pool.values_mut()).flatten()
    }

    pub fn reset_peaks(&mut self) {
        self.all().for_each(|counter| counter.peak = counter.current);
    }

    /// R8.6.
    pub fn reset_accumulated(&mut self) {
        self.all().for_each(|counter| (counter.allocated, counter.freed) = (0, 0));
        (self.retries, self.ooms, self.syncs) = (0, 0, 0);
        (self.device_allocs, self.device_frees, self.rejections) = (0, 0, 0);
    }

    /// The names of R8.2 with their values.
    pub fn flatten(&self) -> BTreeMap<String, i64> {
        let mut flat = BTreeMap::new();
        let mut put = |prefix: String, c: &Counter| {
            for (m, value) in [("current", c.current), ("peak", c.peak), ("allocated", c.allocated), ("freed", c.freed)]
            {
                flat.insert(format!("{prefix}.{m}"), value);
            }
        };
        const POOLS: [&str; 3] = ["all", "small_pool", "large_pool"];
        for what in What::ALL {
            let counters = &self.metrics[what as usize];
            if what.has_classes() {
                POOLS.iter().zip(counters).for_each(|(pool, c)| put(format!("{}.{pool}", what.key()), c));
            } else {
                put(what.key().to_owned(), &counters[0]);
            }
        }
        for ((a, b), counters) in &self.by_pool {
            POOLS
                .iter()
                .zip(counters)
                .for_each(|(pool, c)| put(format!("reserved_bytes_by_private_pools.{a}_{b}.{pool}"), c));
        }
        flat.insert("num_alloc_retries".to_owned(), self.retries);
        flat.insert("num_ooms".to_owned(), self.ooms);
        flat.insert("num_sync_all_streams".to_owned(), self.syncs);
        flat.insert("num_device_alloc".to_owned(), self.device_allocs);
        flat.insert("num_device_free".to_owned(), self.device_frees);
        flat.insert("num_oom_rejections".to_owned(), self.rejections);
        flat.insert("max_split_size".to_owned(), self.max_split);
        flat
    }
}
