//! Streams and events.

use super::{D, MIB, Subject};
use crate::Stream;

super::listed![
    an_event_that_was_never_recorded_is_complete,
    an_event_is_complete_once_somebody_waited_for_its_stream,
    waiting_for_an_event_completes_it,
    work_behind_a_wait_sees_the_work_before_the_event,
    every_device_has_default_streams,
    an_event_can_be_recorded_again,
];

fn an_event_that_was_never_recorded_is_complete(subject: &Subject<'_>) {
    let event = subject.driver.event_create(D).unwrap();
    assert_eq!(subject.driver.event_query(event), Ok(true));
    subject.driver.event_synchronize(event).unwrap();
    subject.driver.event_destroy(event).unwrap();
}

fn an_event_is_complete_once_somebody_waited_for_its_stream(subject: &Subject<'_>) {
    let driver = subject.driver;
    let stream = driver.stream_create(D).unwrap();
    let event = driver.event_create(D).unwrap();
    driver.event_record(event, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    assert_eq!(driver.event_query(event), Ok(true));
    driver.event_record(event, stream).unwrap();
    driver.device_synchronize(D).unwrap();
    assert_eq!(driver.event_query(event), Ok(true));
    driver.event_destroy(event).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn waiting_for_an_event_completes_it(subject: &Subject<'_>) {
    let driver = subject.driver;
    let stream = driver.stream_create(D).unwrap();
    let event = driver.event_create(D).unwrap();
    let addr = driver.mem_alloc(D, 64 * MIB).unwrap();
    driver.memset_async(addr, 1, 64 * MIB, stream).unwrap();
    driver.event_record(event, stream).unwrap();
    driver.event_synchronize(event).unwrap();
    assert_eq!(driver.event_query(event), Ok(true));
    driver.mem_free(D, addr).unwrap();
    driver.event_destroy(event).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn work_behind_a_wait_sees_the_work_before_the_event(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (producer, consumer) = (driver.stream_create(D).unwrap(), driver.stream_create(D).unwrap());
    let (from, to) = (driver.mem_alloc(D, 64 * MIB).unwrap(), driver.mem_alloc(D, 64 * MIB).unwrap());
    let event = driver.event_create(D).unwrap();
    for value in 1..5 {
        driver.memset_async(from, value, 64 * MIB, producer).unwrap();
        driver.event_record(event, producer).unwrap();
        driver.stream_wait_event(consumer, event).unwrap();
        driver.memcpy_async(to, from, 64 * MIB, consumer).unwrap();
        driver.stream_synchronize(consumer).unwrap();
        assert_eq!(subject.device_bytes(to + 64 * MIB - 2, 2), [value; 2]);
    }
    driver.event_destroy(event).unwrap();
    driver.mem_free(D, from).unwrap();
    driver.mem_free(D, to).unwrap();
    driver.stream_destroy(producer).unwrap();
    driver.stream_destroy(consumer).unwrap();
}

fn every_device_has_default_streams(subject: &Subject<'_>) {
    let driver = subject.driver;
    let addr = driver.mem_alloc(D, 4096).unwrap();
    let event = driver.event_create(D).unwrap();
    let stream = Stream::default_of(D);
    driver.memset_async(addr, 8, 4096, stream).unwrap();
    driver.event_record(event, stream).unwrap();
    driver.event_synchronize(event).unwrap();
    assert_eq!(subject.device_bytes(addr, 2), [8; 2]);
    driver.event_destroy(event).unwrap();
    driver.mem_free(D, addr).unwrap();
}

fn an_event_can_be_recorded_again(subject: &Subject<'_>) {
    let driver = subject.driver;
    let (first, second) = (driver.stream_create(D).unwrap(), driver.stream_create(D).unwrap());
    let event = driver.event_create(D).unwrap();
    for stream in [first, second, first] {
        driver.event_record(event, stream).unwrap();
    }
    driver.event_synchronize(event).unwrap();
    assert_eq!(driver.event_query(event), Ok(true));
    driver.event_destroy(event).unwrap();
    driver.stream_destroy(first).unwrap();
    driver.stream_destroy(second).unwrap();
}
