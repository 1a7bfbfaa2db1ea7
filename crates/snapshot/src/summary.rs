//! The figures of a snapshot's state, per device: what `millpond stats` shows.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{Segment, SegmentType, Snapshot};
use crate::problem::Problem;

/// What a snapshot holds, in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Devices that have segments or a trace, by index. The pinned host allocator is not one.
    pub devices: Vec<DeviceSummary>,
    /// The settings, under PyTorch's keys (R9.14).
    pub settings: serde_json::Value,
    /// What does not add up.
    pub problems: Vec<Problem>,
}

/// One device's state. All sizes are bytes and are counted from the blocks, except
/// [`reserved`](Self::reserved).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceSummary {
    /// Device index.
    pub device: i32,
    /// How many segments there are.
    pub segments: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// What the driver has handed over: the sum of `total_size`.
    pub reserved: u64,
    /// In live blocks.
    pub allocated: u64,
    /// In live blocks and those that wait for other streams.
    pub active: u64,
    /// What callers asked for, of the active blocks.
    pub requested: u64,
    /// Free in segments that also hold active blocks: what fragmentation keeps.
    pub free_in_used_segments: u64,
    /// In segments without active blocks: what `empty_cache` gives back.
    pub releasable: u64,
    /// The largest free block of a large segment.
    pub largest_free_large: u64,
    /// The largest free block of a small segment.
    pub largest_free_small: u64,
    /// How many trace entries there are.
    pub trace_events: u64,
}

impl Snapshot {
    /// Counts what the snapshot holds and says what does not add up.
    ///
    /// ```
    /// use millpond_snapshot::{Block, Segment, Snapshot};
    ///
    /// let mut snapshot = Snapshot::default();
    /// let block = Block { size: 512, ..Block::default() };
    /// snapshot.segments.push(Segment { total_size: 512, blocks: vec![block], ..Segment::default() });
    /// let summary = snapshot.summary();
    /// assert_eq!(summary.devices[0].releasable, 512);
    /// assert!(summary.problems.is_empty());
    /// ```
    pub fn summary(&self) -> Summary {
        let mut devices: BTreeMap<i32, DeviceSummary> = BTreeMap::new();
        for segment in &self.segments {
            devices.entry(segment.device).or_default().add(segment);
        }
        for (index, trace) in self.device_traces.iter().enumerate() {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            if !trace.is_empty() {
                devices.entry(index).or_default().trace_events += trace.len() as u64;
            }
        }
        for (index, device) in &mut devices {
            device.device = *index;
        }
        Summary {
            devices: devices.into_values().collect(),
            settings: self.settings.to_json(&self.values),
            problems: self.problems(),
        }
    }
}

impl DeviceSummary {
    fn add(&mut self, segment: &Segment) {
        self.segments += 1;
        self.blocks += segment.blocks.len() as u64;
        add(&mut self.reserved, segment.total_size);
        let mut free = 0;
        let mut active = 0;
        let largest = match segment.segment_type {
            SegmentType::Large => &mut self.largest_free_large,
            SegmentType::Small => &mut self.largest_free_small,
        };
        for block in &segment.blocks {
            add(&mut self.allocated, block.allocated());
            add(&mut self.requested, block.requested());
            add(&mut active, block.active());
            if !block.state.is_active() {
                add(&mut free, block.size);
                *largest = (*largest).max(block.size);
            }
        }
        add(&mut self.active, active);
        match active {
            0 => add(&mut self.releasable, segment.total_size),
            _ => add(&mut self.free_in_used_segments, free),
        }
    }
}

/// A file may state anything, so sums stop at the largest figure there is.
fn add(sum: &mut u64, size: u64) {
    *sum = sum.saturating_add(size);
}
