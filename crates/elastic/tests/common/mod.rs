//! What the tests of this crate share: a machine, and a ledger of what its log says is held.
#![allow(dead_code)]

pub mod meeting;

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_driver::{Bytes, Code, Device, Memory, Stream};
use millpond_sim::{CallKind, DeviceConfig, FaultRule, Sim, SimConfig};

pub const MIB: u64 = 1 << 20;
pub const PAGE: u64 = 2 * MIB;
pub const D: Device = Device(0);
pub const PEER: Device = Device(1);
pub const STREAM: Stream = Stream::new(D, 0x101);

/// Two devices of `mib` MiB with real bytes and a log.
pub fn machine(mib: u64) -> SimConfig {
    SimConfig {
        devices: vec![DeviceConfig::with_capacity(Bytes(mib * MIB)); 2],
        backing: true,
        log: true,
        ..SimConfig::default()
    }
}

/// Bytes that say where they belong.
pub fn pattern(seed: u64) -> Vec<u8> {
    (0..64u64).map(|i| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 57)) as u8).collect()
}

/// Marks a page at its start and at its end.
pub fn mark(sim: &Sim, addr: u64, page: u64, seed: u64) {
    sim.write(addr, &pattern(seed)).unwrap();
    sim.write(addr + page - 64, &pattern(!seed)).unwrap();
}

/// Whether a page still has its marks.
pub fn is_marked(sim: &Sim, addr: u64, page: u64, seed: u64) -> bool {
    sim.read(addr, 64).unwrap() == pattern(seed) && sim.read(addr + page - 64, 64).unwrap() == pattern(!seed)
}

/// What is held, by the log of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Reservations: address to bytes.
    pub reserved: BTreeMap<u64, u64>,
    /// Mappings: address to bytes.
    pub mapped: BTreeMap<u64, u64>,
    /// References to handles.
    pub handles: i64,
    /// Plain memory of other processes, openings of each address.
    pub opened: BTreeMap<u64, u32>,
    /// Page-locked bytes of the host that are in use or cached.
    pub device_free: u64,
}

/// Follows the log.
#[derive(Default)]
pub struct Ledger(Held);

impl Ledger {
    /// What is held now.
    pub fn held(&mut self, sim: &Sim) -> Held {
        let held = &mut self.0;
        for call in sim.take_log().into_iter().filter(|call| call.code.is_none()) {
            match call.kind {
                CallKind::Reserve => drop(held.reserved.insert(call.addr, call.size)),
                CallKind::AddrFree => drop(held.reserved.remove(&call.addr)),
                CallKind::Create | CallKind::Import | CallKind::Retain => held.handles += 1,
                CallKind::Release => held.handles -= 1,
                CallKind::Map => drop(held.mapped.insert(call.addr, call.size)),
                CallKind::Unmap => held.mapped.retain(|&addr, _| !(call.addr..call.addr + call.size).contains(&addr)),
                CallKind::IpcOpen => *held.opened.entry(call.addr).or_default() += 1,
                CallKind::IpcClose => {
                    *held.opened.entry(call.addr).or_default() -= 1;
                    held.opened.retain(|_, times| *times > 0);
                }
                _ => {}
            }
        }
        held.device_free = sim.mem_info(D).unwrap().0;
        held.clone()
    }
}

/// Makes every driver call of an operation fail once, in turn. After each failure as much is held as before, the state is as
/// before, and the operation succeeds when it is tried again; at the end nothing is held. Returns how many calls were tried.
pub fn sweep<T, E: std::fmt::Debug>(
    config: &SimConfig,
    setup: impl Fn(&Arc<Sim>) -> T,
    operation: impl Fn(&mut T) -> Result<(), E>,
    unchanged: impl Fn(&Sim, &mut T),
) -> u64 {
    let nothing = Ledger::default().held(&Sim::new(config.clone()));
    for index in 0.. {
        let sim = Sim::new(config.clone());
        let mut ledger = Ledger::default();
        let mut subject = setup(&sim);
        let before = ledger.held(&sim);
        sim.fail(FaultRule::at(sim.calls_made() + index, Code::ERROR_UNKNOWN));
        let outcome = operation(&mut subject);
        let was_hit = sim.faults_injected() > 0;
        sim.clear_faults();
        match outcome {
            Err(error) => {
                assert!(was_hit, "{error:?}");
                assert_eq!(ledger.held(&sim), before, "after call {index} failed: {error:?}");
                unchanged(&sim, &mut subject);
                operation(&mut subject).unwrap();
            }
            Ok(()) if !was_hit => {
                assert!(index > 0, "the operation makes calls");
                return index;
            }
            Ok(()) => {}
        }
        drop(subject);
        let left = ledger.held(&sim);
        assert_eq!(left, nothing, "after call {index} failed and everything was dropped");
    }
    unreachable!("an operation ends")
}
