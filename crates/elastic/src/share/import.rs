//! Memory of another process, mapped here (R4.36–R4.38).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use millpond_driver::{Device, Driver, HandleType, IpcMemHandle, Location, Shareable};

use super::handle::{HandleError, IpcHandle, IpcPages, PageHandles};
use super::plain::Plain;
use super::{Shared, process};
use crate::error::{At, Error, Result, Step};
use crate::sharing::{Choice, Sharing};
use crate::space::{Page, Space, Wanted};
use crate::undo::{Done, Undo};

/// Memory of another process. It stays valid whatever becomes of that process, and goes when the last owner here lets go.
#[derive(Debug)]
pub struct Imported {
    memory: Memory,
    addr: u64,
    bytes: u64,
}

/// What the memory is here.
#[derive(Debug)]
enum Memory {
    /// Pages, mapped into addresses of their own.
    Pages(Mutex<Space>),
    /// A plain allocation of the other process.
    Plain(Plain),
}

impl Imported {
    /// The first byte of the first page.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Bytes: of what was shared, no more (R4.37).
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether there is nothing; never so.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Lets another device of this process use the memory.
    ///
    /// # Errors
    /// The driver's, and then nothing has changed.
    pub fn allow(&self, peer: Device) -> Result<()> {
        match &self.memory {
            Memory::Pages(space) => space.lock().unwrap_or_else(PoisonError::into_inner).allow(peer),
            Memory::Plain(plain) => plain.allow(peer),
        }
    }
}

impl Drop for Imported {
    /// Nobody knows which streams used the memory: the device is waited for (R4.38).
    fn drop(&mut self) {
        let (driver, device) = match &mut self.memory {
            Memory::Pages(space) => {
                let space = space.get_mut().unwrap_or_else(PoisonError::into_inner);
                (&space.driver, space.device)
            }
            Memory::Plain(plain) => (&plain.driver, plain.device),
        };
        let _ = driver.device_synchronize(device);
    }
}

/// What a process imports for one device, each handle once.
#[derive(Debug)]
pub struct Imports {
    driver: Arc<dyn Driver>,
    device: Device,
    /// By the whole handle (R4.38).
    known: Mutex<HashMap<Vec<u8>, Weak<Imported>>>,
}

impl Imports {
    /// Imports for `device`.
    pub fn new(driver: Arc<dyn Driver>, device: Device) -> Self {
        Imports { driver, device, known: Mutex::default() }
    }

    /// The memory of an IPC handle ([`IpcHandle`]). While somebody here has it, the same handle gives the same memory. File
    /// descriptors are fetched from the sharing process.
    ///
    /// # Errors
    /// [`Error::Handle`], [`Error::Process`], [`Error::NotExportable`] without fabric handles here; the driver's. A plain
    /// handle opens in another process than the one that made the memory, and only there.
    pub fn open(&self, handle: &[u8]) -> Result<Arc<Imported>> {
        // Held while importing, so that nobody imports the same at the same time.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, imported| imported.strong_count() > 0);
        if let Some(imported) = known.get(handle).and_then(Weak::upgrade) {
            return Ok(imported);
        }
        let imported = Arc::new(match IpcHandle::decode(handle)? {
            IpcHandle::Plain(plain) => self.open_plain(&plain)?,
            IpcHandle::Pages(pages) => self.open_pages(pages)?,
        });
        known.insert(handle.to_vec(), Arc::downgrade(&imported));
        Ok(imported)
    }

    fn open_plain(&self, handle: &IpcMemHandle) -> Result<Imported> {
        let (plain, addr, bytes) = Plain::open(Arc::clone(&self.driver), self.device, handle)?;
        Ok(Imported { memory: Memory::Plain(plain), addr, bytes })
    }

    fn open_pages(&self, pages: IpcPages) -> Result<Imported> {
        let (handle_type, handles) = match pages.handles {
            PageHandles::Fds(numbers) => {
                let fds = process::fds_of(pages.pid, &numbers)?;
                (HandleType::PosixFd, fds.into_iter().map(|fd| Shareable::Fd(Arc::new(fd))).collect())
            }
            PageHandles::Fabric(handles) => {
                (HandleType::Fabric, handles.into_iter().map(Shareable::Fabric).collect::<Vec<_>>())
            }
        };
        self.import(pages.page, handle_type, &handles)
    }

    /// The memory that came over a socket ([`receive`](super::receive)); each call maps it anew.
    ///
    /// # Errors
    /// As [`Imports::open`].
    pub fn map(&self, shared: &Shared) -> Result<Imported> {
        self.import(shared.page, shared.handle_type, &shared.handles)
    }

    /// How many handles are open.
    pub fn open_handles(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|imported| imported.strong_count() > 0).count()
    }

    fn import(&self, page: u64, handle_type: HandleType, handles: &[Shareable]) -> Result<Imported> {
        let (driver, device) = (&self.driver, self.device);
        if handle_type == HandleType::Fabric && !driver.caps(device).at(Step::Ask)?.fabric {
            return Err(Error::NotExportable { device, what: "fabric handles" });
        }
        let count = handles.len() as u64;
        let capacity = page.checked_mul(count).ok_or(HandleError::Size { page, count })?;
        let choice = Choice::new(Sharing::Never);
        let locations = &[Location::Device(device)];
        let wanted = Wanted { device, capacity, page, align: 0, peers: &[], choice, locations };
        let mut space = Space::reserve(Arc::clone(driver), wanted)?;
        let mut undo = Undo::new(&**driver);
        let mut places: BTreeSet<Location> = BTreeSet::new();
        let mut pages = BTreeMap::new();
        for (number, shared) in handles.iter().enumerate() {
            let handle = driver.mem_import(shared, device).at(Step::Import)?;
            undo.push(Done::Created(handle));
            let location = driver.mem_props(handle).at(Step::Ask)?.location;
            places.insert(location);
            space.map(number, handle, &mut undo)?;
            pages.insert(number, Page { handle, location, exported: None });
        }
        match places.first() {
            // One set-access for all pages if they lie in one place.
            Some(&location) if places.len() == 1 => space.grant(0..pages.len(), location)?,
            _ => {
                for (&number, page) in &pages {
                    space.grant(number..number + 1, page.location)?;
                }
            }
        }
        undo.keep();
        space.pages = pages;
        let (addr, bytes) = (space.base, space.capacity());
        Ok(Imported { memory: Memory::Pages(Mutex::new(space)), addr, bytes })
    }
}
