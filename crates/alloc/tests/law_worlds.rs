//! Two devices in one world: the registration counter, pool ids, settings and gauges are shared, memory is not.

mod common;

use std::sync::Arc;

use common::{BASE, GIB, MIB};
use millpond::config::{Dialect, Settings};
use millpond::{Action, Allocator, Caller, Error, HistoryOptions, PoolId, TieOrder, World};
use millpond_driver::{Bytes, Device, Memory, Order, Stream};
use millpond_sim::{DeviceConfig, EventMode, Sim, SimConfig};

fn two(world: &Arc<World>) -> (Arc<Sim>, [Allocator; 2]) {
    let device = DeviceConfig::with_capacity(Bytes(GIB));
    let sim = Sim::new(SimConfig { devices: vec![device.clone(), device], ..SimConfig::default() });
    let allocators = [0, 1].map(|d| Allocator::new(sim.clone(), Device(d), Arc::clone(world)).unwrap());
    (sim, allocators)
}

fn alloc(a: &Allocator, size: u64) -> u64 {
    let stream = Stream::default_of(a.device());
    a.alloc(size, stream, &Caller::on(stream)).unwrap()
}

fn free(a: &Allocator, addr: u64) {
    a.free(addr, &Caller::on(Stream::default_of(a.device()))).unwrap();
}

#[test]
fn r1_18_the_registration_counter_is_shared_by_all_devices_and_kinds() {
    let world = World::new(Settings::default());
    let (_, [a, b]) = two(&world);
    alloc(&a, 30 * MIB);
    alloc(&b, 30 * MIB);
    alloc(&b, 1000);
    world.configure("expandable_segments:True", Dialect::Torch).unwrap();
    alloc(&a, 30 * MIB);
    alloc(&b, 30 * MIB);
    let counters = |a: &Allocator| a.segments().iter().map(|segment| segment.counter).collect::<Vec<_>>();
    assert_eq!((counters(&a), counters(&b)), (vec![0, 3], vec![1, 2, 4]), "by address, which is by age here");
    // Parts of a segment, merged and split again, keep its age.
    let [_, part] = [0; 2].map(|_| alloc(&a, 2 * MIB));
    free(&a, part);
    assert_eq!(counters(&a), [0, 3]);
}

#[test]
fn r1_9_each_device_has_its_own_blocks_and_statistics() {
    let world = World::new(Settings::default());
    let (sim, [a, b]) = two(&world);
    let block = alloc(&a, 30 * MIB);
    free(&a, block);
    let other = alloc(&b, 30 * MIB);
    assert_ne!(other, block);
    assert!(matches!(a.free(other, &Caller::on(Stream::default_of(Device(0)))), Err(Error::UnknownAddress { .. })));
    let reserved = [&a, &b].map(|a| a.stats().all(millpond::Metric::ReservedBytes).current);
    assert_eq!(reserved, [30 << 20; 2]);
    assert_eq!([0, 1].map(|d| sim.mem_info(Device(d)).unwrap().0), [GIB - 30 * MIB; 2]);
    // R2.37 speaks of all devices; an allocator empties its own.
    a.empty_cache(&Caller::on(Stream::default_of(Device(0)))).unwrap();
    assert_eq!(a.stats().all(millpond::Metric::ReservedBytes).current, 0);
    assert_eq!(b.stats().all(millpond::Metric::ReservedBytes).current, 30 << 20);
}

#[test]
fn a_stream_of_another_device_is_refused() {
    let world = World::new(Settings::default());
    let (_, [a, _]) = two(&world);
    let foreign = Stream::new(Device(1), 1);
    let error = a.alloc(1000, foreign, &Caller::on(foreign)).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    let error = a.alloc_at(BASE, 1000, foreign, &Caller::on(foreign)).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
}

#[test]
fn r10_16_settings_reach_every_allocator_of_the_world() {
    let world = World::new(Settings::default());
    let (_, [a, b]) = two(&world);
    let block = alloc(&a, 84 * MIB);
    world.configure("roundup_power2_divisions:4", Dialect::Torch).unwrap();
    for a in [&a, &b] {
        let addr = alloc(a, 84 * MIB);
        assert_eq!(a.size_of(addr).unwrap().1, 96 * MIB);
    }
    assert_eq!(a.size_of(block).unwrap().1, 84 * MIB);
    // Another world goes its own way.
    let elsewhere = World::new(Settings::default());
    let (_, [c, _]) = two(&elsewhere);
    let addr = alloc(&c, 84 * MIB);
    assert_eq!((c.size_of(addr).unwrap().1, elsewhere.user_pool_id()), (84 * MIB, PoolId(0, 1)));
}

#[test]
fn older_versions_decide_ties_by_address() {
    for (order, expected) in [(TieOrder::Registration, [1, 0]), (TieOrder::Address, [0, 1])] {
        let world = World::of_recordings(Settings::default(), order);
        let (_, [a, _]) = two(&world);
        // The older of two segments of 24 MiB lies higher.
        let hole = alloc(&a, 30 * MIB);
        let older = alloc(&a, 24 * MIB);
        free(&a, hole);
        a.empty_cache(&Caller::on(Stream::default_of(Device(0)))).unwrap();
        let younger = alloc(&a, 24 * MIB);
        assert!(younger < older);
        [older, younger].iter().for_each(|&addr| free(&a, addr));
        let by_address = [younger, older];
        let used = [(); 2].map(|()| alloc(&a, 24 * MIB));
        let used = used.map(|addr| by_address.iter().position(|&other| other == addr).unwrap());
        assert_eq!(used, expected, "{order:?}");
    }
}

/// The streams of four blocks in the order in which their blocks become free, when all events are done at once.
fn order_of_frees(world: &Arc<World>, handles: [u64; 4]) -> Vec<usize> {
    let sim = Sim::new(SimConfig { events: EventMode::Manual, ..SimConfig::default() });
    let a = Allocator::new(sim.clone(), Device(0), Arc::clone(world)).unwrap();
    a.record_history(Some(HistoryOptions::default()));
    let caller = Caller::on(Stream::default_of(Device(0)));
    let blocks = handles.map(|handle| {
        let block = alloc(&a, MIB);
        a.record_stream(block, Stream::new(Device(0), handle), &caller).unwrap();
        block
    });
    blocks.iter().for_each(|&block| free(&a, block));
    sim.device_synchronize(Device(0)).unwrap();
    a.process_events(&caller).unwrap();
    assert!(a.verify().is_ok());
    let events = a.take_history();
    let done = events.iter().filter(|event| event.action == Action::FreeCompleted);
    done.map(|event| blocks.iter().position(|&block| block == event.addr).unwrap()).collect()
}

#[test]
fn r3_16_the_order_of_streams_is_of_pytorchs_ids_and_not_of_handles() {
    let recorded = order_of_frees(&World::of_recordings(Settings::default(), TieOrder::default()), [1, 2, 3, 4]);
    assert_eq!(recorded, [3, 2, 1, 0], "slots 7, 5, 3, 2 of 8");

    let handles = [0x7f12_3400_9a10, 0x7f12_3400_1230, 0x7f12_3400_77f0, 0x7f12_3400_4450];
    let world = World::new(Settings::default());
    for (k, handle) in (0..).zip(handles) {
        world.name_stream(Stream::new(Device(0), handle), 32 * k + 3);
    }
    assert_eq!(order_of_frees(&world, handles), recorded, "named, their handles do not matter");
}
