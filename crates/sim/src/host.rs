//! Host memory: page-locked and pageable, in a range of addresses of its own.

use std::collections::BTreeMap;

use millpond_driver::{Bytes, Code, Host, HostFlags, Result};

use crate::address_space::AddressSpace;
use crate::backing::Store;
use crate::calls::CallKind;
use crate::config::Placement;
use crate::process::Process;
use crate::sim::{Sim, State, refuse};

/// The host's pages.
const PAGE: u64 = 4096;
/// Host memory lies here, below everything that a device allocates by default.
const BASE: u64 = 0x0800_0000_0000;
const END: u64 = 0x1000_0000_0000;

#[derive(Debug)]
pub(crate) struct HostMemory {
    space: AddressSpace,
    ranges: BTreeMap<u64, HostRange>,
    /// Page-locked memory that the caller owns: address → bytes.
    registered: BTreeMap<u64, u64>,
    /// Page-locked bytes, whole pages.
    locked: u64,
    /// The process, if its memory is the host's.
    pub process: Option<Process>,
}

#[derive(Debug)]
struct HostRange {
    asked: u64,
    bytes: u64,
    pinned: bool,
    /// Bytes of pages that were written to.
    touched: u64,
    store: Option<Store>,
}

impl Default for HostMemory {
    fn default() -> Self {
        HostMemory {
            space: AddressSpace::new(BASE, END, PAGE, &Placement::LowestFit),
            ranges: BTreeMap::new(),
            registered: BTreeMap::new(),
            locked: 0,
            process: None,
        }
    }
}

impl HostMemory {
    fn range_at(&self, addr: u64) -> Option<(u64, &HostRange)> {
        let (&base, range) = self.ranges.range(..=addr).next_back()?;
        (addr - base < range.asked).then_some((base, range))
    }

    fn registered_at(&self, addr: u64) -> Option<(u64, u64)> {
        let (&base, &bytes) = self.registered.range(..=addr).next_back()?;
        (addr - base < bytes).then_some((base, bytes))
    }

    /// The end of the host memory around `addr` that a device may use; copies also reach pageable memory.
    pub fn usable_up_to(&self, addr: u64, by_copy: bool) -> Option<u64> {
        if let Some((base, range)) = self.range_at(addr)
            && (range.pinned || by_copy)
        {
            return Some(base + range.asked);
        }
        let registered = self.registered_at(addr).map(|(base, bytes)| base + bytes);
        registered.or_else(|| self.process.as_ref().filter(|_| by_copy)?.end(addr))
    }

    /// New memory of `bytes`, whole pages.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        match &self.process {
            Some(process) => process.memory.alloc(bytes),
            None => self.space.take(bytes, 0, 0),
        }
    }

    fn give(&mut self, addr: u64, bytes: u64) {
        match &self.process {
            Some(process) => process.memory.free(addr, bytes),
            None => self.space.give(addr, bytes),
        }
    }

    /// The bytes at `addr`: their store, where in it, and how many follow.
    pub fn store_at(&mut self, addr: u64) -> Option<(&mut Store, u64, u64)> {
        if let Some(process) = &mut self.process {
            let end = process.end(addr)?;
            return Some((&mut process.store, addr, end - addr));
        }
        let (&base, range) = self.ranges.range_mut(..=addr).next_back()?;
        let offset = addr - base;
        (offset < range.asked).then_some(())?;
        Some((range.store.as_mut()?, offset, range.asked - offset))
    }
}

impl Sim {
    /// Page-locked bytes of the host, whole pages: allocated or registered.
    pub fn page_locked(&self) -> u64 {
        self.lock().host.locked
    }

    /// The page-locked memory around `addr`, allocated or registered: (address, bytes).
    pub fn page_locked_at(&self, addr: u64) -> Option<(u64, u64)> {
        let state = self.lock();
        let pinned = state.host.range_at(addr).filter(|(_, range)| range.pinned);
        pinned.map(|(base, range)| (base, range.asked)).or_else(|| state.host.registered_at(addr))
    }

    /// Bytes of the pageable memory at `addr` whose pages were touched ([`Host::host_touch`]); 0 if there is none.
    pub fn host_touched(&self, addr: u64) -> u64 {
        self.lock().host.range_at(addr).map_or(0, |(_, range)| range.touched)
    }
}

impl Host for Sim {
    fn host_alloc(&self, bytes: u64, _flags: HostFlags) -> Result<u64> {
        self.call_for_address(CallKind::HostAlloc, bytes, |state| state.host_alloc(CallKind::HostAlloc, bytes))
    }

    fn host_free(&self, addr: u64) -> Result<()> {
        self.call(CallKind::HostFree, addr, 0, |state| state.host_free(CallKind::HostFree, addr))
    }

    fn host_register(&self, addr: u64, bytes: u64, _flags: HostFlags) -> Result<()> {
        const KIND: CallKind = CallKind::HostRegister;
        self.call(KIND, addr, bytes, |state| {
            let Some(end) = addr.checked_add(bytes).filter(|_| addr != 0 && bytes != 0) else {
                return refuse(KIND, Code::ERROR_INVALID_VALUE, format!("{bytes} bytes at {addr:#x}"));
            };
            let host = &state.host;
            let before = host.registered.range(..end).next_back().filter(|&(&base, &bytes)| base + bytes > addr);
            let pinned = host
                .ranges
                .range(..end)
                .next_back()
                .filter(|(base, range)| range.pinned && **base + range.bytes > addr);
            if let Some(base) = before.map(|(&base, _)| base).or(pinned.map(|(&base, _)| base)) {
                let detail = format!("the memory at {base:#x} is page-locked already");
                return refuse(KIND, Code::ERROR_HOST_MEMORY_ALREADY_REGISTERED, detail);
            }
            let owned = host.ranges.range(..=addr).next_back().filter(|(base, range)| **base + range.bytes > addr);
            if let Some((&base, range)) = owned
                && end > base + range.bytes
            {
                return refuse(
                    KIND,
                    Code::ERROR_INVALID_VALUE,
                    format!("the memory at {base:#x} ends before {end:#x}"),
                );
            }
            let touched = owned.map_or(bytes, |(_, range)| range.touched.min(bytes));
            let locked = pages(addr, bytes);
            state.lock_pages(KIND, locked)?;
            // Pages that exist are locked much faster than pages that must be made first.
            state.meter.charge(KIND, (bytes - touched).div_ceil(PAGE), bytes, state.host.registered.len() as u64);
            state.host.registered.insert(addr, bytes);
            Ok(())
        })
    }

    fn host_unregister(&self, addr: u64) -> Result<()> {
        const KIND: CallKind = CallKind::HostUnregister;
        self.call(KIND, addr, 0, |state| match state.host.registered.remove(&addr) {
            Some(bytes) => {
                state.wait_for_all();
                state.meter.charge(KIND, 1, bytes, 0);
                state.host.locked -= pages(addr, bytes);
                Ok(())
            }
            None => {
                refuse(KIND, Code::ERROR_HOST_MEMORY_NOT_REGISTERED, format!("nothing was registered at {addr:#x}"))
            }
        })
    }

    fn host_malloc(&self, bytes: u64) -> Result<u64> {
        self.call_for_address(CallKind::HostMalloc, bytes, |state| state.host_alloc(CallKind::HostMalloc, bytes))
    }

    fn host_malloc_free(&self, addr: u64) -> Result<()> {
        self.call(CallKind::HostMallocFree, addr, 0, |state| state.host_free(CallKind::HostMallocFree, addr))
    }

    fn host_touch(&self, addr: u64, bytes: u64) -> Result<()> {
        const KIND: CallKind = CallKind::HostTouch;
        self.call(KIND, addr, bytes, |state| {
            let end = addr.checked_add(bytes);
            let range = state.host.ranges.range_mut(..=addr).next_back();
            match (range, end) {
                (Some((&base, range)), Some(end)) if end <= base + range.bytes => {
                    range.touched = range.touched.saturating_add(pages(addr, bytes)).min(range.bytes);
                    state.meter.charge(KIND, bytes.div_ceil(PAGE), bytes, 0);
                    Ok(())
                }
                _ => refuse(
                    KIND,
                    Code::ERROR_INVALID_VALUE,
                    format!("{bytes} bytes at {addr:#x} are not memory of the host"),
                ),
            }
        })
    }
}

/// The bytes of all pages that a range touches.
fn pages(addr: u64, bytes: u64) -> u64 {
    let end = addr.saturating_add(bytes).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    end - addr / PAGE * PAGE
}

impl State {
    fn lock_pages(&mut self, kind: CallKind, bytes: u64) -> Result<()> {
        match self.host.locked.checked_add(bytes) {
            Some(locked) if locked <= self.page_locked => {
                self.host.locked = locked;
                Ok(())
            }
            _ => {
                let limit = Bytes(self.page_locked);
                refuse(
                    kind,
                    Code::ERROR_OUT_OF_MEMORY,
                    format!("more than {limit} of host memory would be page-locked"),
                )
            }
        }
    }

    fn host_alloc(&mut self, kind: CallKind, asked: u64) -> Result<u64> {
        let pinned = kind == CallKind::HostAlloc;
        if pinned {
            self.forbid_during_capture(kind)?;
        }
        if asked == 0 {
            return refuse(kind, Code::ERROR_INVALID_VALUE, "0 bytes");
        }
        let Some(bytes) = self.host.space.round(asked) else { return refuse(kind, Code::ERROR_OUT_OF_MEMORY, "") };
        if pinned {
            self.wait_for_all();
            self.lock_pages(kind, bytes)?;
        }
        self.meter.charge(kind, bytes.div_ceil(PAGE), bytes, self.host.ranges.len() as u64);
        let Some(addr) = self.host.take(bytes) else {
            if pinned {
                self.host.locked -= bytes;
            }
            return refuse(kind, Code::ERROR_OUT_OF_MEMORY, "the host has no addresses left");
        };
        let store = (self.backing && self.host.process.is_none()).then(Store::new);
        self.host.ranges.insert(addr, HostRange { asked, bytes, pinned, touched: 0, store });
        Ok(addr)
    }

    fn host_free(&mut self, kind: CallKind, addr: u64) -> Result<()> {
        let pinned = kind == CallKind::HostFree;
        let Some(bytes) = self.host.ranges.get(&addr).filter(|range| range.pinned == pinned).map(|range| range.bytes)
        else {
            return refuse(kind, Code::ERROR_INVALID_VALUE, format!("no such memory of the host starts at {addr:#x}"));
        };
        if pinned {
            self.forbid_during_capture(kind)?;
            self.wait_for_all();
            self.host.locked -= bytes;
        } else if let Some((&base, _)) = self.host.registered.range(addr..addr + bytes).next() {
            return refuse(kind, Code::ERROR_INVALID_VALUE, format!("the memory at {base:#x} is still registered"));
        }
        self.meter.charge(kind, bytes.div_ceil(PAGE), bytes, self.host.ranges.len() as u64);
        self.host.ranges.remove(&addr);
        self.host.give(addr, bytes);
        Ok(())
    }

    /// What page-locking and its end wait for on a real driver: the work of all devices.
    fn wait_for_all(&mut self) {
        for device in 0..self.device_count {
            self.wait_for_device(millpond_driver::Device(device));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SimConfig;
    use std::sync::Arc;

    const F: HostFlags = HostFlags { portable: true, device_map: false };

    fn sim(pages: u64) -> Arc<Sim> {
        Sim::new(SimConfig { page_locked: Bytes(pages * PAGE), ..SimConfig::default() })
    }

    fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
        result.unwrap_err().code
    }

    #[test]
    fn page_locked_memory_has_a_limit_and_is_counted_in_pages() {
        let sim = sim(4);
        let first = sim.host_alloc(1, F).unwrap();
        assert_eq!((first, sim.page_locked()), (BASE, PAGE));
        assert_eq!(code(sim.host_alloc(3 * PAGE + 1, F)), Code::ERROR_OUT_OF_MEMORY);
        assert_eq!(code(sim.host_alloc(0, F)), Code::ERROR_INVALID_VALUE);
        sim.host_free(first).unwrap();
        assert_eq!(sim.page_locked(), 0);
        assert_eq!(code(sim.host_free(first)), Code::ERROR_INVALID_VALUE);
    }

    #[test]
    fn registering_twice_or_over_pinned_memory_is_already_registered() {
        let sim = sim(64);
        let pageable = sim.host_malloc(4 * PAGE).unwrap();
        sim.host_register(pageable, 2 * PAGE, F).unwrap();
        assert_eq!(sim.page_locked(), 2 * PAGE);
        for (addr, bytes) in [(pageable, PAGE), (pageable + PAGE, 2 * PAGE)] {
            assert_eq!(code(sim.host_register(addr, bytes, F)), Code::ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        sim.host_register(pageable + 2 * PAGE, PAGE, F).unwrap();
        assert_eq!(code(sim.host_unregister(pageable + PAGE)), Code::ERROR_HOST_MEMORY_NOT_REGISTERED);
        assert_eq!(code(sim.host_malloc_free(pageable)), Code::ERROR_INVALID_VALUE, "still registered");
        sim.host_unregister(pageable).unwrap();
        sim.host_unregister(pageable + 2 * PAGE).unwrap();
        sim.host_malloc_free(pageable).unwrap();
        let pinned = sim.host_alloc(PAGE, F).unwrap();
        assert_eq!(code(sim.host_register(pinned, PAGE, F)), Code::ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        assert_eq!(
            code(sim.host_malloc_free(pinned)),
            Code::ERROR_INVALID_VALUE,
            "pinned memory is freed by host_free"
        );
        sim.host_register(0x7fff_0000_1000, 1, F).unwrap();
        assert_eq!(sim.page_locked(), 2 * PAGE, "memory of the process itself can be registered too");
    }

    #[test]
    fn touching_counts_pages_and_stays_inside_of_the_memory() {
        let sim = sim(64);
        let addr = sim.host_malloc(3 * PAGE).unwrap();
        sim.host_touch(addr, PAGE + 1).unwrap();
        assert_eq!(sim.host_touched(addr), 2 * PAGE);
        assert_eq!(code(sim.host_touch(addr, 4 * PAGE)), Code::ERROR_INVALID_VALUE);
        assert_eq!(code(sim.host_touch(addr - 1, 1)), Code::ERROR_INVALID_VALUE);
    }

    #[test]
    fn c71_a_failed_page_lock_leaves_the_last_error_until_it_is_taken() {
        use millpond_driver::Status;
        let sim = sim(1);
        assert_eq!(code(sim.host_alloc(2 * PAGE, F)), Code::ERROR_OUT_OF_MEMORY);
        assert_eq!(sim.peek_last_error(), Some(Code::ERROR_OUT_OF_MEMORY));
        assert_eq!(sim.take_last_error(), Some(Code::ERROR_OUT_OF_MEMORY));
        assert_eq!(sim.take_last_error(), None);
    }
}
