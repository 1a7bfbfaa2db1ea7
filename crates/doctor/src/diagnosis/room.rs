//! What was left on the device at an error, and what of it the allocator might have taken.

use millpond_driver::Bytes;
use millpond_replay::snapshot::Recording;
use serde::Serialize;

/// What was left at an error. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Free on the device.
    pub device_free: u64,
    /// Of that, what the allocator was allowed to take.
    pub usable: u64,
    /// What kept it from taking more.
    pub limit: Option<Limit>,
}

/// A limit below what the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The settings state one: a share of the device's memory.
    Stated {
        /// The most that may be held.
        bytes: u64,
    },
    /// The device had room and the request failed all the same. A share set while the program ran
    /// (`set_per_process_memory_fraction`) is in no snapshot.
    Inferred {
        /// It is at least what was held once.
        at_least: u64,
        /// It is at most this, or the request would have been served.
        at_most: u64,
    },
}

impl Room {
    /// That at the first error of a recording; `total` is the device's memory where somebody knows it.
    pub fn of(recording: &Recording<'_>, total: Option<u64>) -> Option<Self> {
        let oom = recording.first_oom?;
        let fraction = recording.settings.per_process_memory_fraction;
        let total = total.unwrap_or(oom.reserved.saturating_add(oom.device_free));
        let device_free = oom.device_free;
        let (usable, limit) = if fraction < 1.0 {
            // As the allocator computes it (R2.38).
            let bytes = (fraction * total as f64).round() as u64;
            (device_free.min(bytes.saturating_sub(oom.reserved)), Some(Limit::Stated { bytes }))
        } else if let Some(at_most) = oom.limit {
            // A peak before the error was allowed, too, but not more than the error leaves open.
            let at_least = held_once(recording, oom.entry).min(at_most);
            (0, Some(Limit::Inferred { at_least, at_most }))
        } else {
            (device_free, None)
        };
        Some(Room { device_free, usable, limit })
    }

    /// The device on which a remedy must prove itself: with a limit that nobody knows, only what was held for certain.
    pub fn capacity(&self, recording: &Recording<'_>, total: Option<u64>) -> Bytes {
        match self.limit {
            Some(Limit::Inferred { at_least, .. }) => Bytes(at_least),
            _ => total.map_or_else(|| recording.capacity(), Bytes),
        }
    }
}

/// The most that was held up to an entry.
pub fn held_once(recording: &Recording<'_>, until: usize) -> u64 {
    use millpond_snapshot::Action;
    let trace = recording.snapshot.trace(recording.device);
    let mut reserved = recording.start.reserved();
    let mut most = reserved;
    for entry in &trace[..trace.len().min(until)] {
        match entry.action {
            Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(entry.size),
            Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(entry.size),
            _ => continue,
        }
        most = most.max(reserved);
    }
    most
}
