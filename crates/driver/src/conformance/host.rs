//! Page-locked host memory.

use super::{D, MIB, Subject, code};
use crate::{Code, HostFlags};

super::listed![
    page_locked_memory_is_memory_of_the_host,
    memory_of_the_callers_can_be_locked_once,
    what_was_not_allocated_or_locked_is_an_error,
    pageable_memory_can_be_touched_and_copied_from,
];

const FLAGS: HostFlags = HostFlags { portable: true, device_map: false };

fn page_locked_memory_is_memory_of_the_host(subject: &Subject<'_>) {
    let (first, second) =
        (subject.driver.host_alloc(MIB, FLAGS).unwrap(), subject.driver.host_alloc(10, FLAGS).unwrap());
    assert!(second + 10 <= first || first + MIB <= second, "{first:#x} and {second:#x} overlap");
    (subject.write)(second, b"mill pond!");
    assert_eq!((subject.read)(second, 10), b"mill pond!");
    subject.driver.host_free(first).unwrap();
    subject.driver.host_free(second).unwrap();
}

fn memory_of_the_callers_can_be_locked_once(subject: &Subject<'_>) {
    let driver = subject.driver;
    let addr = driver.host_malloc(MIB).unwrap();
    driver.host_register(addr, MIB, FLAGS).unwrap();
    assert_eq!(code(subject, driver.host_register(addr, MIB, FLAGS)), Code::ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    driver.host_unregister(addr).unwrap();
    driver.host_register(addr, MIB, FLAGS).unwrap();
    driver.host_unregister(addr).unwrap();
    driver.host_malloc_free(addr).unwrap();
}

fn what_was_not_allocated_or_locked_is_an_error(subject: &Subject<'_>) {
    let driver = subject.driver;
    let addr = driver.host_malloc(MIB).unwrap();
    assert_eq!(code(subject, driver.host_unregister(addr)), Code::ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_eq!(code(subject, driver.host_free(addr)), Code::ERROR_INVALID_VALUE);
    assert_eq!(code(subject, driver.host_touch(addr, MIB + 1)), Code::ERROR_INVALID_VALUE);
    driver.host_malloc_free(addr).unwrap();
    assert_eq!(code(subject, driver.host_malloc_free(addr)), Code::ERROR_INVALID_VALUE);
    assert_eq!(code(subject, driver.host_alloc(0, FLAGS)), Code::ERROR_INVALID_VALUE);
}

fn pageable_memory_can_be_touched_and_copied_from(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (host, device) = (driver.host_malloc(MIB).unwrap(), driver.mem_alloc(D, MIB).unwrap());
    driver.host_touch(host, MIB).unwrap();
    (subject.write)(host + 4096, b"grain");
    let stream = driver.stream_create(D).unwrap();
    driver.memcpy_async(device, host, MIB, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    assert_eq!(subject.device_bytes(device + 4096, 5), b"grain");
    driver.stream_destroy(stream).unwrap();
    driver.mem_free(D, device).unwrap();
    driver.host_malloc_free(host).unwrap();
}
