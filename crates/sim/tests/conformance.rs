//! The simulated device passes the suite that every driver passes.

use millpond_driver::conformance::{Subject, suite};
use millpond_driver::{Bytes, Device, Memory, Status};
use millpond_sim::{DeviceConfig, EventMode, Sim, SimConfig};

fn passes(change: impl FnOnce(&mut SimConfig)) {
    let mut config = SimConfig { backing: true, ..SimConfig::with_capacity(Bytes(4 << 30)) };
    change(&mut config);
    let sim = Sim::new(config);
    let subject = Subject {
        driver: &*sim,
        read: &|addr, len| sim.read(addr, len).unwrap(),
        write: &|addr, bytes| sim.write(addr, bytes).unwrap(),
    };
    assert!(suite(&subject) > 30);
    assert_eq!(left_behind(&sim), 0, "the suite leaves nothing behind");
}

fn left_behind(sim: &Sim) -> u64 {
    let uses = (0..sim.device_count()).filter_map(|device| sim.process_use(Device(device)));
    uses.flatten().map(|own| own.used.0).sum()
}

#[test]
fn with_events_that_complete_at_once() {
    passes(|_| {});
}

#[test]
fn with_events_that_complete_by_the_clock() {
    passes(|config| config.events = EventMode::Timed);
}

#[test]
fn with_events_that_complete_when_somebody_waits() {
    passes(|config| config.events = EventMode::Manual);
}

#[test]
fn with_two_devices() {
    passes(|config| config.devices = vec![DeviceConfig::with_capacity(Bytes(4 << 30)); 2]);
}

#[test]
fn with_a_device_that_is_able_to_do_little() {
    passes(|config| {
        let caps = &mut config.devices[0].caps;
        (caps.vmm, caps.pools, caps.managed, caps.posix_fd) = (false, false, false, false);
    });
}
