//! Two devices and what one may do with the other's memory.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{DeviceConfig, Sim, SimConfig};

const G: u64 = 2 << 20;
const D0: Device = Device(0);
const D1: Device = Device(1);
const S1: Stream = Stream::default_of(D1);

fn sim() -> Arc<Sim> {
    Sim::new(SimConfig { devices: vec![DeviceConfig::default(); 2], backing: true, ..SimConfig::default() })
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().code
}

#[test]
fn plain_memory_of_a_peer_needs_peer_access_which_is_enabled_once() {
    let sim = sim();
    let addr = sim.mem_alloc(D0, G).unwrap();
    assert_eq!(code(sim.memset_async(addr, 1, 1, S1)), Code::ERROR_ILLEGAL_ADDRESS);
    assert_eq!(sim.can_access_peer(D1, D0), Ok(true));
    sim.enable_peer_access(D1, D0).unwrap();
    sim.memset_async(addr, 1, 1, S1).unwrap();
    assert_eq!(code(sim.enable_peer_access(D1, D0)), Code::ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_eq!(code(sim.enable_peer_access(D0, D0)), Code::ERROR_INVALID_DEVICE);
    assert_eq!(code(sim.can_access_peer(D0, Device(2))), Code::ERROR_INVALID_DEVICE);
}

#[test]
fn mapped_memory_needs_access_for_the_peer_and_a_link() {
    let sim = sim();
    let base = sim.mem_address_reserve(G, 0, 0).unwrap();
    let page = sim.mem_create(G, HandleProps::on(D0)).unwrap();
    sim.mem_map(base, G, 0, page).unwrap();
    sim.enable_peer_access(D1, D0).unwrap();
    assert_eq!(code(sim.memset_async(base, 1, 1, S1)), Code::ERROR_ILLEGAL_ADDRESS, "enabling concerns plain memory");
    sim.mem_set_access(base, G, Location::Device(D1), Access::ReadWrite).unwrap();
    sim.memset_async(base, 1, 1, S1).unwrap();
    sim.cut_peer_link(D1, D0);
    assert_eq!(sim.can_access_peer(D1, D0), Ok(false));
    assert_eq!(code(sim.mem_set_access(base, G, Location::Device(D1), Access::Read)), Code::ERROR_INVALID_VALUE);
    assert_eq!(code(sim.enable_peer_access(D1, D0)), Code::ERROR_INVALID_DEVICE);
}

#[test]
fn a_peer_copy_needs_no_access() {
    let sim = sim();
    let (from, to) = (sim.mem_alloc(D0, G).unwrap(), sim.mem_alloc(D1, G).unwrap());
    sim.write(from, b"across").unwrap();
    assert_eq!(code(sim.memcpy_async(to, from, 6, S1)), Code::ERROR_ILLEGAL_ADDRESS);
    sim.memcpy_peer_async(to, D1, from, D0, 6, S1).unwrap();
    assert_eq!(sim.read(to, 6).unwrap(), b"across");
    assert_eq!(code(sim.memcpy_peer_async(to, D0, from, D1, 6, S1)), Code::ERROR_ILLEGAL_ADDRESS, "the wrong devices");
}

#[test]
fn pools_have_access_of_their_own() {
    let sim = sim();
    let pool = sim.mem_pool_create(D0).unwrap();
    let addr = sim.mem_alloc_async(pool, G, Stream::default_of(D0)).unwrap();
    assert_eq!(code(sim.memset_async(addr, 1, 1, S1)), Code::ERROR_ILLEGAL_ADDRESS);
    sim.mem_pool_set_access(pool, D1, true).unwrap();
    sim.memset_async(addr, 1, 1, S1).unwrap();
    sim.mem_pool_set_access(pool, D1, false).unwrap();
    assert_eq!(code(sim.memset_async(addr, 1, 1, S1)), Code::ERROR_ILLEGAL_ADDRESS);
    assert_eq!(code(sim.mem_pool_set_access(pool, D0, false)), Code::ERROR_INVALID_DEVICE);
}

#[test]
fn each_device_has_its_own_memory_and_streams_but_addresses_are_shared() {
    let sim = sim();
    let first = sim.mem_alloc(D0, G).unwrap();
    assert_eq!(sim.mem_alloc(D1, G), Ok(first + G));
    assert_eq!(sim.mem_info(D1).unwrap().0, (80 << 30) - G);
    assert_eq!(sim.stream_create(D0), Ok(Stream::new(D0, 1)));
    assert_eq!(sim.stream_create(D1), Ok(Stream::new(D1, 1)));
    let event = sim.event_create(D0).unwrap();
    assert_eq!(code(sim.event_record(event, S1)), Code::ERROR_INVALID_HANDLE);
}
