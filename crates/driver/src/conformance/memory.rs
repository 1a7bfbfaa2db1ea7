//! Plain memory, copies and fills, the last error.

use super::{D, MIB, Subject, code};
use crate::{Code, HostFlags};

super::listed![
    allocations_are_aligned_and_do_not_overlap,
    an_address_inside_of_an_allocation_finds_it,
    memory_that_is_taken_is_not_free_and_comes_back,
    what_cannot_be_allocated_or_freed_is_an_error,
    a_failed_allocation_stays_behind_until_it_is_taken,
    fills_and_copies_put_bytes_where_they_belong,
    managed_memory_is_memory_where_there_is_any,
    plain_memory_has_a_handle_that_opens_in_other_processes_alone,
];

fn allocations_are_aligned_and_do_not_overlap(subject: &Subject<'_>) {
    let sizes = [1, 512, 3 << 10, MIB, 2 * MIB + 1, 20 * MIB];
    let mut ranges: Vec<(u64, u64)> =
        sizes.iter().map(|&bytes| (subject.driver.mem_alloc(D, bytes).unwrap(), bytes)).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?} overlap");
    }
    for (addr, _) in ranges {
        assert!(addr.is_multiple_of(256), "{addr:#x}");
        subject.driver.mem_free(D, addr).unwrap();
    }
}

fn an_address_inside_of_an_allocation_finds_it(subject: &Subject<'_>) {
    let addr = subject.driver.mem_alloc(D, 6 * MIB).unwrap();
    for offset in [0, 1, 3 * MIB, 6 * MIB - 1] {
        assert_eq!(subject.driver.mem_address_range(addr + offset), Ok((addr, 6 * MIB)), "at {offset}");
    }
    subject.driver.mem_free(D, addr).unwrap();
}

fn memory_that_is_taken_is_not_free_and_comes_back(subject: &Subject<'_>) {
    const SIZE: u64 = 256 * MIB;
    let driver = subject.driver;
    // The first use of a device may take memory for the driver itself.
    driver.mem_free(D, driver.mem_alloc(D, SIZE).unwrap()).unwrap();
    let (before, _) = driver.mem_info(D).unwrap();
    let addr = driver.mem_alloc(D, SIZE).unwrap();
    let (during, _) = driver.mem_info(D).unwrap();
    driver.mem_free(D, addr).unwrap();
    let (after, _) = driver.mem_info(D).unwrap();
    assert!(before - during >= SIZE, "{before} free before, {during} with {SIZE} bytes taken");
    assert!(after >= during + SIZE, "{during} free with {SIZE} bytes taken, {after} after");
}

fn what_cannot_be_allocated_or_freed_is_an_error(subject: &Subject<'_>) {
    let driver = subject.driver;
    assert_eq!(code(subject, driver.mem_alloc(D, 0)), Code::ERROR_INVALID_VALUE);
    let (_, total) = driver.mem_info(D).unwrap();
    assert_eq!(code(subject, driver.mem_alloc(D, 2 * total)), Code::ERROR_OUT_OF_MEMORY);
    let addr = driver.mem_alloc(D, 2 * MIB).unwrap();
    driver.mem_free(D, addr).unwrap();
    assert_eq!(code(subject, driver.mem_free(D, addr)), Code::ERROR_INVALID_VALUE, "freed twice");
}

fn a_failed_allocation_stays_behind_until_it_is_taken(subject: &Subject<'_>) {
    let driver = subject.driver;
    driver.take_last_error();
    let (_, total) = driver.mem_info(D).unwrap();
    assert!(driver.mem_alloc(D, 2 * total).is_err());
    assert_eq!(driver.peek_last_error(), Some(Code::ERROR_OUT_OF_MEMORY));
    assert_eq!(driver.take_last_error(), Some(Code::ERROR_OUT_OF_MEMORY));
    assert_eq!(driver.take_last_error(), None);
}

fn fills_and_copies_put_bytes_where_they_belong(subject: &Subject<'_>) {
    let driver = subject.driver;
    let stream = driver.stream_create(D).unwrap();
    let (first, second) = (driver.mem_alloc(D, MIB).unwrap(), driver.mem_alloc(D, MIB).unwrap());
    let host = driver.host_alloc(4096, HostFlags::default()).unwrap();
    let written: Vec<u8> = (0..4096u32).map(|i| (i * 7 + 3) as u8).collect();
    (subject.write)(host, &written);
    driver.memset_async(first, 0xa5, MIB, stream).unwrap();
    driver.memcpy_async(first + 512, host, 4096, stream).unwrap();
    driver.memcpy_async(second, first, MIB, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    let found = subject.device_bytes(second, 8192);
    assert!(found[..512].iter().all(|&byte| byte == 0xa5), "the fill before the copy");
    assert!(found[512..512 + 4096] == written[..], "the copy");
    assert!(found[512 + 4096..].iter().all(|&byte| byte == 0xa5), "the fill behind the copy");
    driver.host_free(host).unwrap();
    driver.mem_free(D, first).unwrap();
    driver.mem_free(D, second).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn managed_memory_is_memory_where_there_is_any(subject: &Subject<'_>) {
    let made = subject.driver.mem_alloc_managed(D, MIB);
    if !subject.driver.caps(D).unwrap().managed {
        assert_eq!(code(subject, made), Code::ERROR_NOT_SUPPORTED);
        return;
    }
    let addr = made.unwrap();
    subject.fill(addr, 9, MIB);
    assert_eq!(subject.device_bytes(addr + MIB - 4, 4), [9; 4]);
    subject.driver.mem_free(D, addr).unwrap();
}

fn plain_memory_has_a_handle_that_opens_in_other_processes_alone(subject: &Subject<'_>) {
    let driver = subject.driver;
    let addr = driver.mem_alloc(D, 2 * MIB).unwrap();
    match driver.ipc_handle(addr) {
        Err(error) => assert_eq!(error.code, Code::ERROR_NOT_SUPPORTED, "{error}"),
        Ok(handle) => {
            assert_eq!(driver.ipc_handle(addr), Ok(handle), "one handle for one allocation");
            code(subject, driver.ipc_open(D, &handle));
            code(subject, driver.ipc_close(D, addr));
        }
    }
    driver.take_last_error();
    driver.mem_free(D, addr).unwrap();
}
