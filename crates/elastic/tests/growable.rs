//! Growable buffers: addresses, calls, contents, failures.

mod common;

use common::*;
use millpond_driver::{
    Access, Bytes, Code, Granularity, HandleProps, HandleType, Location, Memory, Order, Stream, Virtual,
};
use millpond_elastic::{Error, GrowOptions, Growable, Sharing, Step};
use millpond_sim::{CallKind, EventMode, FaultRule, Sim, SimConfig};

fn options(capacity: u64) -> GrowOptions {
    GrowOptions { page: PAGE, ..GrowOptions::up_to(capacity) }
}

#[test]
fn growing_by_n_pages_is_n_creates_n_maps_and_one_set_access_for_each_device() {
    let sim = Sim::new(machine(256));
    let peers = vec![PEER];
    let mut buffer = Growable::new(sim.clone(), D, &GrowOptions { peers, ..options(1 << 40) }).unwrap();
    assert_eq!(sim.count(CallKind::Reserve), 1);
    let kinds = [CallKind::Create, CallKind::Map, CallKind::SetAccess];
    let counts = || kinds.map(|kind| sim.count(kind));
    buffer.grow_to(10 * PAGE).unwrap();
    assert_eq!(counts(), [10, 10, 2]);
    buffer.grow_to(10 * PAGE - 5).unwrap();
    assert_eq!(counts(), [10, 10, 2], "what is there costs nothing");
    buffer.grow_to(11 * PAGE - 5).unwrap();
    assert_eq!(counts(), [11, 11, 4]);
    buffer.shrink_to(4 * PAGE + 1).unwrap();
    assert_eq!([CallKind::Unmap, CallKind::Release].map(|kind| sim.count(kind)), [1, 6]);
    assert_eq!(buffer.committed(), 5 * PAGE);
    let accesses = [D, PEER].map(|device| sim.mem_get_access(buffer.addr(), Location::Device(device)).unwrap());
    assert_eq!(accesses, [Access::ReadWrite; 2]);
}

#[test]
fn the_address_and_the_contents_survive_growth() {
    let sim = Sim::new(machine(256));
    let mut buffer = Growable::new(sim.clone(), D, &options(200 * MIB)).unwrap();
    let addr = buffer.addr();
    for pages in [1, 2, 3, 8, 20, 50] {
        let before = buffer.len() / PAGE;
        buffer.grow_to(pages * PAGE).unwrap();
        (before..pages).for_each(|page| mark(&sim, addr + page * PAGE, PAGE, page));
        assert!((0..pages).all(|page| is_marked(&sim, addr + page * PAGE, PAGE, page)));
        assert_eq!((buffer.addr(), buffer.len()), (addr, pages * PAGE));
    }
    buffer.shrink_to(3 * PAGE).unwrap();
    buffer.grow_to(4 * PAGE).unwrap();
    assert!((0..3).all(|page| is_marked(&sim, addr + page * PAGE, PAGE, page)));
    assert_eq!(sim.read(addr + 3 * PAGE, 64).unwrap(), [0; 64], "new memory");
    assert_eq!(sim.mem_info(D).unwrap().0, 256 * MIB - 4 * PAGE);
}

#[test]
fn memory_comes_and_goes_anywhere() {
    let sim = Sim::new(machine(256));
    let mut buffer = Growable::new(sim.clone(), D, &options(16 * PAGE)).unwrap();
    buffer.commit(5 * PAGE + 7, 1).unwrap();
    buffer.commit(9 * PAGE, 2 * PAGE).unwrap();
    assert_eq!(buffer.ranges(), [5 * PAGE..6 * PAGE, 9 * PAGE..11 * PAGE]);
    assert!(buffer.is_empty() && buffer.committed() == 3 * PAGE);
    mark(&sim, buffer.addr() + 9 * PAGE, PAGE, 9);
    let before = [CallKind::Create, CallKind::SetAccess].map(|kind| sim.count(kind));
    buffer.commit(4 * PAGE, 9 * PAGE).unwrap();
    let after = [CallKind::Create, CallKind::SetAccess].map(|kind| sim.count(kind));
    assert_eq!((after[0] - before[0], after[1] - before[1]), (6, 3), "three gaps");
    assert!(is_marked(&sim, buffer.addr() + 9 * PAGE, PAGE, 9));
    buffer.decommit(4 * PAGE + 1, 2 * PAGE - 1).unwrap();
    assert_eq!(buffer.ranges(), [4 * PAGE..5 * PAGE, 6 * PAGE..13 * PAGE], "pages wholly inside");
    buffer.decommit(0, 16 * PAGE).unwrap();
    assert_eq!((buffer.committed(), sim.mem_info(D).unwrap().0), (0, 256 * MIB));
    buffer.decommit(0, 16 * PAGE).unwrap();
}

#[test]
fn what_does_not_fit_is_a_clear_error() {
    let sim = Sim::new(machine(256));
    let new = |options: &GrowOptions| Growable::new(sim.clone(), D, options);
    let error = new(&GrowOptions { page: MIB, ..options(PAGE) }).unwrap_err();
    assert_eq!(error.to_string(), "a page of 1MiB does not fit: it must be a multiple of 2MiB");
    assert!(matches!(new(&options(0)), Err(Error::Capacity { capacity: 0 })));
    assert!(matches!(new(&options(u64::MAX)), Err(Error::Capacity { .. })));
    assert_eq!(new(&options(1 << 60)).unwrap_err().step(), Some(Step::Reserve));
    let fabric = new(&GrowOptions { sharing: Sharing::Fabric, ..options(PAGE) }).unwrap_err();
    assert_eq!(fabric.to_string(), "GPU 0 exports no fabric handles");
    let mut buffer = new(&options(3 * PAGE)).unwrap();
    assert!(matches!(buffer.grow_to(3 * PAGE + 1), Err(Error::OutOfRange { capacity, .. }) if capacity == 3 * PAGE));
    assert!(matches!(buffer.commit(u64::MAX, 2), Err(Error::OutOfRange { .. })));
    assert!(matches!(buffer.decommit(PAGE, u64::MAX), Err(Error::OutOfRange { .. })));
    assert!(matches!(buffer.share(0, PAGE), Err(Error::NotShared)));
    let mut config = machine(256);
    config.devices[0].caps.vmm = false;
    let none = Growable::new(Sim::new(config), D, &options(PAGE)).unwrap_err();
    assert!(matches!(none, Error::NoVirtualMemory(device) if device == D));
}

#[test]
fn the_page_and_the_alignment_are_chosen() {
    let sim = Sim::new(machine(256));
    let props = HandleProps::on(D);
    let recommended = sim.mem_granularity(props, Granularity::Recommended).unwrap();
    assert_eq!(Growable::new(sim.clone(), D, &GrowOptions::up_to(1)).unwrap().page_size(), recommended);
    let large = GrowOptions { page: 20 * MIB, align: 1 << 30, ..options(100 * MIB) };
    let mut buffer = Growable::new(sim.clone(), D, &large).unwrap();
    buffer.grow_to(1).unwrap();
    assert_eq!((buffer.committed(), buffer.addr() % (1 << 30)), (20 * MIB, 0));
}

#[test]
fn running_out_of_memory_changes_nothing() {
    let sim = Sim::new(machine(64));
    let mut buffer = Growable::new(sim.clone(), D, &options(1 << 30)).unwrap();
    buffer.grow_to(60 * MIB).unwrap();
    let error = buffer.grow_to(70 * MIB).unwrap_err();
    assert!(error.is_out_of_memory());
    assert_eq!((error.step(), buffer.committed()), (Some(Step::Create), 60 * MIB));
    assert_eq!(sim.mem_info(D).unwrap().0, 4 * MIB);
    buffer.grow_to(64 * MIB).unwrap();
}

#[test]
fn memory_goes_only_after_the_streams_that_use_it() {
    let sim = Sim::new(SimConfig { events: EventMode::Timed, ..machine(64) });
    let mut buffer = Growable::new(sim.clone(), D, &options(16 * PAGE)).unwrap();
    buffer.grow_to(4 * PAGE).unwrap();
    let other = Stream::new(D, 0x102);
    for stream in [STREAM, other] {
        buffer.use_on(stream);
        sim.launch(stream, 100, &[], &[(buffer.addr(), 4 * PAGE)]).unwrap();
    }
    buffer.shrink_to(PAGE).unwrap();
    assert_eq!(sim.count(CallKind::StreamSynchronize), 2);
    let event = sim.event_create(D).unwrap();
    sim.event_record(event, other).unwrap();
    drop(buffer);
    assert_eq!(sim.count(CallKind::StreamSynchronize), 4);
    assert_eq!(sim.mem_info(D).unwrap().0, 64 * MIB);
}

#[test]
fn c45_peers_reach_pages_mapped_before_after_and_again() {
    let sim = Sim::new(machine(256));
    let mut buffer = Growable::new(sim.clone(), D, &options(64 * PAGE)).unwrap();
    let reach = |buffer: &Growable, page: u64| {
        let access = sim.mem_get_access(buffer.addr() + page * PAGE, Location::Device(PEER));
        access.unwrap() == Access::ReadWrite
    };
    buffer.grow_to(8 * PAGE).unwrap();
    assert!(!reach(&buffer, 0));
    buffer.allow(PEER).unwrap();
    buffer.allow(PEER).unwrap();
    buffer.grow_to(32 * PAGE).unwrap();
    buffer.shrink_to(0).unwrap();
    buffer.grow_to(8 * PAGE).unwrap();
    assert!((0..8).all(|page| reach(&buffer, page)));
    sim.launch(Stream::new(PEER, 1), 1, &[(buffer.addr(), 8 * PAGE)], &[]).unwrap();
}

#[test]
fn c47_every_failing_step_is_undone_and_named() {
    let config = machine(256);
    let steps = [
        (CallKind::Reserve, Step::Reserve),
        (CallKind::Create, Step::Create),
        (CallKind::Map, Step::Map),
        (CallKind::SetAccess, Step::SetAccess),
    ];
    for (kind, step) in steps {
        let sim = Sim::new(config.clone());
        sim.fail(FaultRule::nth(kind, 1, Code::ERROR_INVALID_VALUE));
        let make = || {
            let mut buffer = Growable::new(sim.clone(), D, &GrowOptions { page: 20 * MIB, ..options(90 * MIB) })?;
            buffer.grow_to(20 * MIB)?;
            Ok::<_, Error>(buffer)
        };
        let error = make().unwrap_err();
        assert_eq!(error.step(), Some(step));
        let held = Ledger::default().held(&sim);
        assert_eq!(held, Held { device_free: 256 * MIB, ..Held::default() }, "{kind}");
        assert_eq!(make().unwrap().committed(), 20 * MIB, "the next one works");
    }
}

#[test]
fn c47_a_failure_anywhere_in_growing_leaves_nothing_behind() {
    let setup = |sim: &std::sync::Arc<Sim>| {
        let options = GrowOptions { peers: vec![PEER], ..options(16 * PAGE) };
        let mut buffer = Growable::new(sim.clone(), D, &options).unwrap();
        buffer.commit(3 * PAGE, 2 * PAGE).unwrap();
        mark(sim, buffer.addr() + 3 * PAGE, PAGE, 3);
        buffer
    };
    let unchanged = |sim: &Sim, buffer: &mut Growable| {
        assert_eq!(buffer.ranges(), std::slice::from_ref(&(3 * PAGE..5 * PAGE)));
        assert!(is_marked(sim, buffer.addr() + 3 * PAGE, PAGE, 3));
    };
    let calls = sweep(&machine(256), setup, |buffer| buffer.grow_to(8 * PAGE), unchanged);
    // Six pages in two gaps: a question, a create and a map for each, and access for two devices.
    assert_eq!(calls, 6 * 3 + 2 * 2);
}

#[test]
fn c47_a_failed_grant_to_a_peer_is_taken_back() {
    let setup = |sim: &std::sync::Arc<Sim>| {
        let mut buffer = Growable::new(sim.clone(), D, &options(16 * PAGE)).unwrap();
        buffer.commit(0, PAGE).unwrap();
        buffer.commit(2 * PAGE, PAGE).unwrap();
        buffer
    };
    let unchanged = |sim: &Sim, buffer: &mut Growable| {
        for page in [0, 2] {
            let access = sim.mem_get_access(buffer.addr() + page * PAGE, Location::Device(PEER));
            assert_eq!(access, Ok(Access::None));
        }
    };
    assert_eq!(sweep(&machine(256), setup, |buffer| buffer.allow(PEER), unchanged), 2);
}

#[test]
fn a_handle_that_is_not_released_now_is_released_later() {
    let sim = Sim::new(machine(256));
    let mut buffer = Growable::new(sim.clone(), D, &options(16 * PAGE)).unwrap();
    buffer.grow_to(4 * PAGE).unwrap();
    sim.fail(FaultRule::nth(CallKind::Release, 2, Code::ERROR_UNKNOWN));
    assert_eq!(buffer.shrink_to(0).unwrap_err().step(), Some(Step::Release));
    assert_eq!((buffer.committed(), sim.mem_info(D).unwrap().0), (0, 256 * MIB - PAGE));
    buffer.grow_to(PAGE).unwrap();
    buffer.shrink_to(0).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 256 * MIB);
}

#[test]
fn c47_only_the_failure_of_the_handle_type_falls_back_to_file_descriptors() {
    let mut config = machine(64);
    config.devices.iter_mut().for_each(|device| device.caps.fabric = true);
    let buffer = |sim: &std::sync::Arc<Sim>| {
        Growable::new(sim.clone(), D, &GrowOptions { sharing: Sharing::Any, ..options(1 << 30) }).unwrap()
    };
    for (code, falls_back) in [
        (Code::ERROR_NOT_PERMITTED, true),
        (Code::ERROR_NOT_SUPPORTED, true),
        (Code::ERROR_OUT_OF_MEMORY, false),
        (Code::ERROR_INVALID_VALUE, false),
    ] {
        let sim = Sim::new(config.clone());
        let mut buffer = buffer(&sim);
        sim.fail(FaultRule::nth(CallKind::Create, 1, code));
        let grown = buffer.grow_to(2 * PAGE);
        assert_eq!(grown.is_ok(), falls_back, "{code:?}");
        buffer.grow_to(2 * PAGE).unwrap();
        let shared = buffer.share(0, 2 * PAGE).unwrap();
        let expected = if falls_back { HandleType::PosixFd } else { HandleType::Fabric };
        assert_eq!(shared.handle_type, expected, "{code:?}");
    }
    // A later page does not fall back: one buffer has one type.
    let sim = Sim::new(config);
    let mut buffer = buffer(&sim);
    buffer.grow_to(PAGE).unwrap();
    sim.fail(FaultRule::nth(CallKind::Create, 1, Code::ERROR_NOT_PERMITTED));
    assert!(buffer.grow_to(2 * PAGE).is_err());
    assert_eq!(Bytes(buffer.committed()), Bytes(PAGE));
}
