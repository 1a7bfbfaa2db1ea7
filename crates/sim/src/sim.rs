//! The simulated machine: one state under one lock, and what every call has in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_driver::{Bytes, Code, Device, DriverError, Result};

use crate::address_space::AddressSpace;
use crate::calls::CallKind;
use crate::capture::Captures;
use crate::clocks::Clocks;
use crate::config::{EventMode, SimConfig};
use crate::events::Events;
use crate::faults::{FaultRule, Faults};
use crate::hazards::HazardCheck;
use crate::host::HostMemory;
use crate::log::Call;
use crate::mappings::Mappings;
use crate::meter::{Clock, Meter};
use crate::peers::PeerLinks;
use crate::physical::{GRANULE, Physical};
use crate::pools::Pools;
use crate::streams::Streams;

/// A simulated machine with CUDA devices.
///
/// It implements all parts of [`Driver`](millpond_driver::Driver); what a test or a workload does to the machine itself
/// (completing events, advancing the clock, injecting faults, reading the log) are methods of its own.
pub struct Sim {
    config: SimConfig,
    state: Mutex<State>,
    pub(crate) clock: Clock,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim")
            .field("devices", &self.config.devices.len())
            .field("events", &self.config.events)
            .finish_non_exhaustive()
    }
}

pub(crate) struct State {
    pub mode: EventMode,
    pub capture_checks: bool,
    pub event_query_unsafe: bool,
    pub map_offsets: bool,
    pub backing: bool,
    pub page_locked: u64,
    pub pid: u32,
    pub device_count: u32,
    pub caps: Vec<millpond_driver::Caps>,
    pub meter: Meter,
    pub faults: Faults,
    /// Whether a call may fail for no reason of its own: there are fault rules, or the device is broken.
    trouble: bool,
    fatal: Option<DriverError>,
    pub last_error: Option<Code>,
    log: Option<Vec<Call>>,
    pub physical: Physical,
    pub space: AddressSpace,
    pub maps: Mappings,
    pub streams: Streams,
    pub events: Events,
    pub captures: Captures,
    pub clocks: Option<Box<Clocks>>,
    pub hazards: Option<Box<HazardCheck>>,
    pub host: HostMemory,
    pub peers: PeerLinks,
    pub pools: Pools,
}

impl Sim {
    /// A machine as `config` says.
    pub fn new(config: SimConfig) -> Arc<Sim> {
        let caps =
            config.devices.iter().map(|device| millpond_driver::Caps { total: device.capacity, ..device.caps.clone() });
        let state = State {
            mode: config.events,
            capture_checks: config.capture_checks,
            event_query_unsafe: config.event_query_unsafe,
            map_offsets: config.map_offsets,
            backing: config.backing,
            page_locked: config.page_locked.0,
            pid: config.pid,
            device_count: config.devices.len() as u32,
            caps: caps.collect(),
            meter: Meter::new(config.cost.clone()),
            faults: Faults::new(&config.faults),
            trouble: !config.faults.is_empty(),
            fatal: None,
            last_error: None,
            log: config.log.then(Vec::new),
            physical: Physical::new(&config.devices, &config.numa_nodes),
            space: AddressSpace::new(config.va_base, config.va_end, GRANULE, &config.placement),
            maps: Mappings::default(),
            streams: Streams::new(config.devices.len(), config.strict_streams),
            events: Events::default(),
            captures: Captures::default(),
            clocks: config.hazards.then(Box::default),
            hazards: config.hazards.then(Box::default),
            host: HostMemory::default(),
            peers: PeerLinks::default(),
            pools: Pools::default(),
        };
        let clock = state.meter.clock();
        Arc::new(Sim { config, state: Mutex::new(state), clock })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock can only come from a bug in here; the state is still the best there is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call of the driver that concerns `size` bytes at `addr`.
    #[inline]
    pub(crate) fn call<T>(
        &self,
        kind: CallKind,
        addr: u64,
        size: u64,
        body: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let result = state.enter(kind).and_then(|()| body(&mut state));
        state.leave(kind, addr, size, result.as_ref().err());
        result
    }

    /// One call that returns an address.
    pub(crate) fn call_for_address(
        &self,
        kind: CallKind,
        size: u64,
        body: impl FnOnce(&mut State) -> Result<u64>,
    ) -> Result<u64> {
        let mut state = self.lock();
        let result = state.enter(kind).and_then(|()| body(&mut state));
        state.leave(kind, result.as_ref().copied().unwrap_or(0), size, result.as_ref().err());
        result
    }

    /// Adds a rule by which calls fail.
    pub fn fail(&self, rule: FaultRule) {
        let mut state = self.lock();
        state.faults.add(rule);
        state.trouble = true;
    }

    /// Removes all rules by which calls fail, and repairs a device that one of them broke.
    pub fn clear_faults(&self) {
        let mut state = self.lock();
        state.faults.clear();
        state.fatal = None;
        state.trouble = false;
    }

    /// How many failures were injected so far.
    pub fn faults_injected(&self) -> u64 {
        self.lock().faults.injected
    }

    /// How many calls were made so far: the number that the next one has for [`FaultWhen::At`](crate::FaultWhen::At).
    pub fn calls_made(&self) -> u64 {
        self.lock().meter.total
    }

    /// How often `kind` was called, failed calls included.
    pub fn count(&self, kind: CallKind) -> u64 {
        self.lock().meter.counts().find(|&(each, _)| each == kind).map_or(0, |(_, count)| count)
    }

    /// What all calls so far cost by the cost table, microseconds.
    pub fn driver_time_us(&self) -> u64 {
        let state = self.lock();
        CallKind::ALL.into_iter().fold(0u64, |sum, kind| sum.saturating_add(state.meter.time_ns(kind))) / 1000
    }

    /// What the calls of each kind cost by the cost table, microseconds; kinds that were never called are left out.
    pub fn call_times_us(&self) -> Vec<(&'static str, u64)> {
        let state = self.lock();
        let called = state.meter.counts().filter(|&(_, count)| count != 0);
        called.map(|(kind, _)| (kind.name(), state.meter.time_ns(kind) / 1000)).collect()
    }

    /// The memory calls since the last time, in order; empty without [`SimConfig::log`].
    pub fn take_log(&self) -> Vec<Call> {
        self.lock().log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The most memory of `device` that this process held at any time, bytes; 0 for a device that is not there.
    pub fn peak_use(&self, device: Device) -> u64 {
        self.lock().physical.device(device).map_or(0, |room| room.peak)
    }

    /// Changes the share of `device` that other processes use; what this process holds stays.
    pub fn set_others(&self, device: Device, others: Bytes) {
        if let Some(room) = self.lock().physical.device(device) {
            room.others = others.0;
        }
    }

    /// Makes the next allocation or reservation start at `addr`, if that place is free then.
    pub fn place_next(&self, addr: u64) {
        self.lock().space.place_next(Some(addr));
    }
}

impl State {
    #[inline]
    pub fn enter(&mut self, kind: CallKind) -> Result<()> {
        self.meter.count(kind);
        if self.trouble { self.look_for_trouble(kind) } else { Ok(()) }
    }

    #[cold]
    fn look_for_trouble(&mut self, kind: CallKind) -> Result<()> {
        if let Some((code, sticky)) = self.faults.strike(kind, self.meter.total - 1) {
            let error = DriverError::with(code, kind.name(), "injected");
            if sticky {
                self.break_device(error.clone());
            }
            return Err(error);
        }
        match &self.fatal {
            Some(fatal) => Err(DriverError::with(fatal.code, kind.name(), format!("left behind by {fatal}"))),
            None => Ok(()),
        }
    }

    /// From now on every call fails with this error's code.
    pub fn break_device(&mut self, error: DriverError) {
        self.last_error = Some(error.code);
        self.fatal.get_or_insert(error);
        self.trouble = true;
    }

    pub fn fatal_code(&self) -> Option<Code> {
        self.fatal.as_ref().map(|error| error.code)
    }

    #[inline]
    pub fn leave(&mut self, kind: CallKind, addr: u64, size: u64, error: Option<&DriverError>) {
        if let Some(error) = error
            && kind.leaves_error()
        {
            self.last_error = Some(error.code);
        }
        if let Some(log) = &mut self.log
            && kind.changes_memory()
        {
            log.push(Call { kind, addr, size, code: error.map(|error| error.code) });
        }
    }

    pub fn check_device(&self, device: Device, kind: CallKind) -> Result<()> {
        if device.0 < self.device_count {
            return Ok(());
        }
        Err(DriverError::with(
            Code::ERROR_INVALID_DEVICE,
            kind.name(),
            format!("there is no {device}; this machine has {} devices", self.device_count),
        ))
    }
}

/// An error of `kind` with a text.
pub(crate) fn refuse<T>(kind: CallKind, code: Code, detail: impl Into<String>) -> Result<T> {
    Err(DriverError::with(code, kind.name(), detail))
}
