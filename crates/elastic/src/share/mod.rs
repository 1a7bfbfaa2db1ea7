//! Sharing memory between processes.
//!
//! The sharing process [exports](crate::Growable::share) pages; the other one [imports](Imports) them. They travel over a Unix
//! socket ([`send`], [`receive`]), or as a string of bytes in PyTorch's format ([`Shared::ipc_handle`], [`Imports::open`]).
//! A plain allocation travels as a string too ([`SharedPlain`]). Only the pages that a range touches are shared, and only they are reserved at the other end.

mod handle;
mod import;
mod plain;
mod process;
mod socket;

use std::os::fd::AsRawFd;

use millpond_driver::{HandleType, Shareable};

pub use handle::{HandleError, IpcHandle, IpcPages, PageHandles, VERSION};
pub use import::{Imported, Imports};
pub use plain::SharedPlain;
pub use process::ProcessError;
pub use socket::{receive, send};

use crate::error::{Error, Result};
use crate::space::Space;

/// Memory that can be had by another process. The handles stay good while this lives, and at the other end for as long as
/// somebody there has them.
#[derive(Clone, Debug)]
pub struct Shared {
    /// How the pages are exported.
    pub handle_type: HandleType,
    /// Bytes of a page.
    pub page: u64,
    /// Where the range begins in the first page, bytes.
    pub offset: u64,
    /// Bytes of the range.
    pub bytes: u64,
    /// One handle for each page that the range touches.
    pub handles: Vec<Shareable>,
}

impl Shared {
    pub(crate) fn of(space: &mut Space, offset: u64, bytes: u64) -> Result<Self> {
        let touched = space.touching(offset, bytes)?;
        if touched.is_empty() {
            return Err(Error::OutOfRange { offset, bytes, capacity: space.capacity() });
        }
        let (page, first) = (space.page, touched.start as u64 * space.page);
        let (handle_type, handles) = space.export(touched)?;
        Ok(Shared { handle_type, page, offset: offset - first, bytes, handles })
    }

    /// The handle as bytes, in PyTorch's format (R4.34). The range begins [`offset`](Shared::offset) bytes into the pages,
    /// which PyTorch sends beside the handle. File descriptors are named by number: this value must live until the other
    /// process has fetched them.
    pub fn ipc_handle(&self) -> IpcHandle {
        let fabric = self.handles.iter().filter_map(|handle| match handle {
            Shareable::Fabric(handle) => Some(*handle),
            Shareable::Fd(_) => None,
        });
        let fds = self.handles.iter().filter_map(|handle| match handle {
            Shareable::Fd(fd) => Some(fd.as_raw_fd()),
            Shareable::Fabric(_) => None,
        });
        let handles = match self.handle_type {
            HandleType::Fabric => PageHandles::Fabric(fabric.collect()),
            _ => PageHandles::Fds(fds.collect()),
        };
        IpcHandle::Pages(IpcPages { pid: std::process::id() as i32, page: self.page, handles })
    }
}
