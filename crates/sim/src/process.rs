//! Memory of the process, for a simulated device that real programs use.
//!
//! On its own a simulation has host memory of its own, in a range of addresses that nothing else uses. Behind CUDA's
//! binary interface the host's memory is the process: page-locked memory must be real, and copies come from and go to
//! wherever the program says. [`Sim::with_process`] takes both from outside, so this crate stays free of `unsafe`.

use std::sync::Arc;

use crate::backing::Store;
use crate::config::SimConfig;
use crate::sim::Sim;

/// The memory of the process. Called under the simulation's lock: implementations must not call the simulation.
pub trait ProcessMemory: std::fmt::Debug + Send + Sync {
    /// New zeroed memory of `bytes` (whole pages of 4 KiB); `None` if there is none.
    fn alloc(&self, bytes: u64) -> Option<u64>;

    /// Gives back what [`ProcessMemory::alloc`] made.
    fn free(&self, addr: u64, bytes: u64);

    /// Copies from the process's memory at `addr`.
    fn read(&self, addr: u64, to: &mut [u8]);

    /// Copies to the process's memory at `addr`.
    fn write(&self, addr: u64, from: &[u8]);
}

/// The process's memory, and which addresses are not it.
#[derive(Debug)]
pub(crate) struct Process {
    pub memory: Arc<dyn ProcessMemory>,
    devices: std::ops::Range<u64>,
    /// All of the process's memory, by address.
    pub store: Store,
}

impl Process {
    pub fn new(memory: Arc<dyn ProcessMemory>, devices: std::ops::Range<u64>) -> Self {
        let store = Store::Process(Arc::clone(&memory));
        Process { memory, devices, store }
    }

    /// Where the process's memory around `addr` may end; `None` for an address that devices have.
    pub fn end(&self, addr: u64) -> Option<u64> {
        match addr {
            0 => None,
            _ if addr < self.devices.start => Some(self.devices.start),
            _ if addr >= self.devices.end => Some(u64::MAX),
            _ => None,
        }
    }
}

impl Sim {
    /// A machine as `config` says, whose host memory is the process's: page-locked memory comes from `memory`, and copies
    /// reach every address outside of the devices' range. With [`SimConfig::backing`] they move its bytes.
    pub fn with_process(config: SimConfig, memory: Arc<dyn ProcessMemory>) -> Arc<Sim> {
        let devices = config.va_base..config.va_end;
        let sim = Sim::new(config);
        sim.lock().host.process = Some(Process::new(memory, devices));
        sim
    }
}
