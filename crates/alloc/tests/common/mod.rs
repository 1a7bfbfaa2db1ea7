//! A simulated machine with an allocator, and short ways to speak to it.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::sync::{Arc, Mutex};

use millpond::config::Settings;
use millpond::{Action, Allocator, BlockUse, Caller, CustomAllocator, Event, HistoryOptions, PoolId, TieOrder, World};
use millpond_driver::{Bytes, Device, Order, Stream};
use millpond_sim::{CallKind, EventMode, Sim, SimConfig};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const DEVICE: Device = Device(0);
/// Where the simulated device's addresses begin.
pub const BASE: u64 = 0x2000_0000_0000;

pub fn stream(raw: u64) -> Stream {
    Stream::new(DEVICE, raw)
}

/// A caller whose current stream is `raw`.
pub fn on(raw: u64) -> Caller<'static> {
    Caller::on(stream(raw))
}

pub struct Machine {
    pub sim: Arc<Sim>,
    pub a: Allocator,
}

/// Events are complete when recorded.
pub fn machine(capacity: u64, conf: &str) -> Machine {
    Machine::with(SimConfig::with_capacity(Bytes(capacity)), conf)
}

/// Events complete when a test says so.
pub fn manual(capacity: u64, conf: &str) -> Machine {
    Machine::with(SimConfig { events: EventMode::Manual, ..SimConfig::with_capacity(Bytes(capacity)) }, conf)
}

/// The device of the recordings, which does not enforce what CUDA forbids in a capture.
pub fn lenient(capacity: u64, conf: &str) -> Machine {
    Machine::with(SimConfig { capture_checks: false, log: true, ..SimConfig::with_capacity(Bytes(capacity)) }, conf)
}

impl Machine {
    /// With settings in PyTorch's dialect, as a process has them that starts with them.
    pub fn with(config: SimConfig, conf: &str) -> Self {
        let (settings, _) = Settings::parse(conf).unwrap_or_else(|error| panic!("{conf}: {error}"));
        Machine::set_up(config, settings)
    }

    /// With settings in Millpond's dialect.
    pub fn written(config: SimConfig, conf: &str) -> Self {
        let (settings, _) = Settings::written(conf).unwrap_or_else(|error| panic!("{conf}: {error}"));
        Machine::set_up(config, settings)
    }

    fn set_up(config: SimConfig, settings: Settings) -> Self {
        let sim = Sim::new(SimConfig { log: true, ..config });
        let a = Allocator::new(sim.clone(), DEVICE, World::of_recordings(settings, TieOrder::default())).unwrap();
        Machine { sim, a }
    }

    /// A block on a stream that is also the caller's.
    #[track_caller]
    pub fn alloc_on(&self, size: u64, raw: u64) -> u64 {
        self.a.alloc(size, stream(raw), &on(raw)).unwrap_or_else(|error| panic!("{size} bytes: {error}"))
    }

    /// A block on the default stream.
    #[track_caller]
    pub fn alloc(&self, size: u64) -> u64 {
        self.alloc_on(size, 0)
    }

    pub fn try_alloc(&self, size: u64) -> millpond::Result<u64> {
        self.a.alloc(size, stream(0), &on(0))
    }

    #[track_caller]
    pub fn free(&self, addr: u64) {
        self.a.free(addr, &on(0)).unwrap();
    }

    #[track_caller]
    pub fn free_all(&self, addrs: impl IntoIterator<Item = u64>) {
        addrs.into_iter().for_each(|addr| self.free(addr));
    }

    #[track_caller]
    pub fn record(&self, addr: u64, raw: u64) -> bool {
        self.a.record_stream(addr, stream(raw), &on(0)).unwrap()
    }

    #[track_caller]
    pub fn empty(&self) {
        self.a.empty_cache(&on(0)).unwrap();
    }

    /// A figure of `memory_stats` by its name.
    #[track_caller]
    pub fn stat(&self, key: &str) -> i64 {
        *self.a.stats().flatten().get(key).unwrap_or_else(|| panic!("no statistic {key}"))
    }

    /// Reserved bytes.
    pub fn reserved(&self) -> u64 {
        self.stat("reserved_bytes.all.current") as u64
    }

    pub fn allocated(&self) -> u64 {
        self.stat("allocated_bytes.all.current") as u64
    }

    /// Blocks as (offset from `BASE`, bytes, use), by address.
    pub fn blocks(&self) -> Vec<(u64, u64, BlockUse)> {
        let blocks = self.a.segments().into_iter().flat_map(|segment| segment.blocks);
        blocks.map(|block| (block.addr - BASE, block.size, block.state)).collect()
    }

    /// The same without unmapped ones, of one memory pool.
    pub fn mapped_blocks(&self, pool: PoolId) -> Vec<(u64, u64, BlockUse)> {
        let blocks = self.a.segments_of(pool).into_iter().flat_map(|segment| segment.blocks);
        let mapped = blocks.filter(|block| block.state != BlockUse::Unmapped);
        mapped.map(|block| (block.addr - BASE, block.size, block.state)).collect()
    }

    pub fn calls(&self, kind: CallKind) -> u64 {
        self.sim.count(kind)
    }

    pub fn record_all(&self) {
        self.a.record_history(Some(HistoryOptions::default()));
    }

    /// The history as (action, offset or figure, size).
    pub fn take_history(&self) -> Vec<(&'static str, u64, u64)> {
        self.a.take_history().iter().map(entry).collect()
    }

    /// `to` waits for all work of `from` so far.
    pub fn wait(&self, to: u64, from: u64) {
        let event = self.sim.event_create(DEVICE).unwrap();
        self.sim.event_record(event, stream(from)).unwrap();
        self.sim.stream_wait_event(stream(to), event).unwrap();
    }

    /// A kernel on a stream that writes `bytes` at `addr`.
    pub fn work(&self, raw: u64, addr: u64, bytes: u64) {
        self.sim.launch(stream(raw), 10, &[], &[(addr, bytes)]).unwrap();
    }

    #[track_caller]
    pub fn verify(&self) {
        if let Err(wrong) = self.a.verify() {
            panic!("{}", wrong[0]);
        }
    }
}

impl Drop for Machine {
    /// Every test ends with an allocator that verifies itself.
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Emptied in an unknown state it might panic again, which would hide the first one.
            std::mem::forget(self.a.clone());
        } else {
            self.verify();
        }
    }
}

pub fn entry(event: &Event) -> (&'static str, u64, u64) {
    let addr = if event.action == Action::Oom { event.addr } else { event.addr.wrapping_sub(BASE) };
    (event.action.name(), addr, event.size)
}

/// A custom allocator that gives the addresses of a list, in order, and nothing where the list says so or ends.
#[derive(Debug, Default)]
pub struct Scripted {
    addresses: Mutex<Vec<Option<u64>>>,
    /// (bytes, raw stream) of each request.
    pub asked: Mutex<Vec<(u64, u64)>>,
    /// (address, bytes) of what came back.
    pub returned: Mutex<Vec<(u64, u64)>>,
}

impl Scripted {
    pub fn new(addresses: &[Option<u64>]) -> Arc<Self> {
        let addresses = Mutex::new(addresses.iter().rev().copied().collect());
        Arc::new(Scripted { addresses, ..Scripted::default() })
    }
}

impl CustomAllocator for Scripted {
    fn raw_alloc(&self, bytes: u64, stream: Stream) -> Option<u64> {
        self.asked.lock().unwrap().push((bytes, stream.raw));
        self.addresses.lock().unwrap().pop().flatten()
    }

    fn raw_delete(&self, addr: u64, bytes: u64, _: Stream) {
        self.returned.lock().unwrap().push((addr, bytes));
    }
}
