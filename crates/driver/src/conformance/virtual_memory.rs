//! Virtual memory management.

use super::{D, Subject, code};
use crate::{Access, Code, Driver, Granularity, Handle, HandleProps, HandleType, Location};

super::listed![
    a_mapped_handle_is_memory,
    two_mappings_of_a_handle_show_the_same_bytes,
    bytes_stay_with_the_handle_when_it_is_mapped_elsewhere,
    a_handle_that_is_released_lives_until_it_is_unmapped,
    physical_memory_counts_when_it_is_created,
    what_is_not_whole_or_not_free_is_an_error,
    access_is_what_was_set,
    the_host_is_given_access_to_its_own_memory_alone,
    a_retained_handle_is_the_same_and_keeps_its_properties,
    an_exported_handle_is_the_same_memory,
];

const ON: HandleProps = HandleProps::on(D);
const GPU: Location = Location::Device(D);
const INVALID: Code = Code::ERROR_INVALID_VALUE;

/// The granularity, where the device has virtual memory management.
fn granule(driver: &dyn Driver) -> Option<u64> {
    driver.caps(D).unwrap().vmm.then(|| driver.mem_granularity(ON, Granularity::Minimum).unwrap())
}

/// A reservation of `pages` with one handle of one page mapped at its start, to be used by the device.
fn mapped(driver: &dyn Driver, page: u64, pages: u64) -> (u64, Handle) {
    let base = driver.mem_address_reserve(pages * page, 0, 0).unwrap();
    let handle = driver.mem_create(page, ON).unwrap();
    map(driver, base, page, handle);
    (base, handle)
}

fn map(driver: &dyn Driver, addr: u64, page: u64, handle: Handle) {
    driver.mem_map(addr, page, 0, handle).unwrap();
    driver.mem_set_access(addr, page, GPU, Access::ReadWrite).unwrap();
}

fn a_mapped_handle_is_memory(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    assert!(page.is_power_of_two());
    let (base, handle) = mapped(driver, page, 4);
    assert!(base.is_multiple_of(page), "{base:#x}");
    subject.fill(base, 0x5a, page);
    assert_eq!(subject.device_bytes(base + page - 3, 3), [0x5a; 3]);
    driver.mem_unmap(base, page).unwrap();
    driver.mem_release(handle).unwrap();
    driver.mem_address_free(base, 4 * page).unwrap();
}

fn two_mappings_of_a_handle_show_the_same_bytes(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    let (base, handle) = mapped(driver, page, 4);
    map(driver, base + 2 * page, page, handle);
    subject.fill(base, 1, page);
    subject.fill(base + 2 * page + 100, 2, 50);
    let found = subject.device_bytes(base + 99, 52);
    assert_eq!((found[0], &found[1..51], found[51]), (1, &[2; 50][..], 1));
    driver.mem_unmap(base, page).unwrap();
    driver.mem_unmap(base + 2 * page, page).unwrap();
    driver.mem_release(handle).unwrap();
    driver.mem_address_free(base, 4 * page).unwrap();
}

fn bytes_stay_with_the_handle_when_it_is_mapped_elsewhere(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    let (base, handle) = mapped(driver, page, 4);
    subject.fill(base, 77, page);
    driver.mem_unmap(base, page).unwrap();
    map(driver, base + 3 * page, page, handle);
    assert_eq!(subject.device_bytes(base + 3 * page + 1000, 8), [77; 8]);
    driver.mem_unmap(base + 3 * page, page).unwrap();
    driver.mem_release(handle).unwrap();
    driver.mem_address_free(base, 4 * page).unwrap();
}

fn a_handle_that_is_released_lives_until_it_is_unmapped(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    let (base, handle) = mapped(driver, page, 1);
    driver.mem_release(handle).unwrap();
    subject.fill(base, 3, page);
    assert_eq!(subject.device_bytes(base, 4), [3; 4]);
    driver.mem_unmap(base, page).unwrap();
    driver.mem_address_free(base, page).unwrap();
}

fn physical_memory_counts_when_it_is_created(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    let bytes = 64 * page;
    let (before, total) = driver.mem_info(D).unwrap();
    let base = driver.mem_address_reserve(total.next_multiple_of(page) * 4, 0, 0).unwrap();
    let reserved = driver.mem_info(D).unwrap().0;
    let handle = driver.mem_create(bytes, ON).unwrap();
    let created = driver.mem_info(D).unwrap().0;
    driver.mem_release(handle).unwrap();
    driver.mem_address_free(base, total.next_multiple_of(page) * 4).unwrap();
    assert!(before - reserved < page, "addresses are no memory: {before} free, then {reserved}");
    assert!(reserved - created >= bytes, "{reserved} free, with {bytes} bytes created {created}");
    assert_eq!(code(subject, driver.mem_create(total.next_multiple_of(page) * 2, ON)), Code::ERROR_OUT_OF_MEMORY);
}

fn what_is_not_whole_or_not_free_is_an_error(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    assert_eq!(code(subject, driver.mem_create(page + 1, ON)), INVALID);
    assert_eq!(code(subject, driver.mem_address_reserve(page + 1, 0, 0)), INVALID);
    let (base, handle) = mapped(driver, page, 4);
    assert_eq!(code(subject, driver.mem_map(base, page, 0, handle)), INVALID, "mapped already");
    assert_eq!(code(subject, driver.mem_map(base + page, 2 * page, 0, handle)), INVALID, "more than the handle has");
    assert_eq!(code(subject, driver.mem_map(base + 3 * page, 2 * page, 0, handle)), INVALID, "outside");
    assert_eq!(code(subject, driver.mem_address_free(base, 4 * page)), INVALID, "something is mapped");
    driver.mem_unmap(base, page).unwrap();
    assert_eq!(code(subject, driver.mem_unmap(base, page)), INVALID, "nothing is mapped");
    driver.mem_address_free(base, 4 * page).unwrap();
    driver.mem_release(handle).unwrap();
    assert!(driver.mem_release(handle).is_err(), "released twice");
}

fn access_is_what_was_set(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    let (base, handle) = mapped(driver, page, 1);
    assert_eq!(driver.mem_get_access(base, GPU), Ok(Access::ReadWrite));
    driver.mem_set_access(base, page, GPU, Access::Read).unwrap();
    assert_eq!(driver.mem_get_access(base, GPU), Ok(Access::Read));
    driver.mem_unmap(base, page).unwrap();
    driver.mem_release(handle).unwrap();
    assert!(driver.mem_set_access(base, page, GPU, Access::ReadWrite).is_err(), "nothing is mapped");
    driver.mem_address_free(base, page).unwrap();
}

fn the_host_is_given_access_to_its_own_memory_alone(subject: &Subject<'_>) {
    let driver = subject.driver;
    let caps = driver.caps(D).unwrap();
    let Some(node) = caps.host_numa.filter(|_| caps.vmm && caps.host_numa_vmm) else { return };
    let on_host = HandleProps { location: Location::HostNuma(node), ..ON };
    let page = [ON, on_host].map(|props| driver.mem_granularity(props, Granularity::Recommended).unwrap());
    let page = page[0].max(page[1]);
    let base = driver.mem_address_reserve(2 * page, 0, 0).unwrap();
    let [device, host] = [ON, on_host].map(|props| driver.mem_create(page, props).unwrap());
    map(driver, base, page, host);
    map(driver, base + page, page, device);
    driver.mem_set_access(base, page, Location::Host, Access::ReadWrite).unwrap();
    assert_eq!(driver.mem_get_access(base, Location::Host), Ok(Access::ReadWrite));
    subject.fill(base, 0x3c, page);
    assert_eq!(subject.device_bytes(base + page - 4, 4), [0x3c; 4]);
    code(subject, driver.mem_set_access(base + page, page, Location::Host, Access::ReadWrite));
    for (addr, handle) in [(base, host), (base + page, device)] {
        driver.mem_unmap(addr, page).unwrap();
        driver.mem_release(handle).unwrap();
    }
    driver.mem_address_free(base, 2 * page).unwrap();
}

fn a_retained_handle_is_the_same_and_keeps_its_properties(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver) else { return };
    let (base, handle) = mapped(driver, page, 1);
    driver.mem_release(handle).unwrap();
    let again = driver.mem_retain(base).unwrap();
    assert_eq!(driver.mem_props(again).unwrap().location, GPU);
    driver.mem_unmap(base, page).unwrap();
    map(driver, base, page, again);
    driver.mem_unmap(base, page).unwrap();
    driver.mem_release(again).unwrap();
    driver.mem_address_free(base, page).unwrap();
}

fn an_exported_handle_is_the_same_memory(subject: &Subject<'_>) {
    let driver = subject.driver;
    let Some(page) = granule(driver).filter(|_| driver.caps(D).unwrap().posix_fd) else { return };
    let props = HandleProps { handle_type: HandleType::PosixFd, ..ON };
    let base = driver.mem_address_reserve(2 * page, 0, 0).unwrap();
    let handle = driver.mem_create(page, props).unwrap();
    map(driver, base, page, handle);
    subject.fill(base, 0x11, page);
    let shared = driver.mem_export(handle, HandleType::PosixFd).unwrap();
    let imported = driver.mem_import(&shared, D).unwrap();
    drop(shared);
    map(driver, base + page, page, imported);
    assert_eq!(subject.device_bytes(base + page, 4), [0x11; 4], "what was written before");
    subject.fill(base + page, 0x22, 4);
    assert_eq!(subject.device_bytes(base, 4), [0x22; 4], "what was written after");
    driver.mem_unmap(base, page).unwrap();
    driver.mem_unmap(base + page, page).unwrap();
    driver.mem_release(handle).unwrap();
    driver.mem_release(imported).unwrap();
    driver.mem_address_free(base, 2 * page).unwrap();
}
