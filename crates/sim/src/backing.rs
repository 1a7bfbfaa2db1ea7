//! The bytes of memory, where a simulation has them, and handles that leave the process.
//!
//! Bytes move when work is submitted, not when it would run: a backed simulation shows *which* bytes end up where.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use millpond_driver::{Code, Device, Handle, HandleProps, HandleType, Location, Result, Shareable};
use rustc_hash::FxHashMap;

use crate::calls::CallKind;
use crate::mappings::Granted;
use crate::physical::{GRANULE, HandleState};
use crate::process::ProcessMemory;
use crate::sim::{Sim, State, refuse};

/// Bytes come into being in pages of this size when they are first written.
const PAGE: u64 = 64 << 10;
/// An exported file ends with a trailer, by which an import knows that it is one.
const TRAILER: usize = 32;
const MAGIC: &[u8; 8] = b"MPHANDLE";
const FABRIC_MAGIC: &[u8; 8] = b"MPFABRIC";
/// `CUDA_ERROR_OPERATING_SYSTEM`.
pub(crate) const OPERATING_SYSTEM: Code = Code(304);

/// The bytes of one physical allocation; unwritten ones are 0.
#[derive(Debug)]
pub(crate) enum Store {
    /// Inside of this process.
    Pages(FxHashMap<u64, Box<[u8]>>),
    /// In a file that other processes can have too; `id` is its device and inode.
    File { file: Arc<File>, id: (u64, u64) },
    /// The memory of the process; a place is an address.
    Process(Arc<dyn ProcessMemory>),
}

impl Store {
    pub fn new() -> Self {
        Store::Pages(FxHashMap::default())
    }

    /// Fills `to` with the bytes from `at`.
    fn read(&self, at: u64, to: &mut [u8]) -> std::io::Result<()> {
        match self {
            Store::File { file, .. } => file.read_exact_at(to, at),
            Store::Process(memory) => {
                memory.read(at, to);
                Ok(())
            }
            Store::Pages(pages) => {
                for (page, offset, part) in parts(at, to.len()) {
                    match pages.get(&page) {
                        Some(bytes) => to[part.clone()].copy_from_slice(&bytes[offset..offset + part.len()]),
                        None => to[part].fill(0),
                    }
                }
                Ok(())
            }
        }
    }

    /// A copy of `bytes` bytes in a file that other processes can have, with something behind them.
    pub fn to_file(from: Option<&Store>, bytes: u64, behind: &[u8]) -> std::io::Result<(Arc<File>, Store)> {
        let file = Arc::new(anonymous_file()?);
        file.set_len(bytes + behind.len() as u64)?;
        if let Some(Store::Pages(pages)) = from {
            for (page, written) in pages {
                file.write_all_at(written, page * PAGE)?;
            }
        }
        file.write_all_at(behind, bytes)?;
        let id = file_id(&file)?;
        Ok((Arc::clone(&file), Store::File { file, id }))
    }

    fn write(&mut self, at: u64, from: &[u8]) -> std::io::Result<()> {
        match self {
            Store::File { file, .. } => file.write_all_at(from, at),
            Store::Process(memory) => {
                memory.write(at, from);
                Ok(())
            }
            Store::Pages(pages) => {
                for (page, offset, part) in parts(at, from.len()) {
                    let new = &from[part];
                    match pages.get_mut(&page) {
                        Some(bytes) => bytes[offset..offset + new.len()].copy_from_slice(new),
                        None if new.iter().all(|&byte| byte == 0) => {}
                        None => {
                            let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                            bytes[offset..offset + new.len()].copy_from_slice(new);
                            pages.insert(page, bytes);
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// A range of a store by pages: (page, offset in it, part of the caller's buffer).
fn parts(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let here = at + done as u64;
        let offset = (here % PAGE) as usize;
        let take = (PAGE as usize - offset).min(len - done);
        done += take;
        Some((here / PAGE, offset, done - take..done))
    })
}

/// What work does to bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Effect {
    /// Nothing that a simulation knows of.
    #[default]
    None,
    Copy {
        dst: u64,
        src: u64,
        bytes: u64,
    },
    Fill {
        dst: u64,
        value: u8,
        bytes: u64,
    },
}

impl Sim {
    /// `len` bytes from `addr`: device memory through its mapping, or host memory. Unwritten bytes are 0.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` without [`SimConfig::backing`](crate::SimConfig::backing); `INVALID_VALUE` where no memory is.
    pub fn read(&self, addr: u64, len: usize) -> Result<Vec<u8>> {
        let mut state = self.lock();
        state.check_backing()?;
        let mut bytes = vec![0; len];
        state.read_bytes(addr, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes `bytes` at `addr`.
    ///
    /// # Errors
    /// As [`Sim::read`].
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.lock();
        state.check_backing()?;
        state.write_bytes(addr, bytes)
    }
}

impl State {
    fn check_backing(&self) -> Result<()> {
        if self.backing {
            return Ok(());
        }
        refuse(
            CallKind::Memcpy,
            Code::ERROR_NOT_SUPPORTED,
            "this simulated machine has no bytes; set SimConfig::backing",
        )
    }

    /// The store of the bytes at `addr`, where in it they are, and how many follow.
    fn store_at(&mut self, addr: u64) -> Option<(&mut Store, u64, u64)> {
        match self.maps.granted_at(addr) {
            None => self.host.store_at(addr),
            Some((_, Granted::Reservation { .. })) => {
                let (base, mapping) = self.maps.mapping_at(addr)?;
                let inside = addr - base;
                let (offset, left) = (mapping.offset + inside, mapping.bytes - inside);
                let handle = self.physical.handles.get_mut(mapping.handle)?;
                Some((handle.store.as_mut()?, offset, left))
            }
            Some((base, _)) => match self.maps.granted.get_mut(&base)? {
                Granted::Malloc { bytes, store, .. } | Granted::Chunk { bytes, store, .. } => {
                    Some((store.as_mut()?, addr - base, *bytes - (addr - base)))
                }
                Granted::Opened { bytes, store, .. } => Some((store, addr - base, *bytes - (addr - base))),
                Granted::Reservation { .. } => None,
            },
        }
    }

    fn each_store(
        &mut self,
        mut addr: u64,
        len: usize,
        mut with: impl FnMut(&mut Store, u64, std::ops::Range<usize>) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let Some((store, offset, left)) = self.store_at(addr) else {
                return refuse(CallKind::Memcpy, Code::ERROR_INVALID_VALUE, format!("no memory is at {addr:#x}"));
            };
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(len - done);
            if let Err(error) = with(store, offset, done..done + take) {
                return refuse(CallKind::Memcpy, OPERATING_SYSTEM, error.to_string());
            }
            done += take;
            addr += take as u64;
        }
        Ok(())
    }

    fn read_bytes(&mut self, addr: u64, to: &mut [u8]) -> Result<()> {
        self.each_store(addr, to.len(), |store, offset, part| store.read(offset, &mut to[part]))
    }

    fn write_bytes(&mut self, addr: u64, from: &[u8]) -> Result<()> {
        self.each_store(addr, from.len(), |store, offset, part| store.write(offset, &from[part]))
    }

    /// Does to the bytes what a copy or a fill does.
    pub fn apply(&mut self, effect: Effect) -> Result<()> {
        if !self.backing {
            return Ok(());
        }
        let mut buffer = vec![0; PAGE as usize];
        let (dst, src, bytes) = match effect {
            Effect::None => return Ok(()),
            Effect::Copy { dst, src, bytes } => (dst, Some(src), bytes),
            Effect::Fill { dst, value, bytes } => {
                buffer.fill(value);
                (dst, None, bytes)
            }
        };
        let mut done = 0;
        while done < bytes {
            let take = PAGE.min(bytes - done);
            let part = &mut buffer[..take as usize];
            if let Some(src) = src {
                self.read_bytes(src + done, part)?;
            }
            self.write_bytes(dst + done, part)?;
            done += take;
        }
        Ok(())
    }

    pub fn export(&mut self, handle: Handle, handle_type: HandleType) -> Result<Shareable> {
        const KIND: CallKind = CallKind::Export;
        let Some(state) = self.physical.handles.get_mut(handle.0).filter(|state| state.refs > 0) else {
            return refuse(KIND, Code::ERROR_INVALID_VALUE, format!("handle {:#x} does not exist", handle.0));
        };
        if handle_type == HandleType::None || state.props.handle_type != handle_type {
            let made = state.props.handle_type;
            return refuse(
                KIND,
                Code::ERROR_INVALID_VALUE,
                format!("the handle was made for export as {made:?}, not {handle_type:?}"),
            );
        }
        if handle_type == HandleType::Fabric {
            let mut id = [0; 64];
            id[..8].copy_from_slice(FABRIC_MAGIC);
            id[8..16].copy_from_slice(&handle.0.to_le_bytes());
            id[16..20].copy_from_slice(&self.pid.to_le_bytes());
            return Ok(Shareable::Fabric(id));
        }
        match state.shared_file().and_then(|file| file.try_clone()) {
            Ok(file) => Ok(Shareable::Fd(Arc::new(OwnedFd::from(file)))),
            Err(error) => refuse(KIND, OPERATING_SYSTEM, error.to_string()),
        }
    }

    pub fn import(&mut self, shared: &Shareable, device: Device) -> Result<Handle> {
        const KIND: CallKind = CallKind::Import;
        self.check_device(device, KIND)?;
        let invalid = |why: &str| refuse(KIND, Code::ERROR_INVALID_VALUE, why);
        let id = match shared {
            Shareable::Fabric(id) => {
                if !self.caps[device.0 as usize].fabric {
                    return refuse(KIND, Code::ERROR_NOT_PERMITTED, "the device imports no fabric handles");
                }
                let number = |range: std::ops::Range<usize>| {
                    id[range].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
                };
                if id[..8] != FABRIC_MAGIC[..] || number(16..20) != u64::from(self.pid) {
                    return invalid("this is not a fabric handle of this machine");
                }
                let id = number(8..16);
                if self.physical.handles.get(id).is_none_or(|handle| handle.props.handle_type != HandleType::Fabric) {
                    return invalid("the memory of this fabric handle is gone");
                }
                id
            }
            Shareable::Fd(fd) => {
                let Some((file, props, bytes, id)) = fd.try_clone().ok().map(File::from).and_then(read_trailer) else {
                    return invalid("this file descriptor is not an exported handle");
                };
                let own =
                    |handle: &HandleState| matches!(handle.store, Some(Store::File { id: other, .. }) if other == id);
                let known = self.physical.handles.iter().find(|(_, handle)| own(handle)).map(|(id, _)| id);
                match known {
                    Some(id) => id,
                    None => {
                        if let Location::Device(owner) = props.location {
                            self.check_device(owner, KIND)?;
                        }
                        let store = Some(Store::File { file: Arc::new(file), id });
                        let handle = HandleState { bytes, props, refs: 0, maps: 0, foreign: true, store };
                        self.physical.handles.insert(handle)
                    }
                }
            }
        };
        if let Some(handle) = self.physical.handles.get_mut(id) {
            handle.refs += 1;
        }
        Ok(Handle(id))
    }
}

impl HandleState {
    /// The file that holds the handle's bytes; they move there when the handle is first exported.
    fn shared_file(&mut self) -> std::io::Result<Arc<File>> {
        if let Some(Store::File { file, .. }) = &self.store {
            return Ok(Arc::clone(file));
        }
        let (file, store) = Store::to_file(self.store.as_ref(), self.bytes, &trailer(self.props, self.bytes))?;
        self.store = Some(store);
        Ok(file)
    }
}

/// Device and inode: which file it is, whoever has it.
pub(crate) fn file_id(file: &File) -> std::io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn anonymous_file() -> std::io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("millpond-handle", rustix::fs::MemfdFlags::CLOEXEC)?))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn anonymous_file() -> std::io::Result<File> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

fn trailer(props: HandleProps, bytes: u64) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    let (kind, index) = match props.location {
        Location::Device(device) => (0u8, device.0),
        Location::HostNuma(node) => (1, node),
        Location::Host => (2, 0),
    };
    trailer[..8].copy_from_slice(MAGIC);
    trailer[8..16].copy_from_slice(&bytes.to_le_bytes());
    trailer[16] = kind;
    trailer[17] = u8::from(props.rdma);
    trailer[20..24].copy_from_slice(&index.to_le_bytes());
    trailer
}

/// What an exported file says about itself; `None` for any other file.
fn read_trailer(file: File) -> Option<(File, HandleProps, u64, (u64, u64))> {
    let metadata = file.metadata().ok()?;
    let bytes = metadata.len().checked_sub(TRAILER as u64)?;
    let mut found = [0; TRAILER];
    file.read_exact_at(&mut found, bytes).ok()?;
    let index = u32::from_le_bytes(found[20..24].try_into().ok()?);
    let location = match found[16] {
        0 => Location::Device(Device(index)),
        1 => Location::HostNuma(index),
        _ => return None,
    };
    let props = HandleProps { location, handle_type: HandleType::PosixFd, rdma: found[17] == 1 };
    let whole = bytes != 0 && bytes.is_multiple_of(GRANULE) && found == trailer(props, bytes);
    whole.then_some((file, props, bytes, (metadata.dev(), metadata.ino())))
}
