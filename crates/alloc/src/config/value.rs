//! What a setting holds, in words.

use super::keys::Key;
use super::settings::{MIB, PageReuse, Preset, Reserve, Settings};

impl Settings {
    /// The value of `key` in words, as a person reads it: "128 MiB", "off", "True".
    pub fn value_text(&self, key: Key) -> String {
        match key {
            Key::LargeSegmentSizeMb => mib(self.large_segment_size),
            Key::MaxSplitSizeMb => limit(self.max_split_size),
            Key::MaxNonSplitRoundingMb => mib(self.max_non_split_rounding),
            Key::GarbageCollectionThreshold if self.garbage_collection_threshold == 0.0 => "off".into(),
            Key::GarbageCollectionThreshold => format!("{:?} of the limit", self.garbage_collection_threshold),
            Key::RoundupPower2Divisions => divisions(&self.roundup_power2_divisions),
            Key::ExpandableSegments => flag(self.expandable_segments),
            Key::PinnedUseBackgroundThreads => flag(self.pinned_use_background_threads),
            Key::PinnedMaxRoundThresholdMb => limit(self.pinned_max_round_threshold),
            Key::PinnedMaxCachedSizeMb => limit(self.pinned_max_cached_size),
            Key::Backend => self.backend.name().into(),
            Key::ReleaseLockOnCudamalloc => flag(self.release_lock_on_cudamalloc),
            Key::PinnedUseCudaHostRegister => flag(self.pinned_use_cuda_host_register),
            Key::PinnedNumRegisterThreads => self.pinned_num_register_threads.to_string(),
            Key::PinnedReserveSegmentSizeMb if self.pinned_reserve_segment_size == 0 => "off".into(),
            Key::PinnedReserveSegmentSizeMb => mib(self.pinned_reserve_segment_size),
            Key::PinnedFreeCatchAll => flag(self.pinned_free_catch_all),
            Key::GraphCaptureRecordStreamReuse => flag(self.graph_capture_record_stream_reuse),
            Key::PerProcessMemoryFraction => format!("{:?} of the device's memory", self.per_process_memory_fraction),
            Key::ThrowOnCudamallocOom => flag(self.throw_on_cudamalloc_oom),
            Key::ExpandableSegmentsReserve => {
                self.expandable_segments_reserve.map_or_else(|| key.default_text().into(), reserve)
            }
            Key::ExpandableSegmentsReserveByClass if self.expandable_segments_reserve_by_class.is_empty() => {
                "none".into()
            }
            Key::ExpandableSegmentsReserveByClass => {
                let classes = self.expandable_segments_reserve_by_class.iter();
                classes.map(|(class, &of)| format!("{class}: {}", reserve(of))).collect::<Vec<_>>().join(", ")
            }
            Key::Preset => match self.preset {
                Preset::Torch => "torch".into(),
                Preset::Millpond => "millpond".into(),
            },
            Key::RetryAfterSync => flag(self.retry_after_sync),
            Key::PageReuse => match self.page_reuse {
                PageReuse::Off => "off".into(),
                PageReuse::Pressure => "pressure".into(),
                PageReuse::Always => "always".into(),
            },
            Key::PageSizeMb if self.page_size == 0 => mib(self.large_segment_size),
            Key::PageSizeMb => mib(self.page_size),
            Key::PinnedSizeClasses => flag(self.pinned_size_classes),
        }
    }
}

fn flag(is_on: bool) -> String {
    if is_on { "True".into() } else { "False".into() }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn limit(bytes: u64) -> String {
    if bytes == u64::MAX { "unlimited".into() } else { mib(bytes) }
}

fn reserve(reserve: Reserve) -> String {
    match reserve {
        Reserve::Fraction(fraction) => format!("{fraction:?} of the device's memory"),
        Reserve::GiB(gib) => format!("{gib:?} GiB"),
    }
}

/// Neighbouring intervals with the same divisions, as one range of sizes.
fn divisions(table: &[u64; 16]) -> String {
    let mut ranges = Vec::new();
    let mut first = 0;
    for index in 1..=table.len() {
        if index == table.len() || table[index] != table[first] {
            let divisions = if table[first] == 0 { "off".into() } else { table[first].to_string() };
            ranges.push((first, index, divisions));
            first = index;
        }
    }
    if let [(_, _, divisions)] = ranges.as_slice() {
        return divisions.clone();
    }
    let range = |(first, end, divisions): &(usize, usize, String)| match (first, end) {
        (0, end) => format!("below {}: {divisions}", interval(*end)),
        (first, 16) => format!("from {}: {divisions}", interval(*first)),
        (first, end) => format!("{} to {}: {divisions}", interval(*first), interval(*end)),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(", ")
}

/// Where the interval of that index begins. The one of index 0 holds everything below 2 MiB (R1.3).
fn interval(index: usize) -> String {
    if index < 10 { format!("{} MiB", 1 << index) } else { format!("{} GiB", 1 << (index - 10)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_3_defaults_read_as_the_table_says() {
        let settings = Settings::default();
        let text = |key| settings.value_text(key);
        assert_eq!(text(Key::LargeSegmentSizeMb), "20 MiB");
        assert_eq!(text(Key::MaxSplitSizeMb), "unlimited");
        assert_eq!(text(Key::GarbageCollectionThreshold), "off");
        assert_eq!(text(Key::RoundupPower2Divisions), "off");
        assert_eq!(text(Key::PerProcessMemoryFraction), "1.0 of the device's memory");
        assert_eq!(text(Key::ExpandableSegmentsReserve), "9/8 of the device's memory");
        assert_eq!(text(Key::PageSizeMb), "20 MiB");
    }

    #[test]
    fn c51_the_table_reads_as_ranges() {
        let (settings, _) = Settings::parse("roundup_power2_divisions:[1:1,4:2,16:4]").unwrap();
        assert_eq!(
            settings.value_text(Key::RoundupPower2Divisions),
            "below 2 MiB: 1, 2 MiB to 4 MiB: off, 4 MiB to 8 MiB: 2, 8 MiB to 16 MiB: off, 16 MiB to 32 MiB: 4, from 32 MiB: off"
        );
        let (settings, _) = Settings::parse("roundup_power2_divisions:[1024:8,>:2]").unwrap();
        assert_eq!(settings.value_text(Key::RoundupPower2Divisions), "below 2 GiB: 8, from 2 GiB: 2");
    }
}
