//! What the allocators of a process share: a value, so that two worlds can live side by side.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use millpond_driver::Stream;

use crate::config::{ConfigError, Dialect, Settings, Warning};
use crate::device::Core;
use crate::host::{HostCache, HostCore};
use crate::order::NamedStream;
use crate::private::PoolId;

/// How ties between free blocks of equal size are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieOrder {
    /// The oldest segment first, as PyTorch 2.15 does (R1.18).
    #[default]
    Registration,
    /// The lowest address first, as older versions did.
    Address,
}

/// What the handles of streams say about PyTorch's own stream ids (R3.16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Handles {
    /// Nothing: they are the driver's.
    #[default]
    OfDriver,
    /// They are the ordinals of recordings: the k-th pool stream is called k.
    Ordinals,
}

/// The registration counter, the counters of pool ids, the settings and the reserve classes of streams.
#[derive(Debug)]
pub struct World {
    settings: RwLock<Arc<Settings>>,
    tie_order: TieOrder,
    handles: Handles,
    /// PyTorch's ids of the streams that were named.
    stream_ids: RwLock<HashMap<Stream, u64>>,
    /// Age of segments, over all devices and pools (R1.18).
    registrations: AtomicU64,
    graph_pools: AtomicU64,
    user_pools: AtomicU64,
    /// Raw stream handle to reserve class (R4.28).
    reserve_classes: Mutex<HashMap<u64, String>>,
    expandable_count: AtomicU64,
    expandable_bytes: AtomicU64,
    devices: Mutex<Vec<Weak<Core>>>,
    host_caches: Mutex<Vec<Weak<HostCore>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for World {
    fn default() -> Self {
        World {
            settings: RwLock::default(),
            tie_order: TieOrder::default(),
            handles: Handles::default(),
            stream_ids: RwLock::default(),
            registrations: AtomicU64::new(0),
            graph_pools: AtomicU64::new(1),
            user_pools: AtomicU64::new(1),
            reserve_classes: Mutex::default(),
            expandable_count: AtomicU64::new(0),
            expandable_bytes: AtomicU64::new(0),
            devices: Mutex::default(),
            host_caches: Mutex::default(),
        }
    }
}

impl World {
    /// A world with the given settings.
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(World { settings: RwLock::new(Arc::new(settings)), ..World::default() })
    }

    /// A world in which recordings are repeated: a stream's handle is its ordinal (0 the default stream, k the k-th of
    /// PyTorch's pool streams, R3.16), and ties are decided as the recorded version did.
    pub fn of_recordings(settings: Settings, tie_order: TieOrder) -> Arc<Self> {
        let settings = RwLock::new(Arc::new(settings));
        Arc::new(World { settings, tie_order, handles: Handles::Ordinals, ..World::default() })
    }

    /// Tells PyTorch's id of a stream, to be called before the stream is first recorded on a block. PyTorch visits the streams
    /// of a block, and the streams with events, in the order of a hash of their ids (R3.16), so blocks become free in its order
    /// only where the ids are known. A stream that nobody named counts as one that PyTorch did not make: its id is its handle.
    pub fn name_stream(&self, stream: Stream, id: u64) {
        let known = self.stream_ids.read().unwrap_or_else(PoisonError::into_inner).get(&stream) == Some(&id);
        if !known {
            self.stream_ids.write().unwrap_or_else(PoisonError::into_inner).insert(stream, id);
        }
    }

    /// A stream with PyTorch's id of it.
    pub(crate) fn named(&self, stream: Stream) -> NamedStream {
        let ids = self.stream_ids.read().unwrap_or_else(PoisonError::into_inner);
        match (ids.get(&stream), self.handles) {
            (Some(&id), _) => NamedStream { stream, id },
            (None, Handles::OfDriver) => NamedStream { stream, id: stream.raw },
            (None, Handles::Ordinals) => NamedStream::of_recording(stream),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes settings at run time (R10.16): every allocator of this world acts on them from its next call.
    ///
    /// # Errors
    /// The first key that is not understood; earlier keys of the text stay applied (R10.11).
    pub fn configure(&self, text: &str, dialect: Dialect) -> Result<Vec<Warning>, ConfigError> {
        let (settings, outcome) = {
            let mut shared = self.settings.write().unwrap_or_else(PoisonError::into_inner);
            let outcome = Arc::make_mut(&mut shared).apply(text, dialect);
            (Arc::clone(&shared), outcome)
        };
        for device in self.devices().iter().filter_map(Weak::upgrade) {
            device.hold().adopt(Arc::clone(&settings));
        }
        outcome
    }

    /// A fresh id for a graph's pool: {k,0} (R5.1).
    pub fn graph_pool_id(&self) -> PoolId {
        PoolId(self.graph_pools.fetch_add(1, Relaxed), 0)
    }

    /// A fresh id for a user's pool: {0,k} (R5.1).
    pub fn user_pool_id(&self) -> PoolId {
        PoolId(0, self.user_pools.fetch_add(1, Relaxed))
    }

    /// Tags a stream with a reserve class for segments made later; an empty class removes the tag (R4.28).
    pub fn set_reserve_class(&self, stream: u64, class: &str) {
        let mut classes = locked(&self.reserve_classes);
        if class.is_empty() {
            classes.remove(&stream);
        } else {
            classes.insert(stream, class.to_owned());
        }
    }

    /// The reserve class of a stream (R4.28).
    pub fn reserve_class(&self, stream: u64) -> Option<String> {
        locked(&self.reserve_classes).get(&stream).cloned()
    }

    /// Expandable segments alive and the address space they hold, in bytes (R4.5).
    pub fn expandable_segments(&self) -> (u64, u64) {
        (self.expandable_count.load(Relaxed), self.expandable_bytes.load(Relaxed))
    }

    pub(crate) fn expandable_made(&self, bytes: u64) {
        self.expandable_count.fetch_add(1, Relaxed);
        self.expandable_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn expandable_gone(&self, bytes: u64) {
        self.expandable_count.fetch_sub(1, Relaxed);
        self.expandable_bytes.fetch_sub(bytes, Relaxed);
    }

    /// The registration counter of a new segment; `None` where all segments are of one age.
    pub(crate) fn register(&self) -> Option<u64> {
        match self.tie_order {
            TieOrder::Registration => Some(self.registrations.fetch_add(1, Relaxed)),
            TieOrder::Address => None,
        }
    }

    fn devices(&self) -> Vec<Weak<Core>> {
        locked(&self.devices).clone()
    }

    pub(crate) fn join(&self, device: &Arc<Core>) {
        let mut devices = locked(&self.devices);
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(device));
    }

    /// The caches of pinned memory that act on this world's settings, in the order in which they were made.
    pub(crate) fn host_caches(&self) -> Vec<HostCache> {
        locked(&self.host_caches).iter().filter_map(Weak::upgrade).map(HostCache::of).collect()
    }

    pub(crate) fn join_host(&self, cache: &Arc<HostCore>) {
        let mut caches = locked(&self.host_caches);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }
}
