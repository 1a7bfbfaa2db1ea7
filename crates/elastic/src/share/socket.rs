//! Shared memory over a Unix socket: file descriptors as ancillary data (`SCM_RIGHTS`).
//!
//! ```text
//! "millpond"  page:u64  count:u64  offset:u64  bytes:u64  type:i32 0:u32
//! then        one byte with up to 64 file descriptors, again and again      or  64 bytes for each fabric handle
//! ```

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use millpond_driver::{HandleType, Shareable};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::Shared;
use super::handle::{HandleError, type_number};
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"millpond";
const HEADER: usize = 48;
/// The kernel takes up to 253.
const FDS_AT_ONCE: usize = 64;
/// More pages than that are not announced in earnest: 2 TiB in pages of 2 MiB.
const MOST_PAGES: u64 = 1 << 20;

/// Sends shared memory to the process at the other end. It may use the memory for as long as it likes, whatever becomes of
/// this process.
///
/// # Errors
/// [`Error::Socket`].
pub fn send(mut socket: &UnixStream, shared: &Shared) -> Result<()> {
    let mut header = Vec::with_capacity(HEADER);
    header.extend(MAGIC);
    for number in [shared.page, shared.handles.len() as u64, shared.offset, shared.bytes] {
        header.extend(number.to_le_bytes());
    }
    header.extend(type_number(shared.handle_type).to_le_bytes());
    header.extend([0; 4]);
    socket.write_all(&header)?;
    let fds: Vec<BorrowedFd<'_>> = shared.handles.iter().filter_map(fd_of).collect();
    for fds in fds.chunks(FDS_AT_ONCE) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_AT_ONCE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Error::Socket(std::io::Error::from(std::io::ErrorKind::InvalidInput)));
        }
        sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL).map_err(std::io::Error::from)?;
    }
    for handle in &shared.handles {
        if let Shareable::Fabric(handle) = handle {
            socket.write_all(handle)?;
        }
    }
    Ok(())
}

fn fd_of(handle: &Shareable) -> Option<BorrowedFd<'_>> {
    match handle {
        Shareable::Fd(fd) => Some(fd.as_fd()),
        Shareable::Fabric(_) => None,
    }
}

/// Receives what [`send`] sent.
///
/// # Errors
/// [`Error::Closed`] when the other side went away in the middle; [`Error::Handle`] for something else than a message of
/// [`send`]; [`Error::Socket`].
pub fn receive(mut socket: &UnixStream) -> Result<Shared> {
    let mut header = [0; HEADER];
    let closed = |error: std::io::Error, received, expected| match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => Error::Closed { received, expected },
        _ => Error::Socket(error),
    };
    socket.read_exact(&mut header).map_err(|error| closed(error, 0, 0))?;
    let number = |at: usize| header[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let (page, count, offset, bytes) = (number(8), number(16), number(24), number(32));
    if header[..8] != *MAGIC {
        return Err(HandleError::Kind(header[0]).into());
    }
    let pages = page.checked_mul(count).filter(|_| page > 0 && (1..=MOST_PAGES).contains(&count));
    if pages.is_none_or(|pages| offset.checked_add(bytes).is_none_or(|end| end > pages)) {
        return Err(HandleError::Size { page, count }.into());
    }
    let expected = count as usize;
    let (handle_type, handles) = match number(40) {
        1 => (
            HandleType::PosixFd,
            receive_fds(socket, expected)?.into_iter().map(|fd| Shareable::Fd(Arc::new(fd))).collect(),
        ),
        2 => {
            let mut handles = Vec::new();
            while handles.len() < expected {
                let mut handle = [0; 64];
                socket.read_exact(&mut handle).map_err(|error| closed(error, handles.len(), expected))?;
                handles.push(Shareable::Fabric(handle));
            }
            (HandleType::Fabric, handles)
        }
        other => return Err(HandleError::Type(other as i32).into()),
    };
    Ok(Shared { handle_type, page, offset, bytes, handles })
}

fn receive_fds(socket: &UnixStream, expected: usize) -> Result<Vec<OwnedFd>> {
    let mut fds: Vec<OwnedFd> = Vec::new();
    while fds.len() < expected {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_AT_ONCE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        {
            Err(rustix::io::Errno::CONNRESET) => return Err(Error::Closed { received: fds.len(), expected }),
            received => received.map_err(std::io::Error::from)?,
        };
        let before = fds.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        if received.bytes == 0 || fds.len() == before {
            return Err(Error::Closed { received: before, expected });
        }
    }
    // More than were announced are closed here.
    fds.truncate(expected);
    Ok(fds)
}
