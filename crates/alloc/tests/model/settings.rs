//! The settings that decide allocations, and rounding (sections 1.2–1.4 and 10.3 of the law).

use super::MIB;

#[derive(Clone, Debug)]
pub struct Conf {
    pub large_segment: u64,
    pub max_split: u64,
    pub max_non_split_rounding: u64,
    pub gc_threshold: f64,
    pub divisions: [u64; 16],
    pub expandable: bool,
    pub reserve: Option<f64>,
    pub throw_on_oom: bool,
    pub fraction: f64,
}

/// One pair of a settings string.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    LargeSegment(u64),
    /// MiB above `large_segment_size`, its lower bound.
    MaxSplit(u64),
    /// Likewise.
    MaxNonSplitRounding(u64),
    GcThreshold(f64),
    Divisions(u64),
    /// (boundary in MiB, divisions), then those above the last boundary.
    DivisionList(Vec<(u64, u64)>, Option<u64>),
    Expandable(bool),
    Reserve(f64),
    ThrowOnOom(bool),
    Fraction(f64),
}

impl Default for Conf {
    fn default() -> Self {
        Conf {
            large_segment: 20 * MIB,
            max_split: u64::MAX,
            max_non_split_rounding: 20 * MIB,
            gc_threshold: 0.0,
            divisions: [0; 16],
            expandable: false,
            reserve: None,
            throw_on_oom: false,
            fraction: 1.0,
        }
    }
}

impl Conf {
    /// Applies a string; returns its text. `large_segment_size_mb` is read first, four keys start from their defaults
    /// (R10.15), all others stay as they were.
    pub fn apply(&mut self, keys: &[Key]) -> String {
        for key in keys {
            if let Key::LargeSegment(mib) = key {
                self.large_segment = mib * MIB;
            }
        }
        let large = self.large_segment / MIB;
        self.max_split = u64::MAX;
        self.max_non_split_rounding = self.large_segment;
        self.gc_threshold = 0.0;
        self.divisions = [0; 16];
        let mut pairs = Vec::new();
        for key in keys {
            pairs.push(match key {
                Key::LargeSegment(mib) => format!("large_segment_size_mb:{mib}"),
                Key::MaxSplit(more) => {
                    self.max_split = (large + more) * MIB;
                    format!("max_split_size_mb:{}", large + more)
                }
                Key::MaxNonSplitRounding(more) => {
                    self.max_non_split_rounding = (large + more) * MIB;
                    format!("max_non_split_rounding_mb:{}", large + more)
                }
                Key::GcThreshold(x) => {
                    self.gc_threshold = *x;
                    format!("garbage_collection_threshold:{x}")
                }
                Key::Divisions(d) => {
                    self.divisions = [*d; 16];
                    format!("roundup_power2_divisions:{d}")
                }
                Key::DivisionList(list, above) => self.division_list(list, *above),
                Key::Expandable(on) => {
                    self.expandable = *on;
                    format!("expandable_segments:{}", if *on { "True" } else { "False" })
                }
                Key::Reserve(fraction) => {
                    self.reserve = Some(*fraction);
                    format!("expandable_segments_reserve:{fraction}")
                }
                Key::ThrowOnOom(on) => {
                    self.throw_on_oom = *on;
                    format!("throw_on_cudamalloc_oom:{}", if *on { "True" } else { "False" })
                }
                Key::Fraction(fraction) => {
                    self.fraction = *fraction;
                    format!("per_process_memory_fraction:{fraction}")
                }
            });
        }
        pairs.join(",")
    }

    /// R10.14.
    fn division_list(&mut self, list: &[(u64, u64)], above: Option<u64>) -> String {
        let mut entries = Vec::new();
        for (i, &(boundary, value)) in list.iter().enumerate() {
            let index = (boundary.ilog2() as usize).min(15);
            let from = if i == 0 { 0 } else { index };
            self.divisions[from..=index].fill(value);
            entries.push(format!("{boundary}:{value}"));
        }
        if let Some(value) = above {
            let index = list.last().map_or(0, |&(boundary, _)| (boundary.ilog2() as usize).min(15));
            self.divisions[index + 1..].fill(value);
            entries.push(format!(">:{value}"));
        }
        format!("roundup_power2_divisions:[{}]", entries.join(","))
    }

    /// R1.2–R1.5.
    pub fn round(&self, n: u64) -> u64 {
        if n < 512 {
            return 512;
        }
        let interval = (n.ilog2() as i64 - 20).clamp(0, 15) as usize;
        let divisions = self.divisions[interval];
        if divisions <= 1 || n <= 512 * divisions {
            return n.div_ceil(512) * 512;
        }
        let power = 1u64 << n.ilog2();
        if power == n {
            return n;
        }
        let step = power >> divisions.ilog2();
        if step == 0 { 2 * power } else { n.div_ceil(step) * step }
    }

    /// R1.10.
    pub fn segment_size(&self, rounded: u64) -> u64 {
        if rounded <= MIB {
            2 * MIB
        } else if rounded < 10 * MIB {
            self.large_segment
        } else {
            rounded.div_ceil(2 * MIB) * 2 * MIB
        }
    }

    /// What an expandable segment reserves before it is rounded to pages (R4.2, R4.3, R4.27).
    pub fn reserve_bytes(&self, total: u64) -> u64 {
        let full = total + total / 8;
        self.reserve.map_or(full, |fraction| ((fraction * total as f64) as u64).min(full))
    }
}
