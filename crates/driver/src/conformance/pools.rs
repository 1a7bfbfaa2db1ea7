//! The driver's own pools.

use super::{D, MIB, Subject, code};
use crate::{Code, Driver, PoolAttribute, Stream};

super::listed![
    memory_of_a_pool_is_memory_in_the_order_of_its_stream,
    a_pool_counts_what_it_holds,
    attributes_of_a_pool_can_be_changed,
    the_default_pool_stays,
];

fn with_pools<'a>(subject: &Subject<'a>) -> Option<(&'a dyn Driver, Stream)> {
    let able = subject.driver.caps(D).unwrap().pools;
    able.then(|| (subject.driver, subject.driver.stream_create(D).unwrap()))
}

fn memory_of_a_pool_is_memory_in_the_order_of_its_stream(subject: &Subject<'_>) {
    let Some((driver, stream)) = with_pools(subject) else {
        assert_eq!(code(subject, subject.driver.default_mem_pool(D)), Code::ERROR_NOT_SUPPORTED);
        return;
    };
    let pool = driver.default_mem_pool(D).unwrap();
    assert_eq!(driver.default_mem_pool(D), Ok(pool));
    let (first, second) =
        (driver.mem_alloc_async(pool, MIB, stream).unwrap(), driver.mem_alloc_async(pool, MIB, stream).unwrap());
    assert!(first.abs_diff(second) >= MIB);
    driver.memset_async(first, 6, MIB, stream).unwrap();
    driver.memcpy_async(second, first, MIB, stream).unwrap();
    driver.mem_free_async(first, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    assert_eq!(subject.device_bytes(second, 4), [6; 4]);
    driver.mem_free_async(second, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    assert!(driver.mem_free_async(second, stream).is_err(), "freed twice");
    driver.take_last_error();
    driver.stream_destroy(stream).unwrap();
}

fn a_pool_counts_what_it_holds(subject: &Subject<'_>) {
    let Some((driver, stream)) = with_pools(subject) else { return };
    let pool = driver.mem_pool_create(D).unwrap();
    driver.mem_pool_set(pool, PoolAttribute::ReleaseThreshold, u64::MAX).unwrap();
    let addr = driver.mem_alloc_async(pool, 8 * MIB, stream).unwrap();
    let get = |attribute| driver.mem_pool_get(pool, attribute).unwrap();
    assert!(get(PoolAttribute::UsedMemCurrent) >= 8 * MIB);
    assert!(get(PoolAttribute::ReservedMemCurrent) >= get(PoolAttribute::UsedMemCurrent));
    driver.mem_free_async(addr, stream).unwrap();
    driver.stream_synchronize(stream).unwrap();
    assert_eq!(get(PoolAttribute::UsedMemCurrent), 0);
    assert!(get(PoolAttribute::UsedMemHigh) >= 8 * MIB);
    assert!(get(PoolAttribute::ReservedMemCurrent) >= 8 * MIB, "below the threshold it stays");
    driver.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(get(PoolAttribute::ReservedMemCurrent), 0);
    driver.mem_pool_destroy(pool).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn attributes_of_a_pool_can_be_changed(subject: &Subject<'_>) {
    let Some((driver, stream)) = with_pools(subject) else { return };
    let pool = driver.mem_pool_create(D).unwrap();
    use PoolAttribute::*;
    for attribute in [ReuseFollowEventDependencies, ReuseAllowOpportunistic, ReuseAllowInternalDependencies] {
        assert_eq!(driver.mem_pool_get(pool, attribute), Ok(1), "{attribute:?} is on at first");
        driver.mem_pool_set(pool, attribute, 0).unwrap();
        assert_eq!(driver.mem_pool_get(pool, attribute), Ok(0), "{attribute:?}");
    }
    assert_eq!(driver.mem_pool_get(pool, ReleaseThreshold), Ok(0));
    driver.mem_pool_set(pool, ReleaseThreshold, 5 << 32).unwrap();
    assert_eq!(driver.mem_pool_get(pool, ReleaseThreshold), Ok(5 << 32));
    driver.mem_pool_destroy(pool).unwrap();
    driver.stream_destroy(stream).unwrap();
}

fn the_default_pool_stays(subject: &Subject<'_>) {
    let Some((driver, stream)) = with_pools(subject) else { return };
    let pool = driver.default_mem_pool(D).unwrap();
    assert!(driver.mem_pool_destroy(pool).is_err());
    driver.take_last_error();
    driver.stream_destroy(stream).unwrap();
}
