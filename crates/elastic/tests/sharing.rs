//! Sharing memory: handles, sockets, processes that live and processes that die.

mod common;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use common::meeting::*;
use common::*;
use millpond_driver::{Access, Bytes, HandleType, Location, Memory, Shareable, Stream, Virtual};
use millpond_elastic::share::{HandleError, Imports, IpcHandle, PageHandles, ProcessError, receive, send};
use millpond_elastic::{Error, GrowOptions, Growable, Sharing, Step};
use millpond_sim::{CallKind, Sim, SimConfig};

fn shareable(sim: &Arc<Sim>, sharing: Sharing) -> Growable {
    let options = GrowOptions { page: PAGE, sharing, ..GrowOptions::up_to(1 << 30) };
    Growable::new(sim.clone(), D, &options).unwrap()
}

fn fabric_machine() -> SimConfig {
    let mut config = machine(256);
    config.devices[0].caps.fabric = true;
    config
}

#[test]
fn c43_the_handle_names_type_and_count_and_a_receiver_without_state_reads_it() {
    for (sharing, handle_type) in [(Sharing::Any, HandleType::Fabric), (Sharing::PosixFd, HandleType::PosixFd)] {
        let sim = Sim::new(fabric_machine());
        let mut buffer = shareable(&sim, sharing);
        buffer.grow_to(4 * PAGE).unwrap();
        (0..4).for_each(|page| mark(&sim, buffer.addr() + page * PAGE, PAGE, page));
        let shared = buffer.share(PAGE + 5, 2 * PAGE).unwrap();
        assert_eq!((shared.handle_type, shared.handles.len(), shared.offset), (handle_type, 3, 5));
        let handle = shared.ipc_handle();
        let IpcHandle::Pages(pages) = &handle else { panic!("pages") };
        assert_eq!((pages.pid as u32, pages.page, pages.count()), (std::process::id(), PAGE, 3));
        assert_eq!(matches!(pages.handles, PageHandles::Fabric(_)), handle_type == HandleType::Fabric);

        let imports = Imports::new(sim.clone(), D);
        let imported = imports.open(&handle.encode()).unwrap();
        assert_eq!(imported.len(), 3 * PAGE);
        assert!((0..3).all(|page| is_marked(&sim, imported.addr() + page * PAGE, PAGE, page + 1)));
    }
}

#[test]
fn r4_37_an_import_reserves_what_was_shared_and_no_more() {
    let sim = Sim::new(machine(256));
    let mut buffer = shareable(&sim, Sharing::PosixFd);
    buffer.grow_to(8 * PAGE).unwrap();
    let shared = buffer.share(2 * PAGE, 3 * PAGE).unwrap();
    sim.take_log();
    let free = sim.mem_info(D).unwrap();
    let imported = Imports::new(sim.clone(), D).map(&shared).unwrap();
    let log = sim.take_log();
    let sizes = |kind| log.iter().filter(|call| call.kind == kind).map(|call| call.size).collect::<Vec<_>>();
    assert_eq!((sizes(CallKind::Reserve), sizes(CallKind::SetAccess)), (vec![3 * PAGE], vec![3 * PAGE]));
    assert_eq!((sizes(CallKind::Import).len(), sizes(CallKind::Map).len()), (3, 3));
    assert_eq!(sim.mem_info(D).unwrap(), free, "no new memory");
    assert!(sim.launch(Stream::new(PEER, 1), 1, &[], &[]).is_ok());
    imported.allow(PEER).unwrap();
    assert_eq!(sim.mem_get_access(imported.addr(), Location::Device(PEER)), Ok(Access::ReadWrite));
    drop(imported);
    assert_eq!(sim.count(CallKind::DeviceSynchronize), 1, "the device is waited for (R4.38)");
}

fn descriptor(handle: &Shareable) -> Option<std::sync::Weak<OwnedFd>> {
    match handle {
        Shareable::Fd(descriptor) => Some(Arc::downgrade(descriptor)),
        Shareable::Fabric(_) => None,
    }
}

#[test]
fn r4_35_pages_are_exported_once_and_their_descriptors_closed_with_them() {
    let sim = Sim::new(machine(256));
    let mut buffer = shareable(&sim, Sharing::PosixFd);
    buffer.grow_to(3 * PAGE).unwrap();
    let first = buffer.share(0, 2 * PAGE).unwrap().ipc_handle();
    let again = buffer.share(0, 2 * PAGE).unwrap().ipc_handle();
    assert_eq!((&first, sim.count(CallKind::Export)), (&again, 2));
    buffer.share(PAGE, 2 * PAGE).unwrap();
    assert_eq!(sim.count(CallKind::Export), 3);
    let shared = buffer.share(0, 2 * PAGE).unwrap();
    let open: Vec<_> = shared.handles.iter().filter_map(descriptor).collect();
    drop(shared);
    buffer.shrink_to(PAGE).unwrap();
    let still_open: Vec<bool> = open.iter().map(|descriptor| descriptor.strong_count() > 0).collect();
    assert_eq!(still_open, [true, false], "closed with their pages");
    assert!(matches!(buffer.share(0, 2 * PAGE), Err(Error::NotCommitted { offset: PAGE })));
}

#[test]
fn r4_38_one_handle_is_open_once_and_goes_with_its_last_owner() {
    let sim = Sim::new(machine(256));
    let mut buffer = shareable(&sim, Sharing::PosixFd);
    buffer.grow_to(2 * PAGE).unwrap();
    let shared = buffer.share(0, 2 * PAGE).unwrap();
    let handle = shared.ipc_handle().encode();
    let imports = Imports::new(sim.clone(), D);
    let (a, b) = (imports.open(&handle).unwrap(), imports.open(&handle).unwrap());
    assert_eq!((a.addr(), imports.open_handles(), sim.count(CallKind::Import)), (b.addr(), 1, 2));
    drop(a);
    assert_eq!(imports.open_handles(), 1);
    drop(b);
    assert_eq!((imports.open_handles(), sim.count(CallKind::Unmap)), (0, 1));
    imports.open(&handle).unwrap();
    assert_eq!(sim.count(CallKind::Import), 4);
}

#[test]
fn c43_what_cannot_be_opened_is_named() {
    let sim = Sim::new(machine(64));
    let imports = Imports::new(sim.clone(), D);
    let open = |handle: IpcHandle| imports.open(&handle.encode()).unwrap_err();
    let plain = open(IpcHandle::Plain([1; 64]));
    assert!(plain.step() == Some(Step::Import), "{plain}");
    let pages = |pid, handles| IpcHandle::Pages(millpond_elastic::share::IpcPages { pid, page: PAGE, handles });
    let own = std::process::id() as i32;
    // This machine imports no fabric handles.
    assert!(matches!(open(pages(own, PageHandles::Fabric(vec![[0; 64]]))), Error::NotExportable { .. }));
    let closed = open(pages(own, PageHandles::Fds(vec![9999])));
    assert!(closed.to_string().contains("file descriptor 9999"), "{closed}");
    let gone = open(pages(-1, PageHandles::Fds(vec![1])));
    assert!(matches!(gone, Error::Process(ProcessError::Gone { pid: -1 })));
    // A descriptor of something else: the driver's answer, with its step.
    let other = open(pages(own, PageHandles::Fds(vec![0])));
    assert!(other.step() == Some(Step::Import) || matches!(other, Error::Process(_)), "{other}");
    assert_eq!(Ledger::default().held(&sim), Held { device_free: 64 * MIB, ..Held::default() });
}

#[test]
fn c47_a_failure_anywhere_in_importing_leaves_nothing_behind() {
    let setup = |sim: &Arc<Sim>| {
        let mut buffer = shareable(sim, Sharing::PosixFd);
        buffer.grow_to(2 * PAGE).unwrap();
        let shared = buffer.share(0, 2 * PAGE).unwrap();
        (buffer, shared, Imports::new(sim.clone(), D), None)
    };
    let open = |(_, shared, imports, imported): &mut (Growable, millpond_elastic::share::Shared, Imports, _)| {
        *imported = Some(imports.open(&shared.ipc_handle().encode())?);
        Ok::<_, Error>(())
    };
    let calls = sweep(&machine(64), setup, open, |_, (_, _, imports, _)| assert_eq!(imports.open_handles(), 0));
    // Questions about the device, a reservation; an import, a question and a map for each page; one set-access.
    assert_eq!(calls, 4 + 2 * 3 + 1);
}

#[test]
fn a_socket_carries_more_handles_than_one_message_and_refuses_strangers() {
    let sim = Sim::new(machine(512));
    let mut buffer = shareable(&sim, Sharing::PosixFd);
    buffer.grow_to(150 * PAGE).unwrap();
    let shared = buffer.share(7, 150 * PAGE - 7).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| send(&here, &shared).unwrap());
        let received = receive(&there).unwrap();
        assert_eq!((received.handles.len(), received.offset, received.bytes), (150, 7, 150 * PAGE - 7));
        let imported = Imports::new(sim.clone(), D).map(&received).unwrap();
        mark(&sim, buffer.addr() + 149 * PAGE, PAGE, 149);
        assert!(is_marked(&sim, imported.addr() + 149 * PAGE, PAGE, 149));
    });
    let mut here = here;
    here.write_all(&[b'x'; 48]).unwrap();
    assert!(matches!(receive(&there), Err(Error::Handle(HandleError::Kind(b'x')))));
    let mut header = b"millpond".to_vec();
    header.extend([PAGE, u64::MAX, 0, 1, 1].into_iter().flat_map(u64::to_le_bytes));
    here.write_all(&header).unwrap();
    assert!(matches!(receive(&there), Err(Error::Handle(HandleError::Size { .. }))));
    drop(here);
    assert!(matches!(receive(&there), Err(Error::Closed { received: 0, expected: 0 })));
}

#[test]
fn fabric_handles_travel_over_a_socket_too() {
    let sim = Sim::new(fabric_machine());
    let mut buffer = shareable(&sim, Sharing::Fabric);
    buffer.grow_to(3 * PAGE).unwrap();
    mark(&sim, buffer.addr() + PAGE, PAGE, 1);
    let (here, there) = UnixStream::pair().unwrap();
    send(&here, &buffer.share(0, 3 * PAGE).unwrap()).unwrap();
    let imported = Imports::new(sim.clone(), D).map(&receive(&there).unwrap()).unwrap();
    assert!(is_marked(&sim, imported.addr() + PAGE, PAGE, 1));
}

// ── Two processes ──

#[test]
fn two_processes_see_each_others_bytes() {
    let sim = Sim::new(machine(256));
    let mut buffer = shareable(&sim, Sharing::PosixFd);
    buffer.grow_to(4 * PAGE).unwrap();
    (0..4).for_each(|page| mark(&sim, buffer.addr() + page * PAGE, PAGE, page));
    let mut meeting = meet("other_process_marks_the_third_page");
    send(&meeting.socket, &buffer.share(PAGE, 3 * PAGE).unwrap()).unwrap();
    let mut answer = [0];
    meeting.socket.read_exact(&mut answer).unwrap();
    assert!(is_marked(&sim, buffer.addr() + 3 * PAGE, PAGE, 33), "what the other process wrote");
    assert!(is_marked(&sim, buffer.addr() + 2 * PAGE, PAGE, 2));
    assert!(meeting.child.wait().unwrap().success());
    // The other process is gone; the memory is as it was.
    assert!(is_marked(&sim, buffer.addr() + 3 * PAGE, PAGE, 33));
    drop(buffer);
    assert_eq!(Bytes(sim.mem_info(D).unwrap().0), Bytes(256 * MIB));
}

#[test]
#[ignore = "the other process of a test"]
fn other_process_marks_the_third_page() {
    let Some((sim, mut socket)) = other_process() else { return };
    let imported = Imports::new(sim.clone(), D).map(&receive(&socket).unwrap()).unwrap();
    assert!((0..3).all(|page| is_marked(&sim, imported.addr() + page * PAGE, PAGE, page + 1)));
    assert_eq!(sim.mem_info(D).unwrap().0, 64 * MIB, "the memory is counted where it was made");
    mark(&sim, imported.addr() + 2 * PAGE, PAGE, 33);
    socket.write_all(&[1]).unwrap();
}

#[test]
fn memory_outlives_the_process_that_made_it() {
    let sim = Sim::new(machine(256));
    let mut meeting = meet("other_process_shares_and_waits_to_be_killed");
    let mut length = [0; 8];
    meeting.socket.read_exact(&mut length).unwrap();
    let mut handle = vec![0; u64::from_le_bytes(length) as usize];
    meeting.socket.read_exact(&mut handle).unwrap();
    let imports = Imports::new(sim.clone(), D);
    // A parent may look into its child: the descriptors are fetched by process id.
    let imported = imports.open(&handle).unwrap();
    meeting.child.kill().unwrap();
    meeting.child.wait().unwrap();
    assert!((0..3).all(|page| is_marked(&sim, imported.addr() + page * PAGE, PAGE, 70 + page)));
    mark(&sim, imported.addr(), PAGE, 5);
    assert!(is_marked(&sim, imported.addr(), PAGE, 5));
    assert_eq!(imports.open(&handle).unwrap().addr(), imported.addr(), "it is open here");
    drop(imported);
    let error = imports.open(&handle).unwrap_err();
    assert!(matches!(error, Error::Process(ProcessError::Gone { .. })), "{error}");
    assert_eq!(Ledger::default().held(&sim), Held { device_free: 256 * MIB, ..Held::default() });
}

#[test]
#[ignore = "the other process of a test"]
fn other_process_shares_and_waits_to_be_killed() {
    let Some((sim, mut socket)) = other_process() else { return };
    let mut buffer = shareable(&sim, Sharing::PosixFd);
    buffer.grow_to(3 * PAGE).unwrap();
    (0..3).for_each(|page| mark(&sim, buffer.addr() + page * PAGE, PAGE, 70 + page));
    let shared = buffer.share(0, 3 * PAGE).unwrap();
    let handle = shared.ipc_handle().encode();
    socket.write_all(&(handle.len() as u64).to_le_bytes()).unwrap();
    socket.write_all(&handle).unwrap();
    // Until it is killed, or nobody is left who could kill it.
    let _ = socket.read(&mut [0]);
}

#[test]
fn a_process_that_dies_while_it_sends_is_a_clear_error_and_leaves_nothing() {
    let sim = Sim::new(machine(256));
    let meeting = meet("other_process_dies_after_the_announcement");
    let error = receive(&meeting.socket).unwrap_err();
    assert!(matches!(error, Error::Closed { received: 0, expected: 3 }), "{error}");
    assert_eq!(error.to_string(), "the other side closed the socket after 0 of 3 handles");
    assert_eq!(sim.calls_made(), 0);
}

#[test]
#[ignore = "the other process of a test"]
fn other_process_dies_after_the_announcement() {
    let Some((_, mut socket)) = other_process() else { return };
    let mut header = b"millpond".to_vec();
    header.extend([PAGE, 3, 0, 3 * PAGE, 1].into_iter().flat_map(u64::to_le_bytes));
    socket.write_all(&header).unwrap();
}
