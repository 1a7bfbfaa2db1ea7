//! Elastic buffers: one range of addresses over the device's memory and the host's.

mod common;

use std::sync::Arc;

use common::*;
use millpond_driver::{Access, Bytes, Location, Memory, Stream, Virtual};
use millpond_elastic::{Elastic, ElasticOptions, Error, Part, Step};
use millpond_sim::{CallKind, Sim, SimConfig};

fn options() -> ElasticOptions {
    ElasticOptions { front_capacity: 8 * PAGE, tail_capacity: 16 * PAGE, page: PAGE, ..ElasticOptions::default() }
}

fn elastic(sim: &Arc<Sim>) -> Elastic {
    Elastic::new(sim.clone(), D, &options()).unwrap()
}

fn access(sim: &Sim, addr: u64, accessor: Location) -> Access {
    sim.mem_get_access(addr, accessor).unwrap()
}

#[test]
fn the_front_lies_on_the_device_and_the_tail_on_its_own_numa_node() {
    let mut config = machine(256);
    config.numa_nodes = vec![Bytes(0), Bytes(64 * MIB)];
    config.devices[0].caps.host_numa = Some(1);
    let sim = Sim::new(config);
    let mut buffer = Elastic::new(sim.clone(), D, &ElasticOptions { peers: vec![PEER], ..options() }).unwrap();
    assert_eq!(sim.count(CallKind::Reserve), 1, "one range");
    buffer.grow_front(2 * PAGE).unwrap();
    buffer.grow_tail(3 * PAGE).unwrap();
    assert_eq!((buffer.numa_node(), buffer.tail_addr()), (1, buffer.addr() + 8 * PAGE));
    assert_eq!((buffer.bytes_in(Part::Device), buffer.bytes_in(Part::Host)), (2 * PAGE, 3 * PAGE));
    assert_eq!(sim.mem_info(D).unwrap().0, 256 * MIB - 2 * PAGE);
    let parts = [0, 2, 8, 10, 11].map(|page| buffer.part_at(page * PAGE));
    assert_eq!(parts, [Some(Part::Device), None, Some(Part::Host), Some(Part::Host), None]);

    let accessors = [Location::Device(D), Location::Device(PEER), Location::Host];
    let (front, tail) = (buffer.addr(), buffer.tail_addr() + 2 * PAGE);
    assert_eq!(
        accessors.map(|accessor| access(&sim, front, accessor)),
        [Access::ReadWrite, Access::ReadWrite, Access::None]
    );
    assert_eq!(accessors.map(|accessor| access(&sim, tail, accessor)), [Access::ReadWrite; 3]);
    sim.launch(STREAM, 1, &[(front, 2 * PAGE)], &[(buffer.tail_addr(), 3 * PAGE)]).unwrap();
    sim.launch(Stream::new(PEER, 1), 1, &[(buffer.tail_addr(), 3 * PAGE)], &[]).unwrap();
}

#[test]
fn growing_is_n_creates_n_maps_and_one_set_access_for_each_accessor() {
    let sim = Sim::new(machine(256));
    let mut buffer = elastic(&sim);
    let counts = || [CallKind::Create, CallKind::Map, CallKind::SetAccess].map(|kind| sim.count(kind));
    buffer.grow_front(5 * PAGE).unwrap();
    assert_eq!(counts(), [5, 5, 1]);
    buffer.grow_tail(7 * PAGE).unwrap();
    assert_eq!(counts(), [12, 12, 3], "the device's and the host's own");
    buffer.grow_tail(7 * PAGE).unwrap();
    buffer.shrink_tail(3 * PAGE + 1).unwrap();
    buffer.shrink_front(0).unwrap();
    assert_eq!([CallKind::Unmap, CallKind::Release].map(|kind| sim.count(kind)), [2, 8]);
    assert_eq!((buffer.bytes_in(Part::Device), buffer.bytes_in(Part::Host)), (0, 4 * PAGE));
    for grow in [Elastic::grow_front as fn(&mut Elastic, u64) -> _, Elastic::grow_tail] {
        assert!(matches!(grow(&mut buffer, 17 * PAGE), Err(Error::OutOfRange { .. })));
    }
}

#[test]
fn what_a_device_cannot_do_is_a_named_error() {
    let make = |change: fn(&mut millpond_driver::Caps), options: &ElasticOptions| {
        let mut config = machine(64);
        change(&mut config.devices[0].caps);
        Elastic::new(Sim::new(config), D, options).map(|buffer| buffer.numa_node())
    };
    assert!(matches!(make(|caps| caps.host_numa = None, &options()), Err(Error::NoNumaNode(_))));
    let named = ElasticOptions { numa_node: Some(0), ..options() };
    assert!(matches!(make(|caps| caps.host_numa = None, &named), Ok(0)));
    assert!(matches!(make(|caps| caps.host_numa_vmm = false, &options()), Err(Error::NoHostMemory(_))));
    assert!(matches!(make(|caps| caps.vmm = false, &options()), Err(Error::NoVirtualMemory(_))));
    let odd = ElasticOptions { page: PAGE + 4096, ..options() };
    assert!(matches!(make(|_| (), &odd), Err(Error::PageSize { .. })));
    let huge = ElasticOptions { tail_capacity: u64::MAX, ..options() };
    assert!(matches!(make(|_| (), &huge), Err(Error::Capacity { .. })));
}

#[test]
fn pages_move_with_their_contents_and_both_parts_grow_on() {
    let sim = Sim::new(machine(256));
    let mut buffer = elastic(&sim);
    let addr = buffer.addr();
    buffer.grow_front(8 * PAGE).unwrap();
    buffer.grow_tail(4 * PAGE).unwrap();
    (0..12).for_each(|page| mark(&sim, addr + page * PAGE, PAGE, page));
    let intact = || (0..12).all(|page| is_marked(&sim, addr + page * PAGE, PAGE, page));

    buffer.move_to(Part::Host, 5 * PAGE, 3 * PAGE, STREAM).unwrap();
    assert!(intact());
    assert_eq!((buffer.bytes_in(Part::Device), buffer.bytes_in(Part::Host)), (5 * PAGE, 7 * PAGE));
    assert_eq!(sim.mem_info(D).unwrap().0, 256 * MIB - 5 * PAGE);
    assert_eq!(access(&sim, addr + 6 * PAGE, Location::Host), Access::ReadWrite);

    // What lies there already stays: three pages of the front and two of the tail come.
    buffer.move_to(Part::Device, 4 * PAGE, 6 * PAGE, STREAM).unwrap();
    assert!(intact());
    assert_eq!(buffer.bytes_in(Part::Device), 10 * PAGE);
    assert_eq!(access(&sim, addr + 6 * PAGE, Location::Host), Access::None);
    buffer.grow_tail(8 * PAGE).unwrap();
    assert!(intact());
    sim.launch(STREAM, 1, &[(addr, 16 * PAGE)], &[]).unwrap();
    assert!(matches!(
        buffer.move_to(Part::Host, 15 * PAGE, 2 * PAGE, STREAM),
        Err(Error::NotCommitted { offset }) if offset == 16 * PAGE
    ));
}

#[test]
fn a_move_of_n_pages_has_a_bounded_number_of_calls() {
    let sim = Sim::new(machine(256));
    let mut buffer = elastic(&sim);
    buffer.grow_front(8 * PAGE).unwrap();
    let kinds = [
        (CallKind::Reserve, 1),
        (CallKind::Create, 8),
        (CallKind::Map, 16),
        // For staging the device's, at the end the device's and the host's.
        (CallKind::SetAccess, 3),
        (CallKind::Memcpy, 1),
        (CallKind::Release, 8),
        (CallKind::AddrFree, 1),
    ];
    let before = kinds.map(|(kind, _)| sim.count(kind));
    buffer.move_to(Part::Host, 0, 8 * PAGE, STREAM).unwrap();
    for ((kind, calls), before) in kinds.into_iter().zip(before) {
        assert_eq!(sim.count(kind) - before, calls, "{kind}");
    }
    let calls = sim.calls_made();
    buffer.move_to(Part::Host, 0, 8 * PAGE, STREAM).unwrap();
    assert_eq!(sim.calls_made(), calls, "everything is there already");
}

#[test]
fn a_move_without_room_changes_nothing() {
    let config = SimConfig { numa_nodes: vec![Bytes(3 * PAGE)], ..machine(64) };
    let sim = Sim::new(config);
    let mut buffer = elastic(&sim);
    buffer.grow_front(8 * PAGE).unwrap();
    (0..8).for_each(|page| mark(&sim, buffer.addr() + page * PAGE, PAGE, page));
    let error = buffer.move_to(Part::Host, 0, 4 * PAGE, STREAM).unwrap_err();
    assert!(error.is_out_of_memory() && error.step() == Some(Step::Create));
    assert_eq!(buffer.bytes_in(Part::Device), 8 * PAGE);
    assert!((0..8).all(|page| is_marked(&sim, buffer.addr() + page * PAGE, PAGE, page)));
    buffer.move_to(Part::Host, 0, 3 * PAGE, STREAM).unwrap();
    assert!((0..8).all(|page| is_marked(&sim, buffer.addr() + page * PAGE, PAGE, page)));
}

#[test]
fn c47_a_failure_anywhere_in_a_move_leaves_every_page_where_it_lay() {
    let setup = |sim: &Arc<Sim>| {
        let mut buffer = Elastic::new(sim.clone(), D, &ElasticOptions { peers: vec![PEER], ..options() }).unwrap();
        buffer.grow_front(6 * PAGE).unwrap();
        // Two runs to move: page 2 is on the host already.
        buffer.move_to(Part::Host, 2 * PAGE, PAGE, STREAM).unwrap();
        (0..6).for_each(|page| mark(sim, buffer.addr() + page * PAGE, PAGE, page));
        buffer
    };
    let unchanged = |sim: &Sim, buffer: &mut Elastic| {
        for page in 0..6 {
            let addr = buffer.addr() + page * PAGE;
            assert!(is_marked(sim, addr, PAGE, page));
            let part = if page == 2 { Part::Host } else { Part::Device };
            assert_eq!(buffer.part_at(page * PAGE), Some(part));
            let by_host = if page == 2 { Access::ReadWrite } else { Access::None };
            assert_eq!(access(sim, addr, Location::Host), by_host);
            assert_eq!([D, PEER].map(|device| access(sim, addr, Location::Device(device))), [Access::ReadWrite; 2]);
        }
    };
    sweep(&machine(256), setup, |buffer| buffer.move_to(Part::Host, 0, 4 * PAGE, STREAM), unchanged);
}

#[test]
fn c47_a_failure_anywhere_in_making_and_growing_leaves_nothing_behind() {
    let grow = |made: &mut (Arc<Sim>, Option<Elastic>)| {
        let mut buffer = Elastic::new(made.0.clone(), D, &options())?;
        buffer.grow_front(2 * PAGE)?;
        buffer.grow_tail(2 * PAGE)?;
        made.1 = Some(buffer);
        Ok::<_, Error>(())
    };
    sweep(&machine(256), |sim| (sim.clone(), None), grow, |_, made| assert!(made.1.is_none()));
}
