//! Several devices.

use super::{D, MIB, Subject, code};
use crate::{Access, Code, Device, Granularity, HandleProps, Location};

super::listed![devices_have_memory_of_their_own, peer_access_is_enabled_once, a_handle_can_be_mapped_for_a_peer];

const PEER: Device = Device(1);

/// Whether there is a second device that the first can reach.
fn connected(subject: &Subject<'_>) -> bool {
    subject.driver.device_count() > 1 && subject.driver.can_access_peer(D, PEER).unwrap()
}

fn devices_have_memory_of_their_own(subject: &Subject<'_>) {
    let driver = subject.driver;
    if driver.device_count() < 2 {
        return;
    }
    assert_eq!(driver.can_access_peer(D, D), Ok(false), "a device is not its own peer");
    let (own, other) = (driver.mem_alloc(D, MIB).unwrap(), driver.mem_alloc(PEER, MIB).unwrap());
    assert!(own.abs_diff(other) >= MIB, "one space of addresses");
    let stream = driver.stream_create(D).unwrap();
    subject.fill(own, 0x42, MIB);
    driver.memcpy_peer_async(other, PEER, own, D, MIB, stream).unwrap();
    driver.memset_async(own, 0, MIB, stream).unwrap();
    driver.memcpy_peer_async(own, D, other, PEER, MIB, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    assert_eq!(subject.device_bytes(own + MIB - 1, 1), [0x42]);
    driver.mem_free(D, own).unwrap();
    driver.mem_free(PEER, other).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn peer_access_is_enabled_once(subject: &Subject<'_>) {
    if connected(subject) {
        subject.driver.enable_peer_access(D, PEER).unwrap();
        let again = subject.driver.enable_peer_access(D, PEER);
        assert_eq!(code(subject, again), Code::ERROR_PEER_ACCESS_ALREADY_ENABLED);
    }
}

fn a_handle_can_be_mapped_for_a_peer(subject: &Subject<'_>) {
    let driver = subject.driver;
    if !connected(subject) || !driver.caps(PEER).unwrap().vmm {
        return;
    }
    let props = HandleProps::on(PEER);
    let page = driver.mem_granularity(props, Granularity::Minimum).unwrap();
    let base = driver.mem_address_reserve(page, 0, 0).unwrap();
    let handle = driver.mem_create(page, props).unwrap();
    driver.mem_map(base, page, 0, handle).unwrap();
    for device in [D, PEER] {
        driver.mem_set_access(base, page, Location::Device(device), Access::ReadWrite).unwrap();
        assert_eq!(driver.mem_get_access(base, Location::Device(device)), Ok(Access::ReadWrite));
    }
    subject.fill(base, 0x24, page);
    assert_eq!(subject.device_bytes(base, 2), [0x24; 2]);
    driver.mem_unmap(base, page).unwrap();
    driver.mem_release(handle).unwrap();
    driver.mem_address_free(base, page).unwrap();
}
