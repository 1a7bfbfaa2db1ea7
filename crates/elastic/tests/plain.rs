//! Plain allocations between processes: kind 'c' of the IPC string (R4.34, R4.36, R4.38).

mod common;

use std::io::{Read, Write};
use std::sync::Arc;

use common::meeting::*;
use common::*;
use millpond_driver::{Async, Code, Ipc, Memory, Stream};
use millpond_elastic::share::{Imports, IpcHandle, SharedPlain};
use millpond_elastic::{Error, Step};
use millpond_sim::{CallKind, Sim};

/// Two machines: one for the memory, one that opens it.
fn two_machines() -> (Arc<Sim>, Arc<Sim>) {
    (Sim::new(machine(64)), Sim::new(machine(64)))
}

#[test]
fn r4_34_a_plain_allocation_is_shared_by_its_base_and_an_offset() {
    let (owner, other) = two_machines();
    let addr = owner.mem_alloc(D, 20 * MIB).unwrap();
    owner.write(addr + 5 * MIB, &pattern(5)).unwrap();
    let shared = SharedPlain::of(&*owner, addr + 5 * MIB).unwrap();
    assert_eq!((shared.offset, shared.bytes), (5 * MIB, 20 * MIB));
    assert_eq!(SharedPlain::of(&*owner, addr).unwrap().handle, shared.handle, "one handle for one allocation");
    let string = shared.ipc_handle().encode();
    assert_eq!((&string[..2], &string[2..]), (&[3, b'c'][..], &shared.handle[..]));

    let imported = Imports::new(other.clone(), D).open(&string).unwrap();
    assert_eq!(imported.len(), 20 * MIB);
    assert_eq!(other.read(imported.addr() + shared.offset, 64).unwrap(), pattern(5));
    assert_eq!(other.mem_info(D).unwrap().0, 64 * MIB, "the memory is counted where it was made");
    // Work of a device finds it, no further than the allocation goes.
    other.memset_async(imported.addr() + 19 * MIB, 7, MIB, STREAM).unwrap();
    assert_eq!(owner.read(addr + 20 * MIB - 2, 2).unwrap(), [7, 7]);
    assert!(other.memset_async(imported.addr() + 19 * MIB, 7, 3 * MIB, STREAM).is_err());
}

#[test]
fn r4_36_64_bytes_without_a_version_are_opened_too() {
    let (owner, other) = two_machines();
    let addr = owner.mem_alloc(D, MIB).unwrap();
    mark(&owner, addr, MIB, 1);
    let shared = SharedPlain::of(&*owner, addr).unwrap();
    let imports = Imports::new(other.clone(), D);
    let (legacy, today) = (imports.open(&shared.handle).unwrap(), imports.open(&shared.ipc_handle().encode()).unwrap());
    assert!(is_marked(&other, legacy.addr(), MIB, 1));
    // The cache goes by the whole string; the driver counts for itself and gives the same address.
    assert_eq!((legacy.addr(), other.count(CallKind::IpcOpen)), (today.addr(), 2));
    drop(legacy);
    assert!(is_marked(&other, today.addr(), MIB, 1));
}

#[test]
fn r4_38_one_plain_handle_is_open_once_and_goes_with_its_last_owner() {
    let (owner, other) = two_machines();
    let addr = owner.mem_alloc(D, 4 * MIB).unwrap();
    let string = SharedPlain::of(&*owner, addr).unwrap().ipc_handle().encode();
    let imports = Imports::new(other.clone(), D);
    let (a, b) = (imports.open(&string).unwrap(), imports.open(&string).unwrap());
    assert_eq!((a.addr(), imports.open_handles(), other.count(CallKind::IpcOpen)), (b.addr(), 1, 1));
    let at = a.addr();
    drop(a);
    assert_eq!((imports.open_handles(), other.count(CallKind::IpcClose)), (1, 0));
    drop(b);
    assert_eq!((imports.open_handles(), other.count(CallKind::IpcClose)), (0, 1));
    assert_eq!(other.count(CallKind::DeviceSynchronize), 1, "the device is waited for");
    assert!(other.read(at, 1).is_err());
    assert!(owner.read(addr, 1).is_ok(), "the memory stays with its owner");
    imports.open(&string).unwrap();
    assert_eq!(other.count(CallKind::IpcOpen), 2);
}

#[test]
fn what_cannot_be_shared_or_opened_is_named() {
    let (owner, other) = two_machines();
    let plain = owner.mem_alloc(D, 4 * MIB).unwrap();
    let shared = SharedPlain::of(&*owner, plain).unwrap();
    let driver = |error: Error| match error {
        Error::Driver { step, source } => (step, source.code),
        other => panic!("{other}"),
    };
    // In the process that made it.
    let error = Imports::new(owner.clone(), D).open(&shared.handle).unwrap_err();
    assert_eq!(driver(error), (Step::Import, Code::ERROR_INVALID_CONTEXT));
    // Memory that is gone, and 64 bytes of something else.
    owner.mem_free(D, plain).unwrap();
    let imports = Imports::new(other.clone(), D);
    for handle in [shared.handle, [1; 64]] {
        assert_eq!(driver(imports.open(&handle).unwrap_err()), (Step::Import, Code::ERROR_INVALID_HANDLE));
    }
    // Memory of pools, pages, managed memory: no handle.
    let pool = owner.default_mem_pool(D).unwrap();
    let pooled = owner.mem_alloc_async(pool, MIB, STREAM).unwrap();
    let managed = owner.mem_alloc_managed(D, MIB).unwrap();
    for addr in [pooled, managed] {
        let error = SharedPlain::of(&*owner, addr).unwrap_err();
        assert_eq!(driver(error), (Step::Export, Code::ERROR_INVALID_VALUE));
    }
    assert_eq!(driver(SharedPlain::of(&*owner, 5).unwrap_err()), (Step::Ask, Code::ERROR_NOT_FOUND));
    // What was opened is not this process's to free or to share on.
    let again = owner.mem_alloc(D, 4 * MIB).unwrap();
    let opened = other.ipc_open(D, &SharedPlain::of(&*owner, again).unwrap().handle).unwrap();
    assert_eq!(other.mem_free(D, opened).unwrap_err().code, Code::ERROR_INVALID_VALUE);
    assert_eq!(other.ipc_handle(opened).unwrap_err().code, Code::ERROR_INVALID_VALUE);
    other.ipc_close(D, opened).unwrap();
    assert_eq!(other.ipc_close(D, opened).unwrap_err().code, Code::ERROR_INVALID_VALUE, "closed twice");
}

#[test]
fn another_device_is_let_in_as_a_whole() {
    let (owner, other) = two_machines();
    let addr = owner.mem_alloc(D, MIB).unwrap();
    let imported = Imports::new(other.clone(), D).open(&SharedPlain::of(&*owner, addr).unwrap().handle).unwrap();
    let by_peer = || other.launch(Stream::new(PEER, 1), 1, &[(imported.addr(), MIB)], &[]);
    assert_eq!(by_peer().unwrap_err().code, Code::ERROR_ILLEGAL_ADDRESS);
    // A kernel that did that has broken the device.
    other.clear_faults();
    imported.allow(PEER).unwrap();
    imported.allow(PEER).unwrap();
    imported.allow(D).unwrap();
    by_peer().unwrap();
    assert_eq!(other.count(CallKind::EnablePeerAccess), 1);
    // Opened for the peer itself, access is enabled with it, as the driver's flag says.
    let third = Sim::new(machine(64));
    let opened = Imports::new(third.clone(), PEER).open(&SharedPlain::of(&*owner, addr).unwrap().handle).unwrap();
    third.launch(Stream::new(PEER, 1), 1, &[(opened.addr(), MIB)], &[]).unwrap();
}

#[test]
fn c47_a_failure_anywhere_in_opening_leaves_nothing_behind() {
    let owner = Sim::new(machine(64));
    let addr = owner.mem_alloc(D, 4 * MIB).unwrap();
    let string = SharedPlain::of(&*owner, addr).unwrap().ipc_handle().encode();
    let open = |(imports, imported): &mut (Imports, _)| {
        *imported = Some(imports.open(&string)?);
        Ok::<_, Error>(())
    };
    let setup = |sim: &Arc<Sim>| (Imports::new(sim.clone(), D), None);
    let calls = sweep(&machine(64), setup, open, |_, (imports, _)| assert_eq!(imports.open_handles(), 0));
    assert_eq!(calls, 2, "opening, and asking for its size");
}

// ── Two processes ──

#[test]
fn r4_34_two_processes_see_the_bytes_of_a_plain_allocation() {
    let sim = Sim::new(machine(256));
    let addr = sim.mem_alloc(D, 20 * MIB).unwrap();
    mark(&sim, addr + 4 * MIB, MIB, 44);
    let shared = SharedPlain::of(&*sim, addr + 4 * MIB).unwrap();
    let mut meeting = meet("other_process_answers_in_the_plain_allocation");
    meeting.socket.write_all(&shared.offset.to_le_bytes()).unwrap();
    meeting.socket.write_all(&shared.ipc_handle().encode()).unwrap();
    meeting.socket.read_exact(&mut [0]).unwrap();
    assert!(meeting.child.wait().unwrap().success());
    // The other process is gone; what it wrote stays.
    assert!(is_marked(&sim, addr + 4 * MIB, MIB, 45));
    sim.mem_free(D, addr).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 256 * MIB);
}

#[test]
#[ignore = "the other process of a test"]
fn other_process_answers_in_the_plain_allocation() {
    let Some((sim, mut socket)) = other_process() else { return };
    let (mut offset, mut string) = ([0; 8], [0; 66]);
    socket.read_exact(&mut offset).unwrap();
    socket.read_exact(&mut string).unwrap();
    assert!(matches!(IpcHandle::decode(&string), Ok(IpcHandle::Plain(_))));
    let imported = Imports::new(sim.clone(), D).open(&string).unwrap();
    let place = imported.addr() + u64::from_le_bytes(offset);
    assert!(is_marked(&sim, place, MIB, 44));
    assert_eq!(sim.mem_info(D).unwrap().0, 64 * MIB);
    mark(&sim, place, MIB, 45);
    socket.write_all(&[1]).unwrap();
}

#[test]
fn what_is_open_outlives_the_process_that_made_it_and_opens_no_more() {
    let sim = Sim::new(machine(256));
    let mut meeting = meet("other_process_makes_a_plain_allocation");
    let mut string = [0; 66];
    meeting.socket.read_exact(&mut string).unwrap();
    let imports = Imports::new(sim.clone(), D);
    let imported = imports.open(&string).unwrap();
    meeting.child.kill().unwrap();
    meeting.child.wait().unwrap();
    assert!(is_marked(&sim, imported.addr(), MIB, 9));
    drop(imported);
    let error = imports.open(&string).unwrap_err();
    assert!(error.step() == Some(Step::Import) && error.to_string().contains("is gone"), "{error}");
    assert_eq!(Ledger::default().held(&sim), Held { device_free: 256 * MIB, ..Held::default() });
}

#[test]
#[ignore = "the other process of a test"]
fn other_process_makes_a_plain_allocation() {
    let Some((sim, mut socket)) = other_process() else { return };
    let addr = sim.mem_alloc(D, 2 * MIB).unwrap();
    mark(&sim, addr, MIB, 9);
    socket.write_all(&SharedPlain::of(&*sim, addr).unwrap().ipc_handle().encode()).unwrap();
    let _ = socket.read(&mut [0]);
}
