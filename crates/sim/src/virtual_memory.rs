//! Virtual memory management: reservations, handles, mappings and access, by the driver's rules.

use millpond_driver::{
    Access, Bytes, Code, Device, Granularity, Handle, HandleProps, HandleType, Location, Result, Shareable, Virtual,
};

use crate::backing::Store;
use crate::calls::CallKind;
use crate::mappings::{Granted, Mapping};
use crate::physical::{GRANULE, HandleState};
use crate::sim::{Sim, State, refuse};

const INVALID: Code = Code::ERROR_INVALID_VALUE;

impl Virtual for Sim {
    fn mem_address_reserve(&self, bytes: u64, align: u64, hint: u64) -> Result<u64> {
        self.call_for_address(CallKind::Reserve, bytes, |state| state.reserve(bytes, align, hint))
    }

    fn mem_address_free(&self, addr: u64, bytes: u64) -> Result<()> {
        self.call(CallKind::AddrFree, addr, bytes, |state| state.address_free(addr, bytes))
    }

    fn mem_create(&self, bytes: u64, props: HandleProps) -> Result<Handle> {
        self.call(CallKind::Create, 0, bytes, |state| state.create(bytes, props))
    }

    fn mem_release(&self, handle: Handle) -> Result<()> {
        let mut state = self.lock();
        let bytes = state.physical.handles.get(handle.0).map_or(0, |handle| handle.bytes);
        let result = state.enter(CallKind::Release).and_then(|()| {
            state.meter.charge(CallKind::Release, 1, bytes, 0);
            if state.physical.release(handle.0) {
                return Ok(());
            }
            refuse(
                CallKind::Release,
                INVALID,
                format!("handle {:#x} has no reference that could be released", handle.0),
            )
        });
        state.leave(CallKind::Release, 0, bytes, result.as_ref().err());
        result
    }

    fn mem_map(&self, addr: u64, bytes: u64, offset: u64, handle: Handle) -> Result<()> {
        self.call(CallKind::Map, addr, bytes, |state| state.map(addr, bytes, offset, handle))
    }

    fn mem_set_access(&self, addr: u64, bytes: u64, accessor: Location, access: Access) -> Result<()> {
        self.call(CallKind::SetAccess, addr, bytes, |state| state.set_access(addr, bytes, accessor, access))
    }

    fn mem_get_access(&self, addr: u64, accessor: Location) -> Result<Access> {
        self.call(CallKind::GetAccess, addr, 0, |state| match state.maps.mapping_at(addr) {
            Some((_, mapping)) => Ok(mapping.access_of(as_accessor(accessor))),
            None => refuse(CallKind::GetAccess, INVALID, format!("nothing is mapped at {addr:#x}")),
        })
    }

    fn mem_unmap(&self, addr: u64, bytes: u64) -> Result<()> {
        self.call(CallKind::Unmap, addr, bytes, |state| state.unmap(addr, bytes))
    }

    fn mem_granularity(&self, props: HandleProps, _which: Granularity) -> Result<u64> {
        self.call(CallKind::Granularity, 0, 0, |state| {
            state.check_props(CallKind::Granularity, props)?;
            Ok(GRANULE)
        })
    }

    fn mem_export(&self, handle: Handle, handle_type: HandleType) -> Result<Shareable> {
        self.call(CallKind::Export, 0, 0, |state| state.export(handle, handle_type))
    }

    fn mem_import(&self, shared: &Shareable, device: Device) -> Result<Handle> {
        self.call(CallKind::Import, 0, 0, |state| state.import(shared, device))
    }

    fn mem_retain(&self, addr: u64) -> Result<Handle> {
        self.call(CallKind::Retain, addr, 0, |state| {
            let Some((_, mapping)) = state.maps.mapping_at(addr) else {
                return refuse(CallKind::Retain, INVALID, format!("nothing is mapped at {addr:#x}"));
            };
            let id = mapping.handle;
            if let Some(handle) = state.physical.handles.get_mut(id) {
                handle.refs += 1;
            }
            Ok(Handle(id))
        })
    }

    fn mem_props(&self, handle: Handle) -> Result<HandleProps> {
        self.call(CallKind::Props, 0, 0, |state| match state.physical.handles.get(handle.0) {
            Some(handle) => Ok(handle.props),
            None => refuse(CallKind::Props, INVALID, format!("handle {:#x} does not exist", handle.0)),
        })
    }
}

impl State {
    fn reserve(&mut self, bytes: u64, align: u64, hint: u64) -> Result<u64> {
        const KIND: CallKind = CallKind::Reserve;
        if bytes == 0 || !bytes.is_multiple_of(GRANULE) {
            return refuse(KIND, INVALID, format!("{bytes} bytes is not a multiple of 2 MiB"));
        }
        if align != 0 && !align.is_power_of_two() {
            return refuse(KIND, INVALID, format!("the alignment {align} is not a power of two"));
        }
        self.meter.charge(KIND, 1, bytes, self.maps.granted.len() as u64);
        let Some(addr) = self.space.take(bytes, align.max(GRANULE), hint) else {
            return refuse(
                KIND,
                Code::ERROR_OUT_OF_MEMORY,
                format!("no {} of addresses in a row are free", Bytes(bytes)),
            );
        };
        self.maps.granted.insert(addr, Granted::Reservation { bytes });
        Ok(addr)
    }

    fn address_free(&mut self, addr: u64, bytes: u64) -> Result<()> {
        const KIND: CallKind = CallKind::AddrFree;
        match self.maps.granted.get(&addr) {
            Some(&Granted::Reservation { bytes: whole }) if whole == bytes => {}
            Some(&Granted::Reservation { bytes: whole }) => {
                let detail = format!("{} at {addr:#x} is part of a reservation of {}", Bytes(bytes), Bytes(whole));
                return refuse(KIND, INVALID, detail);
            }
            _ => return refuse(KIND, INVALID, format!("no reservation starts at {addr:#x}")),
        }
        if let Some((base, mapping)) = self.maps.overlapping(addr, bytes) {
            return refuse(KIND, INVALID, format!("{} are still mapped at {base:#x}", Bytes(mapping.bytes)));
        }
        self.meter.charge(KIND, 1, bytes, self.maps.granted.len() as u64);
        self.maps.granted.remove(&addr);
        self.space.give(addr, bytes);
        Ok(())
    }

    fn check_props(&self, kind: CallKind, props: HandleProps) -> Result<()> {
        // A handle on the host is checked against the first device, as nothing else has abilities.
        let device = match props.location {
            Location::Device(device) => device,
            Location::HostNuma(_) => Device(0),
            Location::Host => {
                return refuse(
                    kind,
                    INVALID,
                    "physical memory lies on a device or on a NUMA node, not on \"the host\"",
                );
            }
        };
        self.check_device(device, kind)?;
        let caps = &self.caps[device.0 as usize];
        if !caps.vmm {
            return refuse(kind, Code::ERROR_NOT_SUPPORTED, "the device has no virtual memory management");
        }
        if let Location::HostNuma(node) = props.location {
            if !caps.host_numa_vmm {
                return refuse(kind, Code::ERROR_NOT_SUPPORTED, "the device cannot map memory of the host");
            }
            if node as usize >= self.physical.nodes.len() {
                return refuse(kind, INVALID, format!("there is no NUMA node {node}"));
            }
        }
        match props.handle_type {
            HandleType::PosixFd if !caps.posix_fd => {
                refuse(kind, Code::ERROR_NOT_SUPPORTED, "the device exports no file descriptors")
            }
            HandleType::Fabric if !caps.fabric => {
                refuse(kind, Code::ERROR_NOT_PERMITTED, "the device exports no fabric handles")
            }
            _ if props.rdma && !caps.rdma_with_vmm => refuse(kind, INVALID, "the device has no RDMA to such memory"),
            _ => Ok(()),
        }
    }

    fn create(&mut self, bytes: u64, props: HandleProps) -> Result<Handle> {
        const KIND: CallKind = CallKind::Create;
        self.check_props(KIND, props)?;
        if bytes == 0 || !bytes.is_multiple_of(GRANULE) {
            return refuse(KIND, INVALID, format!("{bytes} bytes is not a multiple of 2 MiB"));
        }
        self.meter.charge(KIND, 1, bytes, self.maps.mapped.len() as u64);
        if !self.physical.room(props.location).is_some_and(|room| room.take(bytes)) {
            return refuse(KIND, Code::ERROR_OUT_OF_MEMORY, "");
        }
        let store = self.backing.then(Store::new);
        let handle = HandleState { bytes, props, refs: 1, maps: 0, foreign: false, store };
        Ok(Handle(self.physical.handles.insert(handle)))
    }

    fn map(&mut self, addr: u64, bytes: u64, offset: u64, handle: Handle) -> Result<()> {
        const KIND: CallKind = CallKind::Map;
        let Some(state) = self.physical.handles.get(handle.0).filter(|state| state.refs > 0) else {
            return refuse(KIND, INVALID, format!("handle {:#x} does not exist", handle.0));
        };
        if bytes == 0
            || !bytes.is_multiple_of(GRANULE)
            || !addr.is_multiple_of(GRANULE)
            || !offset.is_multiple_of(GRANULE)
        {
            let detail = format!("{bytes} bytes at {addr:#x}, offset {offset}, are not all multiples of 2 MiB");
            return refuse(KIND, INVALID, detail);
        }
        if offset != 0 && !self.map_offsets {
            return refuse(KIND, INVALID, format!("the offset is {offset}; the driver accepts only 0"));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > state.bytes) {
            let detail =
                format!("{} from offset {offset} is more than the handle has: {}", Bytes(bytes), Bytes(state.bytes));
            return refuse(KIND, INVALID, detail);
        }
        let inside = matches!(self.maps.granted_at(addr), Some((base, &Granted::Reservation { bytes: whole }))
            if bytes <= whole - (addr - base));
        if !inside {
            return refuse(KIND, INVALID, format!("{} at {addr:#x} is not inside a reservation", Bytes(bytes)));
        }
        if let Some((base, mapping)) = self.maps.overlapping(addr, bytes) {
            return refuse(KIND, INVALID, format!("{} are already mapped at {base:#x}", Bytes(mapping.bytes)));
        }
        if let Location::Device(device) = state.props.location
            && !self.caps[device.0 as usize].map_beside_kernels
        {
            self.wait_for_device(device);
        }
        self.meter.charge(KIND, 1, bytes, self.maps.mapped.len() as u64);
        if let Some(state) = self.physical.handles.get_mut(handle.0) {
            state.maps += 1;
        }
        self.maps.mapped.insert(addr, Mapping { bytes, handle: handle.0, offset, access: Vec::new() });
        Ok(())
    }

    fn set_access(&mut self, addr: u64, bytes: u64, accessor: Location, access: Access) -> Result<()> {
        const KIND: CallKind = CallKind::SetAccess;
        let accessor = as_accessor(accessor);
        if let Location::Device(device) = accessor {
            self.check_device(device, KIND)?;
        }
        if bytes == 0 {
            return refuse(KIND, INVALID, "0 bytes");
        }
        let count = match self.maps.whole(addr, bytes) {
            Ok(count) => count,
            Err(why) => return refuse(KIND, INVALID, why.to_string()),
        };
        for mapping in self.maps.mapped.range(addr..addr + bytes).map(|(_, mapping)| mapping) {
            let location = self.physical.handles.get(mapping.handle).map(|handle| handle.props.location);
            let Some(Location::Device(owner)) = location else { continue };
            match accessor {
                Location::Device(device) if device == owner || self.peers.can_access(device, owner) => {}
                Location::Device(device) => {
                    return refuse(KIND, INVALID, format!("{device} cannot reach memory of {owner}"));
                }
                Location::Host | Location::HostNuma(_) => {
                    return refuse(
                        KIND,
                        INVALID,
                        format!("the host is given access to its own memory, not to {owner}'s"),
                    );
                }
            }
        }
        self.meter.charge(KIND, count, bytes, self.maps.mapped.len() as u64);
        for (_, mapping) in self.maps.mapped.range_mut(addr..addr + bytes) {
            mapping.set_access(accessor, access);
        }
        Ok(())
    }

    fn unmap(&mut self, addr: u64, bytes: u64) -> Result<()> {
        const KIND: CallKind = CallKind::Unmap;
        if bytes == 0 {
            return refuse(KIND, INVALID, "0 bytes");
        }
        let count = match self.maps.whole(addr, bytes) {
            Ok(count) => count,
            Err(why) => return refuse(KIND, INVALID, why.to_string()),
        };
        self.meter.charge(KIND, count, bytes, self.maps.mapped.len() as u64);
        for _ in 0..count {
            let Some((&at, _)) = self.maps.mapped.range(addr..addr + bytes).next() else { break };
            let Some(mapping) = self.maps.mapped.remove(&at) else { break };
            let location = self.physical.handles.get(mapping.handle).map(|handle| handle.props.location);
            if let Some(Location::Device(device)) = location {
                self.implicit_sync(device);
            }
            self.physical.unmapped(mapping.handle);
        }
        Ok(())
    }
}

/// Who accesses. The host is one accessor: `cuMemSetAccess` does not look at the node that a location of the host names.
fn as_accessor(location: Location) -> Location {
    match location {
        Location::HostNuma(_) => Location::Host,
        Location::Device(_) | Location::Host => location,
    }
}
