//! Real bytes: copies, fills, mappings, handles in other processes.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{Sim, SimConfig};

const G: u64 = 2 << 20;
const D: Device = Device(0);
const S: Stream = Stream::new(D, 1);
const GPU: Location = Location::Device(D);
const SHARED: HandleProps = HandleProps { handle_type: HandleType::PosixFd, ..HandleProps::on(D) };

fn sim() -> Arc<Sim> {
    Sim::new(SimConfig { backing: true, ..SimConfig::default() })
}

fn map(sim: &Sim, handle: Handle, bytes: u64) -> u64 {
    let base = sim.mem_address_reserve(bytes, 0, 0).unwrap();
    sim.mem_map(base, bytes, 0, handle).unwrap();
    sim.mem_set_access(base, bytes, GPU, Access::ReadWrite).unwrap();
    base
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().code
}

#[test]
fn copies_and_fills_move_bytes_between_host_and_device() {
    let sim = sim();
    let host = sim.host_alloc(1 << 20, HostFlags::default()).unwrap();
    let pageable = sim.host_malloc(1 << 20).unwrap();
    let device = sim.mem_alloc(D, 1 << 20).unwrap();
    let pattern: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    sim.write(host + 7, &pattern).unwrap();
    sim.memcpy_async(device + 100, host + 7, 200_000, S).unwrap();
    sim.memset_async(device + 1000, 9, 10, S).unwrap();
    sim.memcpy_async(pageable, device + 100, 200_000, S).unwrap();
    let mut expected = pattern;
    expected[900..910].fill(9);
    assert_eq!(sim.read(pageable, 200_000).unwrap(), expected);
    assert_eq!(sim.read(device, 100).unwrap(), [0; 100], "unwritten bytes are 0");
    assert_eq!(code(sim.read(device, 3 << 20)), Code::ERROR_INVALID_VALUE);
    assert_eq!(
        code(sim.launch(S, 1, &[(pageable, 1)], &[])),
        Code::ERROR_ILLEGAL_ADDRESS,
        "kernels need pinned memory"
    );
}

#[test]
fn two_mappings_of_a_handle_show_the_same_bytes_and_they_outlive_a_mapping() {
    let sim = sim();
    let page = sim.mem_create(2 * G, HandleProps::on(D)).unwrap();
    let (one, two) = (map(&sim, page, 2 * G), map(&sim, page, 2 * G));
    sim.memset_async(one + G - 2, 7, 4, S).unwrap();
    assert_eq!(sim.read(two + G - 3, 6).unwrap(), [0, 7, 7, 7, 7, 0]);
    sim.mem_unmap(one, 2 * G).unwrap();
    sim.mem_unmap(two, 2 * G).unwrap();
    assert_eq!(code(sim.read(one, 1)), Code::ERROR_INVALID_VALUE);
    sim.mem_map(one, 2 * G, 0, page).unwrap();
    assert_eq!(sim.read(one + G, 2).unwrap(), [7, 7]);
    let fresh = sim.mem_create(G, HandleProps::on(D)).unwrap();
    assert_eq!(sim.read(map(&sim, fresh, G), 2).unwrap(), [0, 0]);
}

#[test]
fn reads_and_writes_run_across_neighbouring_mappings() {
    let sim = sim();
    let base = sim.mem_address_reserve(2 * G, 0, 0).unwrap();
    let host = HandleProps { location: Location::HostNuma(0), ..HandleProps::on(D) };
    for (index, props) in [HandleProps::on(D), host].into_iter().enumerate() {
        let page = sim.mem_create(G, props).unwrap();
        sim.mem_map(base + index as u64 * G, G, 0, page).unwrap();
    }
    sim.write(base + G - 2, b"span").unwrap();
    assert_eq!(sim.read(base + G - 3, 6).unwrap(), b"\0span\0");
}

#[test]
fn captured_copies_move_bytes_when_the_graph_is_launched() {
    let sim = sim();
    let addr = sim.mem_alloc(D, G).unwrap();
    sim.capture_begin(S, CaptureMode::Relaxed).unwrap();
    sim.memset_async(addr, 5, 2, S).unwrap();
    sim.memcpy_async(addr + 2, addr, 2, S).unwrap();
    let graph = sim.capture_end(S).unwrap();
    assert_eq!(sim.read(addr, 4).unwrap(), [0; 4]);
    sim.graph_launch(graph, S).unwrap();
    assert_eq!(sim.read(addr, 4).unwrap(), [5; 4]);
}

#[test]
fn an_exported_descriptor_shows_the_same_bytes_to_whoever_has_it() {
    let sim = sim();
    let page = sim.mem_create(G, SHARED).unwrap();
    let addr = map(&sim, page, G);
    sim.write(addr + 10, b"before").unwrap();
    let Shareable::Fd(fd) = sim.mem_export(page, HandleType::PosixFd).unwrap() else { panic!("a descriptor") };
    let file = File::from(fd.try_clone().unwrap());
    let mut seen = [0; 6];
    file.read_exact_at(&mut seen, 10).unwrap();
    assert_eq!(&seen, b"before");
    file.write_all_at(b"after!", 10).unwrap();
    assert_eq!(sim.read(addr + 10, 6).unwrap(), b"after!");
}

#[test]
fn an_import_in_another_machine_shares_bytes_and_outlives_the_exporter() {
    let (owner, other) = (sim(), sim());
    let page = owner.mem_create(G, SHARED).unwrap();
    let shared = owner.mem_export(page, HandleType::PosixFd).unwrap();
    let imported = other.mem_import(&shared, D).unwrap();
    assert_eq!(other.mem_import(&shared, D), Ok(imported), "one memory, one more reference");
    other.mem_release(imported).unwrap();
    assert_eq!(other.mem_props(imported), Ok(SHARED));
    assert_eq!(other.mem_info(D).unwrap().0, 80 << 30, "counted where it was made");
    let (here, there) = (map(&owner, page, G), map(&other, imported, G));
    owner.write(here, b"hello").unwrap();
    assert_eq!(other.read(there, 5).unwrap(), b"hello");
    other.memset_async(there + 1, b'o', 1, S).unwrap();
    assert_eq!(owner.read(here, 5).unwrap(), b"hollo");
    drop(owner);
    assert_eq!(other.read(there, 5).unwrap(), b"hollo");
    other.mem_release(imported).unwrap();
    other.mem_unmap(there, G).unwrap();
    assert_eq!(code(other.mem_props(imported)), Code::ERROR_INVALID_VALUE);
}

#[test]
fn an_import_in_the_same_machine_is_one_more_reference() {
    let sim = Sim::new(SimConfig::default());
    let page = sim.mem_create(G, SHARED).unwrap();
    let shared = sim.mem_export(page, HandleType::PosixFd).unwrap();
    let again = sim.mem_import(&shared, D).unwrap();
    sim.mem_release(page).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, (80 << 30) - G);
    sim.mem_release(again).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 80 << 30);
}

#[test]
fn handles_leave_only_as_they_were_made_to() {
    let mut config = SimConfig::default();
    config.devices[0].caps.fabric = true;
    let sim = Sim::new(config);
    let plain = sim.mem_create(G, HandleProps::on(D)).unwrap();
    assert_eq!(code(sim.mem_export(plain, HandleType::PosixFd)), Code::ERROR_INVALID_VALUE);
    let fabric = sim.mem_create(G, HandleProps { handle_type: HandleType::Fabric, ..HandleProps::on(D) }).unwrap();
    assert_eq!(code(sim.mem_export(fabric, HandleType::PosixFd)), Code::ERROR_INVALID_VALUE);
    let shared = sim.mem_export(fabric, HandleType::Fabric).unwrap();
    assert_eq!(sim.mem_import(&shared, D), Ok(fabric));
    sim.mem_release(fabric).unwrap();
    sim.mem_release(fabric).unwrap();
    assert_eq!(code(sim.mem_import(&shared, D)), Code::ERROR_INVALID_VALUE, "its memory is gone");
    assert_eq!(code(sim.mem_import(&Shareable::Fabric([7; 64]), D)), Code::ERROR_INVALID_VALUE);
}

#[test]
fn a_descriptor_of_anything_else_is_not_a_handle() {
    let sim = sim();
    let import = |fd: OwnedFd| sim.mem_import(&Shareable::Fd(Arc::new(fd)), D);
    assert_eq!(code(import(File::open("/dev/null").unwrap().into())), Code::ERROR_INVALID_VALUE);
    assert_eq!(code(import(File::open("Cargo.toml").unwrap().into())), Code::ERROR_INVALID_VALUE);
    // A file that claims more than it has.
    let page = sim.mem_create(G, SHARED).unwrap();
    let Shareable::Fd(fd) = sim.mem_export(page, HandleType::PosixFd).unwrap() else { panic!("a descriptor") };
    let file = File::from(fd.try_clone().unwrap());
    file.write_all_at(&(4 * G).to_le_bytes(), G + 8).unwrap();
    assert_eq!(code(Sim::new(SimConfig::default()).mem_import(&Shareable::Fd(fd), D)), Code::ERROR_INVALID_VALUE);
}

#[test]
fn without_backing_there_are_no_bytes_to_read() {
    let sim = Sim::new(SimConfig::default());
    let addr = sim.mem_alloc(D, G).unwrap();
    assert_eq!(code(sim.read(addr, 1)), Code::ERROR_NOT_SUPPORTED);
    assert_eq!(code(sim.write(addr, &[1])), Code::ERROR_NOT_SUPPORTED);
    sim.memset_async(addr, 1, G, S).unwrap();
}
