//! A simulated device with an allocator on it.

use std::sync::Arc;

use millpond::config::Settings;
use millpond::{Allocator, TieOrder, World};
use millpond_driver::{Bytes, Device};
use millpond_sim::{CostTable, DeviceConfig, EventMode, Sim, SimConfig};

/// What a replay runs on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Memory of each device.
    pub capacity: Bytes,
    /// Of that, what others use.
    pub others: Bytes,
    /// When events complete.
    pub events: EventMode,
    /// The allocator's settings.
    pub settings: Settings,
    /// How ties between free blocks are decided.
    pub tie_order: TieOrder,
    /// Devices.
    pub devices: u32,
    /// The lowest address.
    pub va_base: u64,
    /// The end of the address space.
    pub va_end: u64,
    /// Whether CUDA's prohibitions during a capture hold. The recordings were made without.
    pub capture_checks: bool,
    /// Whether uses of memory are checked against happens-before.
    pub hazards: bool,
    /// Whether the driver's memory calls are logged.
    pub log: bool,
    /// What driver calls cost.
    pub cost: CostTable,
}

impl Default for Setup {
    /// One device of 80 GiB that nobody else uses, immediate events, default settings.
    fn default() -> Self {
        let SimConfig { events, va_base, va_end, hazards, log, cost, .. } = SimConfig::default();
        Setup {
            capacity: Bytes(80 << 30),
            others: Bytes(0),
            events,
            settings: Settings::default(),
            tie_order: TieOrder::default(),
            devices: 1,
            va_base,
            va_end,
            capture_checks: false,
            hazards,
            log,
            cost,
        }
    }
}

/// A simulated machine with a caching allocator on each of its devices.
#[derive(Clone, Debug)]
pub struct Machine {
    sim: Arc<Sim>,
    world: Arc<World>,
    allocators: Vec<Allocator>,
}

impl Machine {
    /// A fresh machine, on which nothing has happened.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(setup: &Setup) -> millpond::Result<Self> {
        let device = DeviceConfig { others: setup.others, ..DeviceConfig::with_capacity(setup.capacity) };
        let sim = Sim::new(SimConfig {
            devices: vec![device; setup.devices.max(1) as usize],
            events: setup.events,
            va_base: setup.va_base,
            va_end: setup.va_end,
            capture_checks: setup.capture_checks,
            hazards: setup.hazards,
            log: setup.log,
            cost: setup.cost.clone(),
            pid: 1,
            ..SimConfig::default()
        });
        let world = World::of_recordings(setup.settings.clone(), setup.tie_order);
        let on = |device| Allocator::new(Arc::<Sim>::clone(&sim), Device(device), Arc::clone(&world));
        let allocators = (0..setup.devices.max(1)).map(on).collect::<Result<_, _>>()?;
        Ok(Machine { sim, world, allocators })
    }

    /// The simulated devices.
    pub fn sim(&self) -> &Arc<Sim> {
        &self.sim
    }

    /// What the allocators share.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The allocator of the first device.
    pub fn allocator(&self) -> &Allocator {
        &self.allocators[0]
    }

    /// The allocators by device.
    pub fn allocators(&self) -> &[Allocator] {
        &self.allocators
    }
}
