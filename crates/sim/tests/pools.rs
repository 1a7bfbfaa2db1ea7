//! Driver pools: order of streams, reuse attributes, chunks, trim, high-water marks.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{CostTable, EventMode, Sim, SimConfig};

const D: Device = Device(0);
const A: Stream = Stream::new(D, 1);
const B: Stream = Stream::new(D, 2);
const M: u64 = 1 << 20;

/// A machine with `mib` of memory and its default pool, which keeps everything.
fn pool(mib: u64, events: EventMode) -> (Arc<Sim>, DriverPool) {
    let sim = Sim::new(SimConfig { events, cost: CostTable::free(), ..SimConfig::with_capacity(Bytes(mib * M)) });
    let pool = sim.default_mem_pool(D).unwrap();
    sim.mem_pool_set(pool, PoolAttribute::ReleaseThreshold, u64::MAX).unwrap();
    (sim, pool)
}

/// Turns all reuse across streams off but what is named.
fn only(sim: &Sim, pool: DriverPool, allowed: &[PoolAttribute]) {
    for attribute in [
        PoolAttribute::ReuseFollowEventDependencies,
        PoolAttribute::ReuseAllowOpportunistic,
        PoolAttribute::ReuseAllowInternalDependencies,
    ] {
        sim.mem_pool_set(pool, attribute, u64::from(allowed.contains(&attribute))).unwrap();
    }
}

fn get(sim: &Sim, pool: DriverPool, attribute: PoolAttribute) -> u64 {
    sim.mem_pool_get(pool, attribute).unwrap()
}

fn order(sim: &Sim, from: Stream, to: Stream) -> Event {
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, from).unwrap();
    sim.stream_wait_event(to, event).unwrap();
    event
}

#[test]
fn memory_is_used_again_on_the_same_stream_at_once() {
    let (sim, pool) = pool(1024, EventMode::Manual);
    let addr = sim.mem_alloc_async(pool, 600, A).unwrap();
    let next = sim.mem_alloc_async(pool, 600, A).unwrap();
    assert_eq!(next, addr + 1024, "multiples of 512 from one chunk");
    sim.mem_free_async(addr, A).unwrap();
    assert_eq!(sim.mem_alloc_async(pool, 1024, A), Ok(addr));
    assert_eq!(sim.pool_chunks(pool), [(addr, 32 * M)]);
    assert_eq!(sim.mem_address_range(next + 9), Ok((next, 1024)));
    assert_eq!(sim.mem_free_async(addr + 512, A).unwrap_err().code, Code::ERROR_INVALID_VALUE);
}

#[test]
fn another_stream_gets_it_only_after_an_event_when_only_that_is_allowed() {
    let (sim, pool) = pool(1024, EventMode::Manual);
    only(&sim, pool, &[PoolAttribute::ReuseFollowEventDependencies]);
    let addr = sim.mem_alloc_async(pool, 40 * M, A).unwrap();
    order(&sim, A, B);
    sim.mem_free_async(addr, A).unwrap();
    let other = sim.mem_alloc_async(pool, 40 * M, B).unwrap();
    assert_ne!(other, addr, "the event was recorded before the free");
    order(&sim, A, B);
    assert_eq!(sim.mem_alloc_async(pool, 40 * M, B), Ok(addr));
}

#[test]
fn event_order_counts_across_several_streams_and_only_if_it_is_allowed() {
    let c = Stream::new(D, 3);
    for (allowed, reused) in [(vec![PoolAttribute::ReuseFollowEventDependencies], true), (vec![], false)] {
        let (sim, pool) = pool(1024, EventMode::Manual);
        only(&sim, pool, &allowed);
        let addr = sim.mem_alloc_async(pool, 40 * M, A).unwrap();
        sim.mem_free_async(addr, A).unwrap();
        order(&sim, A, c);
        order(&sim, c, B);
        assert_eq!(sim.mem_alloc_async(pool, 40 * M, B) == Ok(addr), reused);
    }
}

#[test]
fn opportunistic_reuse_needs_the_freeing_stream_to_have_passed() {
    for (allowed, reused) in [(vec![PoolAttribute::ReuseAllowOpportunistic], true), (vec![], false)] {
        let (sim, pool) = pool(1024, EventMode::Manual);
        only(&sim, pool, &allowed);
        let addr = sim.mem_alloc_async(pool, 40 * M, A).unwrap();
        sim.mem_free_async(addr, A).unwrap();
        let event = sim.event_create(D).unwrap();
        sim.event_record(event, A).unwrap();
        let other = sim.mem_alloc_async(pool, 40 * M, B).unwrap();
        assert_ne!(other, addr, "the free has not happened yet");
        sim.mem_free_async(other, B).unwrap();
        sim.mem_alloc_async(pool, 40 * M, B).unwrap();
        sim.advance(1);
        assert_eq!(sim.mem_alloc_async(pool, 40 * M, B) == Ok(addr), reused);
    }
}

#[test]
fn after_the_host_has_synchronised_every_stream_may_have_it() {
    let (sim, pool) = pool(1024, EventMode::Manual);
    only(&sim, pool, &[]);
    let addr = sim.mem_alloc_async(pool, 40 * M, A).unwrap();
    sim.mem_free_async(addr, A).unwrap();
    sim.stream_synchronize(A).unwrap();
    assert_eq!(sim.mem_alloc_async(pool, 40 * M, B), Ok(addr));
}

#[test]
fn an_internal_dependency_is_the_last_resort_and_makes_the_stream_wait() {
    let (sim, pool) = pool(60, EventMode::Timed);
    let addr = sim.mem_alloc_async(pool, 40 * M, A).unwrap();
    sim.launch(A, 50, &[], &[(addr, 1)]).unwrap();
    sim.mem_free_async(addr, A).unwrap();
    only(&sim, pool, &[]);
    assert!(sim.mem_alloc_async(pool, 40 * M, B).unwrap_err().is_out_of_memory());
    only(&sim, pool, &[PoolAttribute::ReuseAllowInternalDependencies]);
    assert_eq!(sim.mem_alloc_async(pool, 40 * M, B), Ok(addr));
    sim.launch(B, 1, &[], &[(addr, 1)]).unwrap();
    sim.stream_synchronize(B).unwrap();
    assert_eq!(sim.now_us(), 51, "B started after A's free");
}

#[test]
fn c79_cached_chunks_never_join_and_a_trim_after_a_synchronisation_makes_room() {
    let (sim, pool) = pool(1000, EventMode::Manual);
    let a = sim.mem_alloc_async(pool, 600 * M, A).unwrap();
    sim.mem_free_async(a, A).unwrap();
    let error = sim.mem_alloc_async(pool, 700 * M, A).unwrap_err();
    assert!(error.is_out_of_memory() && error.detail.contains("600MiB"), "{error}");
    sim.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(get(&sim, pool, PoolAttribute::ReservedMemCurrent), 600 * M, "the free is not done");
    sim.stream_synchronize(A).unwrap();
    sim.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(get(&sim, pool, PoolAttribute::ReservedMemCurrent), 0);
    sim.mem_alloc_async(pool, 700 * M, A).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 300 * M);
}

#[test]
fn a_trim_keeps_what_it_is_told_to_and_never_touches_a_chunk_in_use() {
    let (sim, pool) = pool(1000, EventMode::Immediate);
    let addrs = [0; 3].map(|_| sim.mem_alloc_async(pool, 100 * M, A).unwrap());
    sim.mem_free_async(addrs[0], A).unwrap();
    sim.mem_free_async(addrs[2], A).unwrap();
    sim.mem_pool_trim_to(pool, 150 * M).unwrap();
    assert_eq!(sim.pool_chunks(pool), [(addrs[1], 100 * M)], "both free chunks had to go");
    sim.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(sim.pool_chunks(pool).len(), 1);
}

#[test]
fn a_synchronisation_gives_back_what_lies_above_the_release_threshold() {
    let (sim, pool) = pool(1000, EventMode::Immediate);
    sim.mem_pool_set(pool, PoolAttribute::ReleaseThreshold, 120 * M).unwrap();
    let addrs = [0; 3].map(|_| sim.mem_alloc_async(pool, 100 * M, A).unwrap());
    addrs.into_iter().for_each(|addr| sim.mem_free_async(addr, A).unwrap());
    assert_eq!(get(&sim, pool, PoolAttribute::ReservedMemCurrent), 300 * M);
    sim.stream_synchronize(A).unwrap();
    assert_eq!(get(&sim, pool, PoolAttribute::ReservedMemCurrent), 100 * M);
}

#[test]
fn high_water_marks_are_reset_by_writing_zero() {
    use PoolAttribute::*;
    let (sim, pool) = pool(1000, EventMode::Immediate);
    let addr = sim.mem_alloc_async(pool, 100, A).unwrap();
    let big = sim.mem_alloc_async(pool, 100 * M, A).unwrap();
    sim.mem_free_async(big, A).unwrap();
    let all =
        |sim: &Sim| [ReservedMemCurrent, ReservedMemHigh, UsedMemCurrent, UsedMemHigh].map(|of| get(sim, pool, of));
    assert_eq!(all(&sim), [132 * M, 132 * M, 512, 100 * M + 512]);
    sim.mem_pool_set(pool, UsedMemHigh, 0).unwrap();
    sim.mem_pool_trim_to(pool, 0).unwrap();
    assert_eq!(all(&sim), [32 * M, 132 * M, 512, 512]);
    sim.mem_pool_set(pool, ReservedMemHigh, 0).unwrap();
    assert_eq!(all(&sim), [32 * M, 32 * M, 512, 512]);
    for (attribute, value) in [(UsedMemHigh, 1), (UsedMemCurrent, 0), (ReservedMemCurrent, 0)] {
        assert_eq!(sim.mem_pool_set(pool, attribute, value).unwrap_err().code, Code::ERROR_INVALID_VALUE);
    }
    sim.mem_free(D, addr).unwrap();
    assert_eq!(get(&sim, pool, UsedMemCurrent), 0, "cuMemFree takes pool memory too");
}

#[test]
fn a_destroyed_pool_lives_until_its_last_allocation_is_freed_and_the_default_pool_stays() {
    let (sim, default) = pool(1000, EventMode::Immediate);
    assert_eq!(sim.default_mem_pool(D), Ok(default));
    assert_eq!(sim.mem_pool_destroy(default).unwrap_err().code, Code::ERROR_INVALID_VALUE);
    let pool = sim.mem_pool_create(D).unwrap();
    let addr = sim.mem_alloc_async(pool, 100 * M, A).unwrap();
    sim.mem_pool_destroy(pool).unwrap();
    assert_eq!(sim.mem_alloc_async(pool, 1, A).unwrap_err().code, Code::ERROR_INVALID_VALUE);
    assert_eq!(sim.mem_info(D).unwrap().0, 900 * M);
    sim.mem_free_async(addr, A).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 1000 * M);
}

#[test]
fn freed_neighbours_join_inside_of_a_chunk() {
    let (sim, pool) = pool(32, EventMode::Immediate);
    let addrs = [0; 4].map(|_| sim.mem_alloc_async(pool, 8 * M, A).unwrap());
    for index in [0, 2, 1, 3] {
        sim.mem_free_async(addrs[index], A).unwrap();
    }
    assert_eq!(sim.mem_alloc_async(pool, 32 * M, A), Ok(addrs[0]));
}

#[test]
fn a_device_without_pools_says_so() {
    let mut config = SimConfig::default();
    config.devices[0].caps.pools = false;
    let sim = Sim::new(config);
    assert_eq!(sim.default_mem_pool(D).unwrap_err().code, Code::ERROR_NOT_SUPPORTED);
    assert_eq!(sim.mem_pool_create(D).unwrap_err().code, Code::ERROR_NOT_SUPPORTED);
}
