//! What is counted about pinned memory (R7.22–R7.24).

use std::collections::BTreeMap;

use crate::stats::Stat;

/// How long calls took, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeStat {
    /// All calls together.
    pub total: u64,
    /// The longest call.
    pub max: u64,
    /// The shortest call; 0 stands for none yet.
    pub min: u64,
    /// How many calls.
    pub count: u64,
}

impl TimeStat {
    /// Adds a call of `us` microseconds.
    pub fn add(&mut self, us: u64) {
        self.total += us;
        self.max = self.max.max(us);
        if self.min == 0 || us < self.min {
            self.min = us;
        }
        self.count += 1;
    }

    /// The mean, rounded down; 0 without calls.
    pub fn avg(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }
}

/// Statistics of pinned memory (`torch.cuda.host_memory_stats`). A block counts as active until its events have completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Blocks that exist, in use or cached.
    pub allocations: Stat,
    /// Their bytes.
    pub allocated_bytes: Stat,
    /// Blocks in use. The peak is a sum of peaks by size class: an upper bound (R7.23).
    pub active_requests: Stat,
    /// Their bytes; the peak as for requests.
    pub active_bytes: Stat,
    /// Page-locking.
    pub host_alloc_time: TimeStat,
    /// Its end.
    pub host_free_time: TimeStat,
    /// Blocks made so far, by size class. Not among PyTorch's Python figures.
    pub allocations_by_bin: Vec<u64>,
}

impl HostStats {
    /// Page-locked allocations made.
    pub fn num_host_alloc(&self) -> u64 {
        self.allocations.allocated
    }

    /// Page-locked allocations given back.
    pub fn num_host_free(&self) -> u64 {
        self.allocations.freed
    }

    /// The flat form of `torch.cuda.host_memory_stats`: sorted names and values (R7.22).
    pub fn flatten(&self) -> BTreeMap<String, i64> {
        let stats = [
            ("allocations", self.allocations),
            ("allocated_bytes", self.allocated_bytes),
            ("active_requests", self.active_requests),
            ("active_bytes", self.active_bytes),
        ];
        let stats = stats
            .into_iter()
            .flat_map(|(name, stat)| stat.fields().map(|(field, value)| (format!("{name}.{field}"), value)));
        let times = [("host_alloc_time", self.host_alloc_time), ("host_free_time", self.host_free_time)];
        let times = times.into_iter().flat_map(|(name, time)| {
            let TimeStat { total, max, min, count } = time;
            [("total", total), ("max", max), ("min", min), ("count", count), ("avg", time.avg())]
                .map(|(field, value)| (format!("{name}.{field}"), value as i64))
        });
        let counts = [("num_host_alloc", self.num_host_alloc()), ("num_host_free", self.num_host_free())];
        let counts = counts.map(|(name, value)| (name.to_owned(), value as i64));
        stats.chain(times).chain(counts).collect()
    }

    /// Peaks start again from what is there now, the shortest and longest time from nothing (R7.24).
    pub(super) fn reset_peaks(&mut self) {
        for stat in [&mut self.allocations, &mut self.allocated_bytes] {
            stat.reset_peak();
        }
        for time in [&mut self.host_alloc_time, &mut self.host_free_time] {
            (time.min, time.max) = (0, 0);
        }
    }

    /// Accumulated figures start again from 0 (R7.24).
    pub(super) fn reset_accumulated(&mut self) {
        for stat in [&mut self.allocations, &mut self.allocated_bytes] {
            (stat.allocated, stat.freed) = (0, 0);
        }
        for time in [&mut self.host_alloc_time, &mut self.host_free_time] {
            (time.total, time.count) = (0, 0);
        }
        self.allocations_by_bin.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_22_a_shortest_time_of_0_is_not_set_yet() {
        let mut time = TimeStat::default();
        assert_eq!(time.avg(), 0);
        for us in [7, 3, 12] {
            time.add(us);
        }
        assert_eq!(time, TimeStat { total: 22, max: 12, min: 3, count: 3 });
        assert_eq!(time.avg(), 7, "integer division");
    }

    #[test]
    fn r7_22_the_flat_form_has_pytorchs_keys() {
        let keys: Vec<String> = HostStats::default().flatten().into_keys().collect();
        assert_eq!(keys.len(), 4 * 4 + 2 * 5 + 2);
        for key in ["num_host_alloc", "active_bytes.peak", "allocations.freed", "host_alloc_time.avg"] {
            assert!(keys.iter().any(|each| each == key), "{key}");
        }
    }
}
