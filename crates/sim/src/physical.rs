//! Physical memory: what each device and each NUMA node of the host has, and the handles to it.

use millpond_driver::{Bytes, Device, HandleProps, Location};

use crate::backing::Store;
use crate::config::DeviceConfig;
use crate::slab::Slab;

/// Physical memory comes in granules of 2 MiB.
pub(crate) const GRANULE: u64 = 2 << 20;

#[derive(Debug)]
pub(crate) struct Physical {
    pub devices: Vec<Room>,
    pub nodes: Vec<Room>,
    pub handles: Slab<HandleState>,
}

/// Memory with an end.
#[derive(Debug)]
pub(crate) struct Room {
    pub capacity: u64,
    /// Used by other processes.
    pub others: u64,
    /// Used by this process, whole granules.
    pub used: u64,
    /// The most that this process ever used.
    pub peak: u64,
}

impl Room {
    fn new(capacity: Bytes, others: Bytes) -> Self {
        Room { capacity: capacity.0, others: others.0, used: 0, peak: 0 }
    }

    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.others).saturating_sub(self.used)
    }

    pub fn take(&mut self, bytes: u64) -> bool {
        if bytes > self.free() {
            return false;
        }
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        true
    }

    pub fn give(&mut self, bytes: u64) {
        self.used -= bytes;
    }
}

/// A physical allocation. It lives as long as it has references or mappings.
#[derive(Debug)]
pub(crate) struct HandleState {
    pub bytes: u64,
    pub props: HandleProps,
    pub refs: u32,
    pub maps: u32,
    /// Made by another process, whose memory it is counted in.
    pub foreign: bool,
    pub store: Option<Store>,
}

impl Physical {
    pub fn new(devices: &[DeviceConfig], nodes: &[Bytes]) -> Self {
        Physical {
            devices: devices.iter().map(|device| Room::new(device.capacity, device.others)).collect(),
            nodes: nodes.iter().map(|&bytes| Room::new(bytes, Bytes(0))).collect(),
            handles: Slab::default(),
        }
    }

    pub fn device(&mut self, device: Device) -> Option<&mut Room> {
        self.devices.get_mut(device.0 as usize)
    }

    pub fn room(&mut self, location: Location) -> Option<&mut Room> {
        match location {
            Location::Device(device) => self.device(device),
            Location::HostNuma(node) => self.nodes.get_mut(node as usize),
            Location::Host => None,
        }
    }

    /// Drops one reference; false if there is none.
    pub fn release(&mut self, id: u64) -> bool {
        let Some(handle) = self.handles.get_mut(id).filter(|handle| handle.refs > 0) else { return false };
        handle.refs -= 1;
        self.bury(id);
        true
    }

    pub fn unmapped(&mut self, id: u64) {
        if let Some(handle) = self.handles.get_mut(id) {
            handle.maps -= 1;
            self.bury(id);
        }
    }

    fn bury(&mut self, id: u64) {
        let Some(handle) = self.handles.get(id) else { return };
        if handle.refs > 0 || handle.maps > 0 {
            return;
        }
        let (bytes, location, foreign) = (handle.bytes, handle.props.location, handle.foreign);
        self.handles.remove(id);
        if !foreign && let Some(room) = self.room(location) {
            room.give(bytes);
        }
    }
}
