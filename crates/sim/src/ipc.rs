//! Plain memory of another process: a handle names a file that holds the memory's bytes, and the process that has it open.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use millpond_driver::{Bytes, Code, Device, Ipc, IpcMemHandle, Result};

use crate::backing::{OPERATING_SYSTEM, Store, file_id};
use crate::calls::CallKind;
use crate::mappings::Granted;
use crate::physical::GRANULE;
use crate::sim::{Sim, State, refuse};

const MAGIC: &[u8; 8] = b"MPPLAIN\0";

impl Ipc for Sim {
    fn ipc_handle(&self, addr: u64) -> Result<IpcMemHandle> {
        self.call(CallKind::IpcGet, addr, 0, |state| state.ipc_handle(addr))
    }

    fn ipc_open(&self, device: Device, handle: &IpcMemHandle) -> Result<u64> {
        let size = Named::read(handle).map_or(0, |named| named.asked);
        self.call_for_address(CallKind::IpcOpen, size, |state| state.ipc_open(device, handle))
    }

    fn ipc_close(&self, device: Device, addr: u64) -> Result<()> {
        self.call(CallKind::IpcClose, addr, 0, |state| state.ipc_close(device, addr))
    }
}

impl Sim {
    /// Whether [`Ipc::ipc_handle`] gives a handle of the memory at `addr`.
    pub fn ipc_capable(&self, addr: u64) -> bool {
        matches!(self.lock().maps.granted_at(addr), Some((_, Granted::Malloc { managed: false, .. })))
    }
}

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    /// The process that made the memory, and the number of the file there.
    pid: u32,
    fd: u32,
    /// Device and inode of the file: the number may name another one by now.
    file: (u64, u64),
    device: Device,
    /// Bytes of the allocation.
    asked: u64,
}

impl Named {
    fn write(self) -> IpcMemHandle {
        let mut handle = [0; 64];
        handle[..8].copy_from_slice(MAGIC);
        let words = [self.file.0, self.file.1, self.asked].map(u64::to_le_bytes);
        let halves = [self.pid, self.fd, self.device.0].map(u32::to_le_bytes);
        let bytes = words.iter().flatten().chain(halves.iter().flatten());
        handle[8..].iter_mut().zip(bytes).for_each(|(to, &byte)| *to = byte);
        handle
    }

    fn read(handle: &IpcMemHandle) -> Option<Named> {
        let word = |at: usize| handle[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let half = |at: usize| (word(at) & u64::from(u32::MAX)) as u32;
        let named =
            Named { file: (word(8), word(16)), asked: word(24), pid: half(32), fd: half(36), device: Device(half(40)) };
        // Written again it must be the same, gaps and all.
        (named.write() == *handle).then_some(named)
    }

    /// The file, if it is still the one that was shared.
    fn open(self) -> Option<File> {
        let path = format!("/proc/{}/fd/{}", self.pid, self.fd);
        let file = File::options().read(true).write(true).open(path).ok()?;
        let whole = file.metadata().is_ok_and(|metadata| metadata.len() >= self.asked);
        (whole && file_id(&file).is_ok_and(|id| id == self.file)).then_some(file)
    }
}

impl Granted {
    /// The file that holds the memory's bytes.
    fn file(&self) -> Option<(u64, u64)> {
        match self {
            Granted::Malloc { store: Some(Store::File { id, .. }), .. }
            | Granted::Opened { store: Store::File { id, .. }, .. } => Some(*id),
            _ => None,
        }
    }
}

impl State {
    fn ipc_handle(&mut self, addr: u64) -> Result<IpcMemHandle> {
        const KIND: CallKind = CallKind::IpcGet;
        let base = self.maps.granted_at(addr).map(|(base, _)| base);
        match base.and_then(|base| self.maps.granted.get_mut(&base)) {
            Some(&mut Granted::Malloc { device, asked, bytes, managed: false, ref mut store }) => {
                let (file, id) = match store {
                    Some(Store::File { file, id }) => (Arc::clone(file), *id),
                    _ => match Store::to_file(store.as_ref(), bytes, &[]).and_then(|(file, new)| {
                        let id = file_id(&file)?;
                        *store = Some(new);
                        Ok((file, id))
                    }) {
                        Ok(made) => made,
                        Err(error) => return refuse(KIND, OPERATING_SYSTEM, error.to_string()),
                    },
                };
                let fd = u32::try_from(file.as_raw_fd()).unwrap_or(u32::MAX);
                Ok(Named { pid: std::process::id(), fd, file: id, device, asked }.write())
            }
            Some(Granted::Opened { .. }) => refuse(
                KIND,
                Code::ERROR_INVALID_VALUE,
                format!("{addr:#x} is memory of another process, which shares it"),
            ),
            Some(_) => refuse(
                KIND,
                Code::ERROR_INVALID_VALUE,
                format!("{addr:#x} is not memory of cuMemAlloc: only that has such a handle"),
            ),
            None => refuse(KIND, Code::ERROR_INVALID_VALUE, format!("{addr:#x} is not in any allocation")),
        }
    }

    fn ipc_open(&mut self, device: Device, handle: &IpcMemHandle) -> Result<u64> {
        const KIND: CallKind = CallKind::IpcOpen;
        self.check_device(device, KIND)?;
        let Some(named) = Named::read(handle) else {
            return refuse(KIND, Code::ERROR_INVALID_HANDLE, "this is not a handle of plain memory of such a machine");
        };
        let Named { device: owner, asked, file: id, .. } = named;
        self.check_device(owner, KIND)?;
        let known = self.maps.granted.iter_mut().find(|(_, granted)| granted.file() == Some(id));
        match known {
            Some((_, Granted::Malloc { .. })) => {
                return refuse(
                    KIND,
                    Code::ERROR_INVALID_CONTEXT,
                    "the memory is of this process, which has its address",
                );
            }
            Some((&addr, Granted::Opened { opened, .. })) => {
                *opened += 1;
                return Ok(addr);
            }
            _ => {}
        }
        if device != owner && !self.peers.can_access(device, owner) {
            return refuse(KIND, Code::ERROR_INVALID_DEVICE, format!("{device} cannot reach memory of {owner}"));
        }
        let Some(file) = named.open() else {
            let why = format!("the memory of process {} is gone, or that process may not be looked into", named.pid);
            return refuse(KIND, Code::ERROR_INVALID_HANDLE, why);
        };
        let bytes = self.space.round(asked);
        let Some((bytes, addr)) = bytes.and_then(|bytes| Some((bytes, self.space.take(bytes, GRANULE, 0)?))) else {
            let why = format!("no {} of addresses in a row are free", Bytes(asked));
            return refuse(KIND, Code::ERROR_OUT_OF_MEMORY, why);
        };
        self.meter.charge(KIND, 1, asked, self.maps.granted.len() as u64);
        if device != owner {
            // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, which cuIpcOpenMemHandle demands.
            self.peers.enable(device, owner);
        }
        let store = Store::File { file: Arc::new(file), id };
        self.maps.granted.insert(addr, Granted::Opened { device: owner, asked, bytes, opened: 1, store });
        Ok(addr)
    }

    fn ipc_close(&mut self, device: Device, addr: u64) -> Result<()> {
        const KIND: CallKind = CallKind::IpcClose;
        self.check_device(device, KIND)?;
        let Some(Granted::Opened { bytes, opened, .. }) = self.maps.granted.get_mut(&addr) else {
            return refuse(
                KIND,
                Code::ERROR_INVALID_VALUE,
                format!("no memory of another process starts at {addr:#x}"),
            );
        };
        let bytes = *bytes;
        *opened -= 1;
        if *opened == 0 {
            self.implicit_sync(device);
            self.meter.charge(KIND, 1, bytes, self.maps.granted.len() as u64);
            self.maps.granted.remove(&addr);
            self.space.give(addr, bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_as_it_was_written_and_nothing_else_is() {
        let named = Named { pid: 7, fd: 300, file: (9, 1 << 40), device: Device(3), asked: 5 << 33 };
        let handle = named.write();
        assert_eq!(Named::read(&handle), Some(named));
        for at in [0, 7, 44, 63] {
            let mut other = handle;
            other[at] ^= 1;
            assert_eq!(Named::read(&other), None, "byte {at}");
        }
        assert_eq!(Named::read(&[0; 64]), None);
    }
}
