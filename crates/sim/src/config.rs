//! What a simulated machine is like.

use millpond_driver::{Bytes, Caps};

use crate::cost::CostTable;
use crate::faults::FaultRule;

/// Settings of a simulated machine. Start from [`SimConfig::with_capacity`] or `default()` and change fields.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The devices.
    pub devices: Vec<DeviceConfig>,
    /// When events complete.
    pub events: EventMode,
    /// The lowest address of device memory.
    pub va_base: u64,
    /// The end of device addresses; `va_end − va_base` is the size of the address space.
    pub va_end: u64,
    /// How addresses are chosen.
    pub placement: Placement,
    /// What each call costs.
    pub cost: CostTable,
    /// Calls that fail.
    pub faults: Vec<FaultRule>,
    /// Whether memory has bytes ([`Sim::read`](crate::Sim::read), [`Sim::write`](crate::Sim::write)).
    pub backing: bool,
    /// Whether memory calls are logged ([`Sim::take_log`](crate::Sim::take_log)).
    pub log: bool,
    /// Whether uses of memory are checked against happens-before ([`Sim::hazards`](crate::Sim::hazards)).
    pub hazards: bool,
    /// Whether a stream must be created before it is used. Off, any raw handle that was never destroyed is a stream.
    pub strict_streams: bool,
    /// Whether CUDA's prohibitions during capture hold: unsafe calls, uses of captured events, isolation, unjoined work.
    /// The process that made the golden recordings did not enforce them.
    pub capture_checks: bool,
    /// Whether `cuEventQuery` of an ordinary event is one of the calls that a capture forbids (it is on real drivers).
    pub event_query_unsafe: bool,
    /// Whether `cuMemMap` accepts an offset other than 0, which today's drivers refuse.
    pub map_offsets: bool,
    /// Physical memory of each NUMA node of the host, for `HOST_NUMA` handles.
    pub numa_nodes: Vec<Bytes>,
    /// The most page-locked host memory.
    pub page_locked: Bytes,
    /// The id of this process on the device.
    pub pid: u32,
    /// The driver's version: 1000 × major + 10 × minor.
    pub driver_version: i32,
}

impl SimConfig {
    /// One device with `capacity` bytes, everything else as by default.
    pub fn with_capacity(capacity: Bytes) -> Self {
        SimConfig { devices: vec![DeviceConfig::with_capacity(capacity)], ..SimConfig::default() }
    }
}

impl Default for SimConfig {
    /// One device of 80 GiB, immediate events, addresses from 0x2000_0000_0000 to 0x5000_0000_0000, capture checks on.
    fn default() -> Self {
        SimConfig {
            devices: vec![DeviceConfig::default()],
            events: EventMode::Immediate,
            va_base: 0x2000_0000_0000,
            va_end: 0x5000_0000_0000,
            placement: Placement::LowestFit,
            cost: CostTable::default(),
            faults: Vec::new(),
            backing: false,
            log: false,
            hazards: false,
            strict_streams: false,
            capture_checks: true,
            event_query_unsafe: false,
            map_offsets: false,
            numa_nodes: vec![Bytes(1 << 40)],
            page_locked: Bytes(1 << 40),
            pid: std::process::id(),
            driver_version: 13020,
        }
    }
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// All of its memory; counted in granules of 2 MiB.
    pub capacity: Bytes,
    /// The share that other processes use.
    pub others: Bytes,
    /// What it is able to do; `total` is taken from `capacity`.
    pub caps: Caps,
}

impl DeviceConfig {
    /// A device with `capacity` bytes that nobody else uses and that is able to do everything but fabric handles.
    pub fn with_capacity(capacity: Bytes) -> Self {
        DeviceConfig {
            capacity,
            others: Bytes(0),
            caps: Caps {
                name: "Millpond simulated device".to_owned(),
                total: capacity,
                compute: (9, 0),
                vmm: true,
                rdma_with_vmm: true,
                posix_fd: true,
                fabric: false,
                pools: true,
                host_numa: Some(0),
                host_numa_vmm: true,
                managed: true,
                map_beside_kernels: true,
            },
        }
    }
}

impl Default for DeviceConfig {
    /// 80 GiB.
    fn default() -> Self {
        DeviceConfig::with_capacity(Bytes(80 << 30))
    }
}

/// When events complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventMode {
    /// When they are recorded.
    #[default]
    Immediate,
    /// When a test or a workload says so ([`Sim::advance`](crate::Sim::advance), [`Sim::sync`](crate::Sim::sync)), or
    /// the host synchronises.
    Manual,
    /// When the work before them is done, on a virtual clock.
    Timed,
}

/// How addresses are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The lowest free range that fits.
    #[default]
    LowestFit,
    /// The ranges of a recording, in order of use: a request takes the first unused one of its size that is free.
    /// Requests without one get the lowest fit outside of all recorded ranges.
    Recorded(Vec<RecordedRange>),
}

/// A range of addresses that a recording names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRange {
    /// Where it starts.
    pub addr: u64,
    /// Its size; compared after rounding up to 2 MiB.
    pub size: Bytes,
}
