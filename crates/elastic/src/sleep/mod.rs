//! Sleep and wake: tagged allocations and memory pools that give their memory back and keep their addresses.
//!
//! A process that serves and trains in turn needs the memory of its weights, caches and graphs only half of the time. Asleep,
//! an allocation has addresses and no memory; its contents wait in pinned memory of the host, or are dropped. Awake again, it
//! has the same addresses, so graphs and tensors that name them stay right. What was registered with a network library is
//! not: the memory is another one, and [`Sleeper::check`] says so (C49).

mod allocation;
mod pools;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond::{Allocator, HostCache, PoolId, Slept};
use millpond_driver::{Device, Driver, Stream};

use crate::error::{At, Error, Result, Step};
use allocation::Allocation;
use pools::TaggedPool;

/// What becomes of contents during sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// They are kept in pinned memory of the host.
    Contents,
    /// They are dropped; after waking the contents are anything.
    Nothing,
}

/// The memory behind an allocation at the moment of its registration with somebody outside, a network library say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    addr: u64,
    generation: u64,
}

/// Tagged allocations and memory pools of one device.
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
    pools: Vec<TaggedPool>,
    peers: Vec<Device>,
}

impl State {
    /// The allocations of a tag that are asleep, or awake.
    fn tagged(&mut self, tag: &str, asleep: bool) -> Vec<&mut Allocation> {
        let mine = self.allocations.values_mut().filter(|allocation| allocation.tag == tag);
        mine.filter(|allocation| allocation.is_asleep() == asleep).collect()
    }

    /// The memory pools of a tag that are asleep, or awake.
    fn tagged_pools(&self, tag: &str, asleep: bool) -> Vec<TaggedPool> {
        let mine = self.pools.iter().filter(|pool| pool.tag == tag);
        mine.filter(|pool| pool.is_asleep() == asleep).cloned().collect()
    }

    fn check_tag(&self, tag: &str) -> Result<()> {
        let has = self.allocations.values().any(|allocation| allocation.tag == tag)
            || self.pools.iter().any(|pool| pool.tag == tag && pool.exists());
        has.then_some(()).ok_or_else(|| Error::UnknownTag { tag: tag.to_owned() })
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

    /// Puts a memory pool of an allocator under a tag: the default one, a user's or a graph's
    /// ([`Allocator::sleep`]). It leaves the tag when its last owner lets go. An observer of the allocator must not call
    /// the sleeper.
    ///
    /// # Errors
    /// [`Error::Pool`] for a memory pool that the allocator does not know; [`Error::WrongDevice`].
    pub fn add_pool(&self, tag: &str, allocator: &Allocator, pool: PoolId) -> Result<()> {
        if allocator.device() != self.stream.device {
            return Err(Error::WrongDevice { device: allocator.device(), expected: self.stream.device });
        }
        allocator.pool_use_count(pool).map_err(Error::Pool)?;
        let mut state = self.lock();
        state.pools.retain(TaggedPool::exists);
        state.pools.push(TaggedPool { tag: tag.to_owned(), allocator: allocator.clone(), pool });
        Ok(())
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

    /// Whether a tag has allocations or memory pools without memory.
    pub fn is_asleep(&self, tag: &str) -> bool {
        let mut state = self.lock();
        !state.tagged(tag, true).is_empty() || !state.tagged_pools(tag, true).is_empty()
    }

    /// Gives the memory of all allocations and memory pools of a tag back; their addresses stay. With [`Keep::Contents`]
    /// everything is saved before it goes.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Asleep`] if all of the tag sleeps; [`Error::Pinned`], [`Error::Pool`] and the driver's,
    /// and then all that was awake is awake, unless memory could not be unmapped: what had gone by then sleeps, with its
    /// contents, and the call can be made again.
    pub fn sleep(&self, tag: &str, keep: Keep) -> Result<Slept> {
        let mut state = self.lock();
        state.check_tag(tag)?;
        let pools = state.tagged_pools(tag, false);
        let awake = state.tagged(tag, false);
        if awake.is_empty() && pools.is_empty() {
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
        let mut slept = self.sleep_pools(&pools, keep)?;
        for (allocation, contents) in awake.into_iter().zip(contents) {
            slept.bytes += allocation.bytes();
            slept.contents += contents.as_ref().map_or(0, |contents| contents.len());
            allocation.fall_asleep(contents)?;
        }
        Ok(slept)
    }

    /// Gives all sleeping allocations and memory pools of a tag memory at their old addresses, and their contents back.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Awake`] if nothing of the tag sleeps; [`Error::Pool`] and the driver's, above all when
    /// there is not enough memory: then everything sleeps on, contents included, and the call can be made again.
    pub fn wake(&self, tag: &str) -> Result<Slept> {
        let mut state = self.lock();
        state.check_tag(tag)?;
        let pools = state.tagged_pools(tag, true);
        let mut asleep = state.tagged(tag, true);
        if asleep.is_empty() && pools.is_empty() {
            return Err(Error::Awake { tag: tag.to_owned() });
        }
        let mut restored = Ok(());
        for allocation in &mut asleep {
            restored = restored.and_then(|()| allocation.restore(self.stream));
        }
        restored = restored.and_then(|()| self.driver.stream_synchronize(self.stream).at(Step::Wait));
        let mut woken = match restored.and_then(|()| self.wake_pools(&pools)) {
            Ok(woken) => woken,
            Err(error) => {
                // The first error counts. What cannot be unmapped now keeps its memory until it is woken or freed.
                asleep.into_iter().for_each(|allocation| drop(allocation.sleep_on(self.stream)));
                return Err(error);
            }
        };
        for allocation in asleep {
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
