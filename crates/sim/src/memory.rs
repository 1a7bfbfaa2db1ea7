//! Plain device memory: `cuMemAlloc`, `cuMemFree` and questions about addresses.

use millpond_driver::{Bytes, Code, Device, Memory, ProcessUse, Result, Stream};

use crate::backing::Store;
use crate::calls::CallKind;
use crate::mappings::Granted;
use crate::sim::{Sim, State, refuse};
use crate::work::Copy;

impl Memory for Sim {
    fn mem_alloc(&self, device: Device, bytes: u64) -> Result<u64> {
        self.call_for_address(CallKind::Malloc, bytes, |state| state.malloc(CallKind::Malloc, device, bytes))
    }

    fn mem_free(&self, device: Device, addr: u64) -> Result<()> {
        self.call(CallKind::Free, addr, 0, |state| state.free(device, addr))
    }

    fn mem_info(&self, device: Device) -> Result<(u64, u64)> {
        self.call(CallKind::MemInfo, 0, 0, |state| {
            state.check_device(device, CallKind::MemInfo)?;
            let room = &state.physical.devices[device.0 as usize];
            Ok((room.free(), room.capacity))
        })
    }

    fn mem_alloc_managed(&self, device: Device, bytes: u64) -> Result<u64> {
        self.call_for_address(CallKind::MallocManaged, bytes, |state| {
            state.malloc(CallKind::MallocManaged, device, bytes)
        })
    }

    fn mem_address_range(&self, addr: u64) -> Result<(u64, u64)> {
        self.call(CallKind::AddressRange, addr, 0, |state| match state.maps.granted_at(addr) {
            Some((base, &(Granted::Malloc { asked, .. } | Granted::Opened { asked, .. }))) => Ok((base, asked)),
            Some((_, Granted::Chunk { .. })) => state.pool_allocation_at(addr),
            _ => match state.maps.mapping_at(addr) {
                Some((base, mapping)) => Ok((base, mapping.bytes)),
                None => {
                    refuse(CallKind::AddressRange, Code::ERROR_NOT_FOUND, format!("{addr:#x} is not in any allocation"))
                }
            },
        })
    }

    fn memcpy_async(&self, dst: u64, src: u64, bytes: u64, stream: Stream) -> Result<()> {
        self.call(CallKind::Memcpy, dst, bytes, |state| state.copy(CallKind::Memcpy, Copy { dst, src, bytes }, stream))
    }

    fn memset_async(&self, dst: u64, value: u8, bytes: u64, stream: Stream) -> Result<()> {
        self.call(CallKind::Memset, dst, bytes, |state| state.fill(dst, value, bytes, stream))
    }

    fn process_use(&self, device: Device) -> Option<Vec<ProcessUse>> {
        let pid = self.config().pid;
        let used = self.lock().physical.device(device)?.used;
        Some(vec![ProcessUse { pid, used: Bytes(used) }])
    }
}

impl State {
    fn malloc(&mut self, kind: CallKind, device: Device, asked: u64) -> Result<u64> {
        self.check_device(device, kind)?;
        self.forbid_during_capture(kind)?;
        self.wait_for_device(device);
        let managed = kind == CallKind::MallocManaged;
        if managed && !self.caps[device.0 as usize].managed {
            return refuse(kind, Code::ERROR_NOT_SUPPORTED, "the device has no managed memory");
        }
        if asked == 0 {
            return refuse(kind, Code::ERROR_INVALID_VALUE, "0 bytes");
        }
        self.meter.charge(kind, 1, asked, self.maps.granted.len() as u64);
        let no_room = || refuse(kind, Code::ERROR_OUT_OF_MEMORY, "");
        // Managed memory can live on the host, so a device never runs out of it.
        let Some(bytes) = self.space.round(asked) else { return no_room() };
        let room = &mut self.physical.devices[device.0 as usize];
        if !managed && !room.take(bytes) {
            return no_room();
        }
        let Some(addr) = self.space.take(bytes, 0, 0) else {
            if !managed {
                self.physical.devices[device.0 as usize].give(bytes);
            }
            return refuse(
                kind,
                Code::ERROR_OUT_OF_MEMORY,
                format!("no {} of addresses in a row are free", Bytes(bytes)),
            );
        };
        let store = self.backing.then(Store::new);
        self.maps.granted.insert(addr, Granted::Malloc { device, asked, bytes, managed, store });
        Ok(addr)
    }

    fn free(&mut self, device: Device, addr: u64) -> Result<()> {
        const KIND: CallKind = CallKind::Free;
        self.check_device(device, KIND)?;
        self.forbid_during_capture(KIND)?;
        let (owner, bytes, managed) = match self.maps.granted.get(&addr) {
            Some(&Granted::Malloc { device, bytes, managed, .. }) => (device, bytes, managed),
            Some(Granted::Opened { .. }) => {
                return refuse(
                    KIND,
                    Code::ERROR_INVALID_VALUE,
                    format!("{addr:#x} is memory of another process: cuIpcCloseMemHandle gives it back"),
                );
            }
            Some(Granted::Reservation { .. }) => {
                return refuse(
                    KIND,
                    Code::ERROR_INVALID_VALUE,
                    format!("{addr:#x} is a reservation: cuMemAddressFree gives it back"),
                );
            }
            _ => return self.free_pool_memory(device, addr),
        };
        self.implicit_sync(owner);
        self.meter.charge(KIND, 1, bytes, self.maps.granted.len() as u64);
        self.maps.granted.remove(&addr);
        self.space.give(addr, bytes);
        if !managed {
            self.physical.devices[owner.0 as usize].give(bytes);
        }
        Ok(())
    }

    /// What a call does that waits for the device's work on a real driver: the clock moves to the end of that work, and
    /// the host is ordered after it. No event completes by it in immediate and manual mode.
    pub fn implicit_sync(&mut self, device: Device) {
        self.wait_for_device(device);
        if let Some(clocks) = &mut self.clocks {
            for stream in self.streams.of_device(device) {
                if self.streams.at(stream).capture.is_none() {
                    clocks.host_joins_stream(stream);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SimConfig;

    const G: u64 = 2 << 20;
    const D: Device = Device(0);

    fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
        result.unwrap_err().code
    }

    #[test]
    fn capacity_counts_in_granules_and_others_have_a_share() {
        let mut config = SimConfig::with_capacity(Bytes(10 * G));
        config.devices[0].others = Bytes(3 * G);
        let sim = Sim::new(config);
        let first = sim.mem_alloc(D, 1).unwrap();
        assert_eq!(sim.mem_info(D), Ok((6 * G, 10 * G)));
        assert_eq!(sim.mem_alloc(D, 2 * G + 1), Ok(first + G));
        assert_eq!(sim.process_use(D).unwrap()[0].used, Bytes(4 * G));
        assert_eq!(code(sim.mem_alloc(D, 3 * G + 1)), Code::ERROR_OUT_OF_MEMORY);
        sim.mem_free(D, first).unwrap();
        assert_eq!(sim.mem_alloc(D, G), Ok(first), "a freed range is used again at once");
        assert_eq!(sim.peak_use(D), 4 * G);
        assert_eq!(sim.mem_address_range(first + 5), Ok((first, G)));
        assert_eq!(sim.mem_address_range(first + G + 2 * G), Ok((first + G, 2 * G + 1)));
    }

    #[test]
    fn the_share_of_others_can_grow_beyond_what_is_left() {
        let sim = Sim::new(SimConfig::with_capacity(Bytes(10 * G)));
        sim.mem_alloc(D, 6 * G).unwrap();
        sim.set_others(D, Bytes(7 * G));
        assert_eq!(sim.mem_info(D), Ok((0, 10 * G)));
        assert_eq!(code(sim.mem_alloc(D, 1)), Code::ERROR_OUT_OF_MEMORY);
        sim.set_others(D, Bytes(0));
        sim.mem_alloc(D, 4 * G).unwrap();
    }

    #[test]
    fn recorded_placement_follows_a_snapshots_segment_events() {
        use crate::config::{Placement, RecordedRange};
        use millpond_driver::Virtual;
        let recorded = [(0x7f00_0000_0000, 20), (0x7f00_0200_0200, 2), (0x7e00_0000_0000, 20)];
        let ranges = recorded.map(|(addr, mib)| RecordedRange { addr, size: Bytes(mib << 20) });
        let config = SimConfig { placement: Placement::Recorded(ranges.to_vec()), ..SimConfig::default() };
        let sim = Sim::new(config);
        assert_eq!(sim.mem_alloc(D, 20 << 20), Ok(0x7f00_0000_0000));
        assert_eq!(sim.mem_address_reserve(20 << 20, 0, 0), Ok(0x7e00_0000_0000));
        let reserved = sim.mem_address_reserve(2 << 20, 0, 0).unwrap();
        assert_eq!(reserved, 0x2000_0000_0000, "a reservation must be aligned");
        assert_eq!(sim.mem_alloc(D, 2 << 20), Ok(0x7f00_0200_0200));
        assert_eq!(sim.mem_alloc(D, 2 << 20), Ok(reserved + G));
        sim.place_next(0x6000_0000_0000);
        assert_eq!(sim.mem_alloc(D, 20 << 20), Ok(0x6000_0000_0000));
    }

    #[test]
    fn a_clock_at_its_end_stays_there() {
        use millpond_driver::Status;
        let sim = Sim::new(SimConfig::default());
        sim.advance_clock(u64::MAX);
        sim.mem_alloc(D, 1).unwrap();
        assert_eq!(sim.now_us(), u64::MAX / 1000);
    }

    #[test]
    fn bad_arguments_are_errors_with_cudas_codes() {
        let sim = Sim::new(SimConfig::with_capacity(Bytes(10 * G)));
        assert_eq!(code(sim.mem_alloc(D, 0)), Code::ERROR_INVALID_VALUE);
        assert_eq!(code(sim.mem_alloc(Device(1), 1)), Code::ERROR_INVALID_DEVICE);
        assert_eq!(code(sim.mem_alloc(D, u64::MAX)), Code::ERROR_OUT_OF_MEMORY);
        let addr = sim.mem_alloc(D, G).unwrap();
        assert_eq!(code(sim.mem_free(D, addr + 512)), Code::ERROR_INVALID_VALUE);
        sim.mem_free(D, addr).unwrap();
        assert_eq!(code(sim.mem_free(D, addr)), Code::ERROR_INVALID_VALUE);
        assert_eq!(code(sim.mem_address_range(addr)), Code::ERROR_NOT_FOUND);
        assert_eq!(sim.process_use(Device(7)), None);
    }

    #[test]
    fn managed_memory_takes_addresses_but_no_device_memory() {
        let sim = Sim::new(SimConfig::with_capacity(Bytes(G)));
        let addr = sim.mem_alloc_managed(D, 5 * G).unwrap();
        assert_eq!(sim.mem_info(D), Ok((G, G)));
        assert_eq!(sim.mem_alloc(D, G), Ok(addr + 6 * G - G));
        sim.mem_free(D, addr).unwrap();
        assert_eq!(sim.mem_info(D), Ok((0, G)));
    }
}
