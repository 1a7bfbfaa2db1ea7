//! Replaying a PyTorch snapshot: the program's own requests, from the state in which its trace began.
//!
//! The start state is the final segments with the trace taken back. Under the recorded settings it is taken up whole, free
//! blocks included, with recorded placement, and every recorded decision is held against ours: that is the trust figure of
//! everything said after it. Under other settings the blocks in use are placed anew, in the order of their addresses.

mod requests;
mod run;
mod state;

pub use requests::{NewMemory, Recorded, Request, requests};
pub use run::{Conditions, SnapshotRun, Trust, trust};
pub use state::{Bases, InUse, State, is_memory};

use millpond::SegmentState;
use millpond::config::{ConfigError, Reserve, Settings};
use millpond::size::{self, SMALL_SEGMENT, SizeClass};
use millpond_driver::{Bytes, Device};
use millpond_snapshot::{Action, Snapshot, StackId, TraceEntry};
use rustc_hash::FxHashMap;

/// One device of a snapshot, ready to be replayed.
#[derive(Clone, Debug)]
pub struct Recording<'s> {
    /// The file.
    pub snapshot: &'s Snapshot,
    /// Which device of it.
    pub device: usize,
    /// The settings it was recorded under, as far as the file says.
    pub settings: Settings,
    /// The state when the trace began.
    pub start: State,
    /// The requests of the trace.
    pub requests: Vec<Recorded>,
    /// Bytes held from the driver at the first OOM, and bytes free on the device then.
    pub first_oom: Option<OomAccount>,
    /// The most that an expandable segment can have reserved, bytes: the next one begins there.
    reach: Option<u64>,
}

/// The account at an OOM, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomAccount {
    /// The index of the entry in the trace.
    pub entry: usize,
    /// Held from the driver.
    pub reserved: u64,
    /// Free on the device.
    pub device_free: u64,
    /// Rounded bytes of the request.
    pub request: u64,
    /// Where the device had room for what the request needed: the most that the allocator can have been allowed to hold. The
    /// settings of the file state no limit, so it was set while the program ran, or the driver refused for a reason of its own.
    pub limit: Option<u64>,
}

impl OomAccount {
    fn new(entry: usize, oom: &TraceEntry, reserved: u64, settings: &Settings) -> Self {
        let (request, device_free) = (oom.size, oom.addr);
        // A page is the most that an expandable segment needs beyond the request.
        let needed = match settings.expandable_segments {
            true => size::round_up(request, page(settings, SizeClass::of(request))),
            false => size::segment_size(request, settings.large_segment_size),
        };
        let is_allowed_all = settings.per_process_memory_fraction >= 1.0;
        let most = reserved.saturating_add(needed).saturating_sub(1);
        let limit = (is_allowed_all && needed <= device_free).then_some(most - most % SMALL_SEGMENT);
        OomAccount { entry, reserved, device_free, request, limit }
    }
}

/// A device index that the file does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file has no device {device}; it has {}", match .known.as_slice() { [] => "none".to_owned(), known => known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") })]
pub struct NoDevice {
    /// What was asked for.
    pub device: usize,
    /// The devices of the file.
    pub known: Vec<usize>,
}

/// The devices of which a snapshot holds segments or a trace.
pub fn devices(snapshot: &Snapshot) -> Vec<usize> {
    let traced =
        snapshot.device_traces.iter().enumerate().filter(|(_, trace)| !trace.is_empty()).map(|(device, _)| device);
    let held = snapshot.segments.iter().filter_map(|segment| usize::try_from(segment.device).ok());
    let mut devices: Vec<usize> = traced.chain(held).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

impl<'s> Recording<'s> {
    /// Reads the start state and the requests of one device.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub fn new(snapshot: &'s Snapshot, device: usize) -> Result<Self, NoDevice> {
        Self::under(snapshot, device, recorded_settings(snapshot))
    }

    /// As [`Recording::new`], recorded under `settings`, whatever the file says.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub fn under(snapshot: &'s Snapshot, device: usize, settings: Settings) -> Result<Self, NoDevice> {
        let known = devices(snapshot);
        if !known.contains(&device) {
            return Err(NoDevice { device, known });
        }
        let trace = snapshot.trace(device);
        let last = State::last(snapshot, device, &settings);
        let reach_at_the_end = last.reach();
        let start = last.rewind(trace);
        let reach = [start.reach(), reach_at_the_end].into_iter().flatten().min();
        let mut reserved = start.reserved();
        let mut first_oom = None;
        for (index, entry) in trace.iter().enumerate() {
            match entry.action {
                Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(entry.size),
                Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(entry.size),
                Action::Oom if first_oom.is_none() => {
                    first_oom = Some(OomAccount::new(index, entry, reserved, &settings));
                }
                _ => {}
            }
        }
        Ok(Recording { snapshot, device, settings, start, requests: requests(trace), first_oom, reach })
    }

    /// The device's memory as far as the file tells: what was held and what was free at the first OOM, which leaves out what
    /// others used, or what was allowed; 80 GiB without an OOM.
    pub fn capacity(&self) -> Bytes {
        let known = |oom: OomAccount| oom.limit.unwrap_or(oom.reserved.saturating_add(oom.device_free));
        Bytes(self.first_oom.map_or(80 << 30, known))
    }

    /// The start state as segments with their blocks, and where the reservations of expandable segments begin; on device 0,
    /// as every replay is. `settings` and `capacity` decide how far a reservation goes.
    pub fn start_segments(&self, settings: &Settings, capacity: Bytes) -> (Vec<SegmentState>, Bases) {
        let (reserve, _) = self.within_reach(settings.clone(), capacity).reserve_for(None, capacity.0);
        let bases = Bases::of(self.snapshot, self.device, reserve);
        let segments = self.start.segments(Device(0), &bases, |class| {
            let page = page(settings, class);
            (reserve.div_ceil(page).saturating_mul(page), page)
        });
        (segments, bases)
    }

    /// The settings with what an expandable segment reserves on a device of `capacity` cut to what lay between two of them: a
    /// file does not say how large the device was, and recorded addresses are not to collide.
    pub fn within_reach(&self, mut settings: Settings, capacity: Bytes) -> Settings {
        if let Some(reach) = self.reach.filter(|&reach| reach < settings.reserve_for(None, capacity.0).0) {
            // A whole number of pages is exact as a fraction of GiB.
            settings.expandable_segments_reserve = Some(Reserve::GiB(reach as f64 / (1u64 << 30) as f64));
        }
        settings
    }

    /// The bytes of the block of every allocation, by the index of its entry; 0 of other entries. A trace names only what
    /// was asked for.
    pub fn block_sizes(&self) -> Vec<u64> {
        let trace = self.snapshot.trace(self.device);
        let mut sizes = vec![0; trace.len()];
        State::last(self.snapshot, self.device, &self.settings).rewind_seeing(trace, |index, size| sizes[index] = size);
        sizes
    }

    /// Where blocks that were in use when the trace began were allocated, by address: known of those that still are.
    pub fn start_stacks(&self) -> FxHashMap<u64, StackId> {
        let mine = self.snapshot.segments.iter().filter(|segment| segment.device == self.device as i32);
        let blocks = mine.flat_map(|segment| &segment.blocks).filter(|block| block.state.is_active());
        let mut stacks: FxHashMap<u64, StackId> = blocks.map(|block| (block.address, block.stack)).collect();
        for entry in self.snapshot.trace(self.device).iter().filter(|entry| entry.action == Action::Alloc) {
            stacks.remove(&entry.addr);
        }
        stacks
    }
}

/// Bytes of a page of an expandable segment (R4.1).
fn page(settings: &Settings, class: SizeClass) -> u64 {
    match class {
        SizeClass::Small => SMALL_SEGMENT,
        SizeClass::Large => settings.large_segment_size,
    }
}

/// The settings of a snapshot: its settings string where it is understood, and the figures beside it.
fn recorded_settings(snapshot: &Snapshot) -> Settings {
    let dict = &snapshot.settings;
    let from_text: Result<_, ConfigError> = Settings::parse(dict.conf.as_deref().unwrap_or_default());
    let mut settings = from_text.map(|(settings, _)| settings).unwrap_or_default();
    if let Some(bytes) = dict.max_split_size {
        // −1 is unlimited, as a number of 64 bits is.
        settings.max_split_size = bytes as u64;
    }
    if let Some(threshold) = dict.garbage_collection_threshold {
        settings.garbage_collection_threshold = threshold;
    }
    if let Some(expandable) = dict.expandable_segments {
        settings.expandable_segments = expandable;
    } else if dict.conf.is_none() {
        settings.expandable_segments = snapshot.segments.iter().any(|segment| segment.is_expandable);
    }
    for (entry, &(_, divisions)) in settings.roundup_power2_divisions.iter_mut().zip(&dict.roundup_power2_divisions) {
        *entry = divisions;
    }
    settings
}
