//! Expandable segments: peers (R4.24), reserves (R4.25–R4.29), listing (R4.39), the switch (R4.40).

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{BASE, DEVICE, GIB, KIB, MIB, Machine, machine, on, stream};
use millpond::config::{Dialect, Settings};
use millpond::size::SizeClass;
use millpond::{Allocator, BlockUse, Error, Hint, PoolId, World};
use millpond_driver::{Access, Bytes, Device, Location, Peers, Virtual};
use millpond_sim::{CallKind, DeviceConfig, Sim, SimConfig};

const ON: &str = "expandable_segments:True";

fn two_devices() -> Machine {
    let device = DeviceConfig::with_capacity(Bytes(GIB));
    Machine::with(SimConfig { devices: vec![device.clone(), device], ..SimConfig::default() }, ON)
}

/// Whether every mapped page of every segment can be used by both devices; how many pages there are.
fn shared_pages(m: &Machine) -> (usize, bool) {
    let mut pages = BTreeSet::new();
    for segment in m.a.segments() {
        for block in segment.blocks.iter().filter(|block| block.state != BlockUse::Unmapped) {
            let (first, last) = (block.addr - segment.base, block.addr + block.size - 1 - segment.base);
            let numbers = first / segment.page..=last / segment.page;
            pages.extend(numbers.map(|page| segment.base + page * segment.page));
        }
    }
    let is_shared = |&page: &u64| {
        let access = |device| m.sim.mem_get_access(page, Location::Device(Device(device))).unwrap();
        access(0) == Access::ReadWrite && access(1) == Access::ReadWrite
    };
    (pages.len(), pages.iter().all(is_shared))
}

/// C45: pages mapped before, after, and mapped again.
#[test]
fn c45_r4_24_a_peer_has_access_to_every_mapped_page() {
    let m = two_devices();
    let (large, small) = (m.alloc(16 * MIB), m.alloc(1000));
    assert_eq!(shared_pages(&m), (2, false), "nobody but the owner");
    m.a.enable_peer_access(Device(1)).unwrap();
    assert_eq!(shared_pages(&m), (2, true), "mapped before");
    let more = [m.alloc(64 * MIB), m.alloc_on(30 * MIB, 1)];
    assert!(shared_pages(&m).1 && shared_pages(&m).0 >= 6, "mapped after, in old and new segments");
    m.free_all([large, small, more[0], more[1]]);
    m.empty();
    assert_eq!((m.reserved(), shared_pages(&m).0), (0, 0));
    m.alloc(16 * MIB);
    assert_eq!(shared_pages(&m), (1, true), "mapped again");
}

#[test]
fn r4_8_access_is_set_once_for_each_batch_and_device() {
    let m = two_devices();
    m.alloc(50 * MIB);
    assert_eq!((m.calls(CallKind::Map), m.calls(CallKind::SetAccess)), (3, 1), "three pages, one call");
    m.a.enable_peer_access(Device(1)).unwrap();
    assert_eq!(m.calls(CallKind::SetAccess), 2);
    // Once in the list is enough (R4.24), and plain peer access may be there already.
    m.a.enable_peer_access(Device(1)).unwrap();
    let before = m.calls(CallKind::SetAccess);
    m.alloc(50 * MIB);
    assert_eq!(m.calls(CallKind::SetAccess) - before, 2, "one for each device");
}

#[test]
fn r4_24_peer_access_that_is_enabled_already_is_no_error() {
    let m = two_devices();
    m.sim.enable_peer_access(Device(1), DEVICE).unwrap();
    m.a.enable_peer_access(Device(1)).unwrap();
    let block = m.alloc(16 * MIB);
    m.sim.launch(millpond_driver::Stream::new(Device(1), 1), 1, &[], &[(block, 16 * MIB)]).unwrap();
}

/// The reserve of the segment that a request of 1000 bytes on a stream of 8 GiB gets.
fn reserve(m: &Machine, raw: u64) -> u64 {
    let addr = m.alloc_on(4 * MIB, raw);
    m.a.segments().into_iter().find(|segment| segment.base <= addr && addr < segment.base + segment.size).unwrap().size
}

/// 20 MiB pages: the reserve is rounded up to them.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(20 * MIB) * 20 * MIB
}

#[test]
fn r4_2_without_a_setting_nine_eighths_of_the_device_are_reserved() {
    let m = machine(8 * GIB, ON);
    assert_eq!(reserve(&m, 0), pages(9 * GIB));
    m.alloc(1000);
    assert_eq!(m.a.segments()[1].size, 9 * GIB, "small pages are of 2 MiB");
    assert_eq!(m.a.world().expandable_segments(), (2, pages(9 * GIB) + 9 * GIB), "R4.5");
}

#[test]
fn r4_27_a_reserve_is_clamped_to_nine_eighths() {
    for (value, bytes) in [("0.5", 4 * GIB), ("2G", 2 * GIB), ("0.25g", GIB / 4), ("2.0", 9 * GIB), ("1e30G", 9 * GIB)]
    {
        let m = machine(8 * GIB, &format!("{ON},expandable_segments_reserve:{value}"));
        assert_eq!(reserve(&m, 0), pages(bytes), "{value}");
    }
}

#[test]
fn r4_28_the_class_of_a_stream_decides_when_its_segment_is_made() {
    let conf = format!("{ON},expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[kv:1G,tiny:0.0625]");
    let m = machine(8 * GIB, &conf);
    let world = m.a.world();
    assert_eq!(world.reserve_class(1), None);
    world.set_reserve_class(1, "kv");
    world.set_reserve_class(2, "tiny");
    world.set_reserve_class(3, "nobody");
    assert_eq!(world.reserve_class(1).as_deref(), Some("kv"));
    assert_eq!([reserve(&m, 1), reserve(&m, 2)], [pages(GIB), pages(GIB / 2)]);
    assert_eq!(
        [reserve(&m, 3), reserve(&m, 4)],
        [pages(4 * GIB); 2],
        "an unknown class and no class: the global value"
    );
    world.set_reserve_class(1, "tiny");
    assert_eq!(reserve(&m, 1), pages(GIB), "a segment that exists is not resized");
    world.set_reserve_class(1, "");
    assert_eq!(world.reserve_class(1), None);
    // A new one for the stream, in the small pool: by its class then.
    m.alloc_on(1000, 1);
    assert_eq!(m.a.segments().last().unwrap().size, 4 * GIB);
}

#[test]
fn r4_29_a_default_from_code_gives_way_to_what_was_set() {
    let class = |text: &str| {
        let (mut settings, _) = Settings::parse(text).unwrap();
        settings.set_default_reserve_for_class("kv", 0.25);
        settings.reserve_for(Some("kv"), 8 * GIB)
    };
    assert_eq!(class(""), (2 * GIB, true));
    assert_eq!(class("expandable_segments_reserve:0.5"), (4 * GIB, false));
    assert_eq!(class("expandable_segments_reserve_by_class:[kv:1G]"), (GIB, true));
}

/// R4.12, R2.48, L5: one allocation cannot span two segments. Known only after the whole ladder.
#[test]
fn r4_12_a_request_above_the_reserve_is_out_of_memory_and_says_why() {
    let conf = format!("{ON},expandable_segments_reserve:1G,expandable_segments_reserve_by_class:[kv:0.5G]");
    let m = machine(8 * GIB, &conf);
    m.a.world().set_reserve_class(1, "kv");
    let refused = |size, raw| match m.a.alloc(size, stream(raw), &on(raw)).unwrap_err() {
        Error::OutOfMemory(oom) => (oom.hint.clone(), oom.to_string()),
        error => panic!("{error}"),
    };
    let (hint, text) = refused(2 * GIB, 0);
    assert_eq!(hint, Hint::ReserveTooSmall { reserve: GIB, class: None });
    assert!(text.contains("for this stream") && text.contains("expandable_segments_reserve_by_class"), "{text}");
    let (hint, text) = refused(GIB, 1);
    assert_eq!(hint, Hint::ReserveTooSmall { reserve: GIB / 2, class: Some("kv".to_owned()) });
    assert!(text.contains("for stream reserve class 'kv'"), "{text}");
    assert_eq!(m.calls(CallKind::Create), 0, "no memory was made");
    assert_eq!((m.calls(CallKind::Reserve), m.calls(CallKind::AddrFree)), (4, 4), "ranges come and go, two a request");
    assert_eq!((m.stat("num_ooms"), m.stat("num_alloc_retries")), (2, 2));
    // Above the whole device the reserve is not to blame.
    assert_eq!(refused(9 * GIB, 0).0, Hint::AddressSpace);
}

#[test]
fn r4_39_segments_are_listed_without_those_of_the_default_stream() {
    let m = machine(GIB, ON);
    m.alloc(4 * MIB);
    m.alloc_on(30 * MIB, 2);
    m.alloc_on(KIB, 1);
    let listed = |default| {
        let segments = m.a.expandable_segments(default).into_iter();
        segments.map(|segment| (segment.stream.raw, segment.class, segment.mapped)).collect::<Vec<_>>()
    };
    let others = [(2, SizeClass::Large, 40 * MIB), (1, SizeClass::Small, 2 * MIB)];
    assert_eq!(listed(false), others);
    assert_eq!(listed(true), [(0, SizeClass::Large, 20 * MIB), others[0], others[1]]);
}

#[test]
fn r4_40_off_free_expandable_blocks_are_passed_over() {
    let m = machine(GIB, ON);
    let set = |text: &str| drop(m.a.world().configure(text, Dialect::Torch).unwrap());
    let pages = m.alloc(40 * MIB);
    m.free(pages);
    set("expandable_segments:False");
    let plain = m.alloc(30 * MIB);
    assert_eq!((m.calls(CallKind::Malloc), m.reserved()), (1, 70 * MIB));
    m.free(plain);
    set("expandable_segments:True");
    // R1.20: the best fit is the plain segment, and R1.15 splits it by the switch, not by its kind.
    let again = m.alloc(30 * MIB - 512);
    assert_eq!(again, plain);
    assert_eq!(m.a.size_of(again).unwrap().1, 30 * MIB - 512);
    assert_eq!(m.alloc(40 * MIB), pages);
    assert_eq!(m.calls(CallKind::Malloc), 1);
}

/// R4.19, R4.22: whole pages inside a free block go; when all are gone the segment and its addresses go too.
#[test]
fn r4_19_emptying_unmaps_whole_pages_and_keeps_the_edges() {
    let m = machine(GIB, ON);
    let [a, b, c] = [10 * MIB, 50 * MIB, 10 * MIB].map(|size| m.alloc(size));
    assert_eq!(m.reserved(), 80 * MIB);
    m.free(b);
    m.empty();
    use BlockUse::{Free, Live, Unmapped};
    let blocks: Vec<_> = m.blocks().into_iter().take(6).collect();
    assert_eq!(
        blocks[..5],
        [
            (0, 10 * MIB, Live),
            (10 * MIB, 10 * MIB, Free),
            (20 * MIB, 40 * MIB, Unmapped),
            (60 * MIB, 10 * MIB, Live),
            (70 * MIB, 10 * MIB, Free),
        ]
    );
    assert_eq!((m.reserved(), m.stat("num_device_free")), (40 * MIB, 1));
    // R4.11: the gap is filled first, from the free block before it.
    assert_eq!(m.alloc(45 * MIB), BASE + 10 * MIB);
    m.free(BASE + 10 * MIB);
    m.free_all([a, c]);
    m.empty();
    assert_eq!((m.reserved(), m.calls(CallKind::AddrFree), m.a.world().expandable_segments()), (0, 1, (0, 0)));
    assert_eq!((m.stat("segment.all.allocated"), m.stat("inactive_split.all.peak")), (0, 0), "S20, R4.15");
}

/// R4.4: an address space that is used up is an error of the driver, not an OOM.
#[test]
fn r4_4_no_room_for_a_reservation_is_no_oom() {
    let config = SimConfig { va_end: BASE + 10 * GIB, ..SimConfig::with_capacity(Bytes(8 * GIB)) };
    let m = Machine::with(config, ON);
    let block = m.alloc(4 * MIB);
    let error = m.a.alloc(4 * MIB, stream(1), &on(1)).unwrap_err();
    assert!(matches!(error, Error::Driver(_)) && !error.is_out_of_memory(), "{error}");
    assert!(error.to_string().starts_with("CUDA driver error: out of memory"), "{error}");
    assert_eq!((m.stat("num_ooms"), m.a.world().expandable_segments().0), (0, 1));
    m.free(block);
    m.empty();
    m.alloc_on(4 * MIB, 1);
}

/// Segments of both devices count in the gauges of one world (R4.5).
#[test]
fn r4_5_the_gauges_are_the_worlds() {
    let device = DeviceConfig::with_capacity(Bytes(GIB));
    let sim = Sim::new(SimConfig { devices: vec![device.clone(), device], ..SimConfig::default() });
    let world = World::new(Settings::parse(ON).unwrap().0);
    let [a, b] = [0, 1].map(|d| Allocator::new(sim.clone(), Device(d), Arc::clone(&world)).unwrap());
    let first = a.alloc(1000, stream(0), &on(0)).unwrap();
    let other = millpond_driver::Stream::default_of(Device(1));
    let second = b.alloc(1000, other, &millpond::Caller::on(other)).unwrap();
    assert_eq!(world.expandable_segments(), (2, 2 * (GIB + GIB / 8)));
    assert_eq!(a.segments_of(PoolId::DEFAULT).len(), 1);
    a.free(first, &on(0)).unwrap();
    b.free(second, &millpond::Caller::on(other)).unwrap();
    drop((a, b));
    assert_eq!(world.expandable_segments(), (0, 0));
}
