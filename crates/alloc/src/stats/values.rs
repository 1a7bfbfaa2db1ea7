//! Statistics as values, with PyTorch's names.

use std::collections::BTreeMap;

use super::Metric;
use crate::private::PoolId;
use crate::size::SizeClass;

/// One counter (R8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The value now. Only the oversize counters can be negative: when `max_split_size` changes meanwhile (L18).
    pub current: i64,
    /// The highest value since the last reset of peaks.
    pub peak: u64,
    /// The sum of all increases since the last reset of accumulated figures.
    pub allocated: u64,
    /// The sum of all decreases since the last reset of accumulated figures.
    pub freed: u64,
}

impl Stat {
    /// Adds `by`.
    pub fn raise(&mut self, by: u64) {
        self.current += by as i64;
        self.allocated += by;
        self.peak = self.peak.max(self.current.max(0) as u64);
    }

    /// Takes `by` away.
    pub fn lower(&mut self, by: u64) {
        self.current -= by as i64;
        self.freed += by;
    }

    /// The highest value starts again from the value now.
    pub fn reset_peak(&mut self) {
        self.peak = self.current.max(0) as u64;
    }

    pub(crate) fn fields(self) -> [(&'static str, i64); 4] {
        let [allocated, freed, peak] = [self.allocated, self.freed, self.peak].map(|value| value as i64);
        [("allocated", allocated), ("current", self.current), ("freed", freed), ("peak", peak)]
    }
}

/// All statistics of a device (R8.2). Bytes or counts, as the metric says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// By metric, then all, small class, large class.
    pub metrics: [[Stat; 3]; Metric::COUNT],
    /// Bytes held from the driver by each private pool that ever was: all, small class, large class.
    pub reserved_by_private_pools: BTreeMap<PoolId, [Stat; 3]>,
    /// Allocations tried again after the synchronising release (R2.10).
    pub num_alloc_retries: u64,
    /// Out-of-memory errors raised.
    pub num_ooms: u64,
    /// Synchronising releases (R2.31).
    pub num_sync_all_streams: u64,
    /// cudaMalloc successes and mapped ranges.
    pub num_device_alloc: u64,
    /// cudaFree calls and unmapped ranges.
    pub num_device_free: u64,
    /// Requests rejected by policy (R2.40).
    pub num_oom_rejections: u64,
    /// `max_split_size` when the allocator was made; −1 for unlimited.
    pub max_split_size: i64,
}

/// The names of the three columns of a metric.
const COLUMNS: [&str; 3] = ["all", "small_pool", "large_pool"];

impl Stats {
    /// A metric over both classes.
    pub fn all(&self, metric: Metric) -> Stat {
        self.metrics[metric as usize][0]
    }

    /// A metric of one class.
    pub fn of(&self, metric: Metric, class: SizeClass) -> Stat {
        self.metrics[metric as usize][1 + class as usize]
    }

    /// The flat form of `torch.cuda.memory_stats`: sorted names and values.
    pub fn flatten(&self) -> BTreeMap<String, i64> {
        let mut flat = BTreeMap::new();
        let mut put = |key: String, value: i64| flat.insert(key, value);
        for metric in Metric::ALL {
            let stats = &self.metrics[metric as usize];
            if metric.by_class() {
                for (column, stat) in COLUMNS.iter().zip(stats) {
                    for (field, value) in stat.fields() {
                        put(format!("{}.{column}.{field}", metric.key()), value);
                    }
                }
            } else {
                for (field, value) in stats[0].fields() {
                    put(format!("{}.{field}", metric.key()), value);
                }
            }
        }
        for (id, stats) in &self.reserved_by_private_pools {
            for (column, stat) in COLUMNS.iter().zip(stats) {
                for (field, value) in stat.fields() {
                    put(format!("reserved_bytes_by_private_pools.{}_{}.{column}.{field}", id.0, id.1), value);
                }
            }
        }
        for (key, value) in [
            ("num_alloc_retries", self.num_alloc_retries as i64),
            ("num_ooms", self.num_ooms as i64),
            ("num_sync_all_streams", self.num_sync_all_streams as i64),
            ("num_device_alloc", self.num_device_alloc as i64),
            ("num_device_free", self.num_device_free as i64),
            ("num_oom_rejections", self.num_oom_rejections as i64),
            ("max_split_size", self.max_split_size),
        ] {
            put(key.to_owned(), value);
        }
        flat
    }
}
