//! Devices, abilities, versions, the clock.

use super::{D, Subject, code};
use crate::{Code, Device};

super::listed![a_device_says_what_it_is, there_is_no_device_beyond_the_last, the_clock_does_not_go_back];

fn a_device_says_what_it_is(subject: &Subject<'_>) {
    let driver = subject.driver;
    assert!(driver.device_count() >= 1);
    assert!(driver.driver_version() >= 11030, "{}", driver.driver_version());
    for device in (0..driver.device_count()).map(Device) {
        let caps = driver.caps(device).unwrap();
        assert!(!caps.name.is_empty());
        let (free, total) = driver.mem_info(device).unwrap();
        assert!(free <= total, "{free} of {total} bytes are free");
        assert!(total <= caps.total.0, "{total} bytes of {}", caps.total);
    }
}

fn there_is_no_device_beyond_the_last(subject: &Subject<'_>) {
    let beyond = Device(subject.driver.device_count());
    assert_eq!(code(subject, subject.driver.caps(beyond)), Code::ERROR_INVALID_DEVICE);
    assert_eq!(code(subject, subject.driver.mem_alloc(beyond, 512)), Code::ERROR_INVALID_DEVICE);
    assert_eq!(code(subject, subject.driver.stream_create(beyond)), Code::ERROR_INVALID_DEVICE);
}

fn the_clock_does_not_go_back(subject: &Subject<'_>) {
    let before = subject.driver.now_us();
    let addr = subject.driver.mem_alloc(D, 512).unwrap();
    subject.driver.mem_free(D, addr).unwrap();
    assert!(subject.driver.now_us() >= before);
}
