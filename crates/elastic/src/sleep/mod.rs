//! Sleep and wake: tagged allocations that give their memory back and keep their addresses.
//!
//! A process that serves and trains in turn needs the memory of its weights, caches and graphs only half of the time. Asleep,
//! an allocation has addresses and no memory; its contents wait in pinned memory of the host, or are dropped. Awake again, it
//! has the same addresses, so graphs and tensors that name them stay right. What was registered with a network library is
//! not: the memory is another one, and [`Sleeper::check`] says so (C49).

mod allocation;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond::HostCache;
use millpond_driver::{Device, Driver, Stream};

use crate::error::{At, Error, Result, Step};
use allocation::Allocation;

/// What becomes of contents during sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// They are kept in pinned memory of the host.
    Contents,
    /// They are dropped; after waking the contents are anything.
    Nothing,
}

/// What went to sleep, or woke up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slept {
    /// How many allocations.
    pub allocations: usize,
    /// Bytes of device memory that were given back, or taken again.
    pub bytes: u64,
    /// Bytes of contents that were saved, or restored.
    pub contents: u64,
}

/// The memory behind an allocation at the moment of its registration with somebody outside, a network library say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    addr: u64,
    generation: u64,
}

/// Tagged allocations of one device.
#[derive(Debug)]
pub struct Sleeper {
    driver: Arc<dyn Driver>,
    stream: Stream,
    host: HostCache,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By address.
    allocations: BTreeMap<u64, Allocation>,
    peers: Vec<Device>,
}

impl State {
    /// The allocations of a tag that are asleep, or awake.
    fn tagged(&mut self, tag: &str, asleep: bool) -> Vec<&mut Allocation> {
        let mine = self.allocations.values_mut().filter(|allocation| allocation.tag == tag);
        mine.filter(|allocation| allocation.is_asleep() == asleep).collect()
    }

    fn has(&self, tag: &str) -> bool {
        self.allocations.values().any(|allocation| allocation.tag == tag)
    }
}

impl Sleeper {
    /// Allocations on the device of `stream`, on which contents are copied. `host` keeps the contents of sleepers.
    pub fn new(driver: Arc<dyn Driver>, stream: Stream, host: HostCache) -> Self {
        Sleeper { driver, stream, host, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `bytes` of device memory under a tag: one handle, whole granules. Its address is for good.
    ///
    /// # Errors
    /// [`Error::Asleep`] while the tag sleeps; the driver's, and then nothing is left behind.
    pub fn alloc(&self, tag: &str, bytes: u64) -> Result<u64> {
        let mut state = self.lock();
        if !state.tagged(tag, true).is_empty() {
            return Err(Error::Asleep { tag: tag.to_owned() });
        }
        let allocation = Allocation::new(&self.driver, self.stream.device, tag, bytes, &state.peers)?;
        let addr = allocation.addr();
        state.allocations.insert(addr, allocation);
        Ok(addr)
    }

    /// Gives an allocation back, awake or asleep; work that was [said to use it](Sleeper::use_on) is waited for.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    pub fn free(&self, addr: u64) -> Result<()> {
        let gone = self.lock().allocations.remove(&addr);
        gone.map(drop).ok_or(Error::UnknownAddress { addr })
    }

    /// Remembers that work on `stream` uses an allocation: it does not go to sleep before the stream has passed.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    pub fn use_on(&self, addr: u64, stream: Stream) -> Result<()> {
        let mut state = self.lock();
        let allocation = state.allocations.get_mut(&addr).ok_or(Error::UnknownAddress { addr })?;
        allocation.use_on(stream);
        Ok(())
    }

    /// Lets another device use all allocations, those of now and those to come.
    ///
    /// # Errors
    /// The driver's.
    pub fn allow(&self, peer: Device) -> Result<()> {
        let mut state = self.lock();
        state.allocations.values_mut().try_for_each(|allocation| allocation.allow(peer))?;
        if !state.peers.contains(&peer) {
            state.peers.push(peer);
        }
        Ok(())
    }

    /// Whether a tag has allocations without memory.
    pub fn is_asleep(&self, tag: &str) -> bool {
        !self.lock().tagged(tag, true).is_empty()
    }

    /// Gives the memory of all allocations of a tag back; their addresses stay. With [`Keep::Contents`] everything is saved
    /// before anything goes.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Asleep`] if all of the tag sleeps; [`Error::Pinned`] and the driver's, and then all that
    /// was awake is awake, unless memory could not be unmapped: what had gone by then sleeps, with its contents, and the call
    /// can be made again.
    pub fn sleep(&self, tag: &str, keep: Keep) -> Result<Slept> {
        let mut state = self.lock();
        if !state.has(tag) {
            return Err(Error::UnknownTag { tag: tag.to_owned() });
        }
        let awake = state.tagged(tag, false);
        if awake.is_empty() {
            return Err(Error::Asleep { tag: tag.to_owned() });
        }
        let mut contents = Vec::with_capacity(awake.len());
        for allocation in &awake {
            contents.push(match keep {
                Keep::Contents => Some(allocation.save(&self.host, self.stream)?),
                Keep::Nothing => None,
            });
        }
        if keep == Keep::Contents {
            self.driver.stream_synchronize(self.stream).at(Step::Wait)?;
        }
        let mut slept = Slept::default();
        for (allocation, contents) in awake.into_iter().zip(contents) {
            slept.allocations += 1;
            slept.bytes += allocation.bytes();
            slept.contents += contents.as_ref().map_or(0, |contents| contents.len());
            allocation.fall_asleep(contents)?;
        }
        Ok(slept)
    }

    /// Gives all sleeping allocations of a tag memory at their old addresses, and their contents back.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Awake`] if nothing of the tag sleeps; the driver's, above all when there is not enough
    /// memory: then everything sleeps on, contents included, and the call can be made again.
    pub fn wake(&self, tag: &str) -> Result<Slept> {
        let mut state = self.lock();
        if !state.has(tag) {
            return Err(Error::UnknownTag { tag: tag.to_owned() });
        }
        let mut asleep = state.tagged(tag, true);
        if asleep.is_empty() {
            return Err(Error::Awake { tag: tag.to_owned() });
        }
        let mut restored = Ok(());
        for allocation in &mut asleep {
            restored = restored.and_then(|()| allocation.restore(self.stream));
        }
        restored = restored.and_then(|()| self.driver.stream_synchronize(self.stream).at(Step::Wait));
        if let Err(error) = restored {
            // The first error is the one that counts. What cannot be unmapped now keeps its memory until it is woken or freed.
            asleep.into_iter().for_each(|allocation| drop(allocation.sleep_on(self.stream)));
            return Err(error);
        }
        let mut woken = Slept::default();
        for allocation in asleep {
            woken.allocations += 1;
            woken.bytes += allocation.bytes();
            woken.contents += allocation.wake_up();
        }
        Ok(woken)
    }

    /// Notes that somebody outside registers the memory behind an allocation.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`]; [`Error::Asleep`] when there is no memory.
    pub fn register(&self, addr: u64) -> Result<Registration> {
        let state = self.lock();
        let allocation = state.allocations.get(&addr).ok_or(Error::UnknownAddress { addr })?;
        if allocation.is_asleep() {
            return Err(Error::Asleep { tag: allocation.tag.clone() });
        }
        Ok(Registration { addr, generation: allocation.generation })
    }

    /// Whether a registration still speaks of the memory behind its address (C49).
    ///
    /// # Errors
    /// [`Error::StaleRegistration`] once the allocation has slept; [`Error::UnknownAddress`] when it is gone.
    pub fn check(&self, registration: Registration) -> Result<()> {
        let Registration { addr, generation } = registration;
        let state = self.lock();
        let allocation = state.allocations.get(&addr).ok_or(Error::UnknownAddress { addr })?;
        let current = allocation.generation == generation;
        current.then_some(()).ok_or(Error::StaleRegistration { addr })
    }
}
