//! The model and the allocator side by side: every step is done to both, and everything that can be seen is compared.

use std::sync::{Arc, Mutex, OnceLock};

use millpond::config::{Dialect, Settings};
use millpond::size::SizeClass;
use millpond::{
    Allocator, BlockUse, Caller, CustomAllocator, Error, Event, Observer, PoolId, Stat, Thread, TieOrder, World,
};
use millpond_driver::{Bytes, Device, Stream};
use millpond_sim::{EventMode, Sim, SimConfig};

use super::script::Start;
use super::settings::Conf;
use super::state::{Failure, Hint, Id, Jumpy, Kind, Model, OomFacts, Source, Use, Who};
use super::stats::What;

pub const DEVICE: Device = Device(0);

pub fn stream(raw: u64) -> Stream {
    Stream::new(DEVICE, raw)
}

pub fn caller(who: Who) -> Caller<'static> {
    Caller { thread: Some(Thread::Named(who.thread)), ..Caller::on(stream(who.stream)) }
}

pub fn pool_id(id: Id) -> PoolId {
    PoolId(id.0, id.1)
}

/// The real side's custom allocator.
#[derive(Debug)]
pub struct Custom(pub Mutex<Jumpy>);

impl CustomAllocator for Custom {
    fn raw_alloc(&self, bytes: u64, _: Stream) -> Option<u64> {
        self.0.lock().unwrap().take(bytes)
    }

    fn raw_delete(&self, addr: u64, bytes: u64, _: Stream) {
        self.0.lock().unwrap().give(addr, bytes);
    }
}

/// PyTorch's trace of the real side.
#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, u64, u64)>>);

impl Observer for Seen {
    fn events(&self, events: &[Event]) {
        let torch = events.iter().filter(|event| event.action.is_torch());
        self.0.lock().unwrap().extend(torch.map(|event| (event.action.name(), event.addr, event.size)));
    }
}

/// A private pool that the script made.
#[derive(Clone, Debug)]
pub struct KnownPool {
    pub id: Id,
    pub alive: bool,
    pub entered: bool,
}

/// A graph that the script captured.
#[derive(Clone, Debug)]
pub struct KnownGraph {
    pub pool: Id,
    pub stream: u64,
    pub ended: bool,
    pub reset: bool,
}

pub struct Pair {
    pub sim: Arc<Sim>,
    pub real: Allocator,
    pub model: Model,
    seen: Arc<Seen>,
    watched: bool,
    kept: super::solo::KeptOnPanic,
    pub pools: Vec<KnownPool>,
    pub graphs: Vec<KnownGraph>,
    pub budget: u64,
}

impl Pair {
    /// With the settings that `written` adds in Millpond's dialect, of which the model knows nothing.
    pub fn new(start: &Start, written: &str) -> Self {
        let events = if start.manual { EventMode::Manual } else { EventMode::Immediate };
        let capacity = start.capacity;
        // The recordings' device does not enforce what CUDA forbids in a capture.
        let config = SimConfig { events, capture_checks: false, ..SimConfig::with_capacity(Bytes(capacity)) };
        let sim = Sim::new(config);
        let mut conf = Conf::default();
        let text = conf.apply(&start.keys);
        let (mut settings, _) = Settings::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        settings.apply(written, Dialect::Millpond).unwrap_or_else(|error| panic!("{written}: {error}"));
        let real = Allocator::new(sim.clone(), DEVICE, World::of_recordings(settings, TieOrder::default())).unwrap();
        let seen = Arc::new(Seen::default());
        if start.watched {
            real.attach_observer(seen.clone());
        }
        let model = Model::new(conf, capacity, start.manual);
        let (watched, kept) = (start.watched, super::solo::KeptOnPanic::new(&real));
        Pair { sim, real, model, seen, watched, kept, pools: Vec::new(), graphs: Vec::new(), budget: capacity / 2 }
    }

    /// A custom allocator on both sides: its index in the model, and the real one.
    pub fn custom(&mut self) -> (usize, Arc<dyn CustomAllocator>) {
        let nth = self.model.sources.len();
        let source = || Jumpy::new(nth as u64, self.budget);
        let ours = Arc::new(Custom(Mutex::new(source())));
        self.model.sources.push(Box::new(source()));
        (nth, ours)
    }

    pub fn capture_begin(&mut self, raw: u64, pool: Id) -> Result<(), String> {
        let theirs = self.model.capture_begin(raw, pool);
        let id = Arc::new(OnceLock::new());
        let ours = self.real.begin_allocate_to_pool(pool_id(pool), millpond::Filter::Capture(id.clone()));
        let began = ours.is_ok();
        if began {
            use millpond_driver::Capture;
            self.sim.capture_begin(stream(raw), millpond_driver::CaptureMode::Global).map_err(|e| e.to_string())?;
            id.set(self.sim.capture_info(stream(raw)).map_err(|e| e.to_string())?.id).expect("set once");
            self.real.mark_capture_begin();
        }
        if began {
            self.graphs.push(KnownGraph { pool, stream: raw, ended: false, reset: false });
        }
        same_end("capture_begin", &theirs, &ours)
    }

    pub fn capture_end(&mut self, graph: usize) -> Result<(), String> {
        let KnownGraph { pool, stream: raw, .. } = self.graphs[graph];
        self.graphs[graph].ended = true;
        let theirs = self.model.capture_end(raw, pool);
        millpond_driver::Capture::capture_end(&*self.sim, stream(raw)).map_err(|e| e.to_string())?;
        self.real.mark_capture_end();
        same_end("capture_end", &theirs, &self.real.end_allocate_to_pool(pool_id(pool)))
    }

    pub fn fork_join(&mut self, a: u64, b: u64) -> Result<(), String> {
        use millpond_driver::Order;
        self.model.device.fork_join(a, b);
        // The event is never destroyed: it counts until it is complete.
        let event = self.sim.event_create(DEVICE).map_err(|e| e.to_string())?;
        self.sim.event_record(event, stream(a)).map_err(|e| e.to_string())?;
        self.sim.stream_wait_event(stream(b), event).map_err(|e| e.to_string())
    }

    pub fn configure(&mut self, keys: &[super::settings::Key]) -> Result<(), String> {
        let text = self.model.conf.apply(keys);
        self.real.world().configure(&text, Dialect::Torch).map(drop).map_err(|e| format!("{text}: {e}"))
    }

    /// Compares all that can be seen, and lets the allocator verify itself.
    pub fn compare(&mut self) -> Result<(), String> {
        self.real.verify().map_err(|wrong| format!("verify: {}", wrong[0]))?;
        self.compare_trace()?;
        self.compare_stats()?;
        self.compare_segments()?;
        for pool in self.model.pools.iter().filter(|pool| !Model::is_default(pool.id)) {
            let ours = self.real.pool_use_count(pool_id(pool.id)).unwrap_or(0);
            if ours != pool.use_count as u64 {
                return Err(format!("pool {:?}: use count {} expected, got {ours}", pool.id, pool.use_count));
            }
        }
        if self.sim.pending_events() != self.model.device.pending().len() as u64 {
            let (ours, theirs) = (self.sim.pending_events(), self.model.device.pending().len());
            return Err(format!("pending events: {theirs} expected, got {ours}"));
        }
        Ok(())
    }

    fn compare_trace(&mut self) -> Result<(), String> {
        let mut ours = std::mem::take(&mut *self.seen.0.lock().unwrap());
        let mut theirs = std::mem::take(&mut self.model.trace);
        if !self.watched {
            return Ok(());
        }
        if self.model.unordered {
            ours.sort_unstable();
            theirs.sort_unstable();
        }
        if ours == theirs { Ok(()) } else { Err(format!("trace:\n expected {theirs:x?}\n got      {ours:x?}")) }
    }

    fn compare_stats(&self) -> Result<(), String> {
        let (ours, theirs) = (self.real.stats(), &self.model.stats);
        for what in What::ALL {
            let loose = self.model.unordered && matches!(what, What::InactiveSplit | What::InactiveSplitBytes);
            let columns = if what.has_classes() { 3 } else { 1 };
            for column in 0..columns {
                let (a, b) = (ours.metrics[what as usize][column], theirs.metrics[what as usize][column]);
                let Stat { current, peak, allocated, freed } = a;
                let a = [current, peak as i64, allocated as i64, freed as i64];
                let b = [b.current, b.peak, b.allocated, b.freed];
                if if loose { a[0] != b[0] } else { a != b } {
                    return Err(format!(
                        "{}[{column}] (current, peak, allocated, freed): expected {b:?}, got {a:?}",
                        what.key()
                    ));
                }
            }
        }
        let by_pool = ours.reserved_by_private_pools.iter().map(|(id, by_class)| {
            let values = by_class.map(|s| [s.current, s.peak as i64, s.allocated as i64, s.freed as i64]);
            ((id.0, id.1), values)
        });
        let expected = theirs.by_pool.iter().map(|(id, by_class)| {
            let values = by_class.map(|s| [s.current, s.peak, s.allocated, s.freed]);
            (*id, values)
        });
        let (by_pool, expected): (Vec<_>, Vec<_>) = (by_pool.collect(), expected.collect());
        if by_pool != expected {
            return Err(format!("reserved_bytes_by_private_pools: expected {expected:?}, got {by_pool:?}"));
        }
        let counts = [
            ("num_alloc_retries", ours.num_alloc_retries as i64, theirs.retries),
            ("num_ooms", ours.num_ooms as i64, theirs.ooms),
            ("num_sync_all_streams", ours.num_sync_all_streams as i64, theirs.syncs),
            ("num_device_alloc", ours.num_device_alloc as i64, theirs.device_allocs),
            ("num_device_free", ours.num_device_free as i64, theirs.device_frees),
            ("num_oom_rejections", ours.num_oom_rejections as i64, theirs.rejections),
            ("max_split_size", ours.max_split_size, theirs.max_split),
        ];
        counts.iter().try_for_each(
            |(name, a, b)| {
                if a == b { Ok(()) } else { Err(format!("{name}: expected {b}, got {a}")) }
            },
        )
    }

    /// The names of all statistics too (R8.2).
    pub fn compare_names(&self) -> Result<(), String> {
        let (ours, theirs) = (self.real.stats().flatten(), self.model.stats.flatten());
        let differs =
            |key: &&String| ours.get(*key) != theirs.get(*key) && !(self.model.unordered && key.contains("inactive"));
        match ours.keys().chain(theirs.keys()).find(differs) {
            None => Ok(()),
            Some(key) => Err(format!("{key}: expected {:?}, got {:?}", theirs.get(key), ours.get(key))),
        }
    }

    fn compare_segments(&self) -> Result<(), String> {
        let mut theirs: Vec<_> = self.model.segments.iter().collect();
        theirs.sort_unstable_by_key(|segment| segment.base);
        let theirs = theirs.into_iter().map(|segment| {
            let mut blocks: Vec<_> =
                self.model.blocks.iter().filter(|block| block.segment == segment.counter).collect();
            blocks.sort_unstable_by_key(|block| block.addr);
            let page = if let Kind::Expandable { page } = segment.kind { page } else { 0 };
            let blocks = blocks.into_iter().map(|block| {
                let requested = if matches!(block.used, Use::Live | Use::Pending) { block.requested } else { 0 };
                (block.addr, block.size, requested, block.used)
            });
            let head = (segment.base, segment.size, segment.stream, segment.pool, segment.small, page);
            (head, blocks.collect::<Vec<_>>())
        });
        let ours = self.real.segments().into_iter().map(|segment| {
            let blocks = segment.blocks.iter().map(|block| {
                let used = match block.state {
                    BlockUse::Live => Use::Live,
                    BlockUse::Pending => Use::Pending,
                    BlockUse::Free => Use::Free,
                    BlockUse::Unmapped => Use::Unmapped,
                };
                let requested = if matches!(used, Use::Live | Use::Pending) { block.requested } else { 0 };
                (block.addr, block.size, requested, used)
            });
            let (id, small) = ((segment.pool.0, segment.pool.1), segment.class == SizeClass::Small);
            let head = (segment.base, segment.size, segment.stream.raw, id, small, segment.page);
            (head, blocks.collect::<Vec<_>>())
        });
        let (theirs, ours): (Vec<_>, Vec<_>) = (theirs.collect(), ours.collect());
        if theirs == ours { Ok(()) } else { Err(format!("segments:\n expected {theirs:x?}\n got      {ours:x?}")) }
    }
}

/// Compares how a call ended.
pub fn same_end<A: PartialEq + std::fmt::Debug>(
    what: &str,
    theirs: &Result<A, Failure>,
    ours: &Result<A, Error>,
) -> Result<(), String> {
    let same = match (theirs, ours) {
        (Ok(a), Ok(b)) => a == b,
        (Err(failure), Err(error)) => is_same(failure, error),
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{what}: expected {theirs:x?}, got {ours:x?}")) }
}

fn is_same(failure: &Failure, error: &Error) -> bool {
    match (failure, error) {
        (Failure::TooLarge, Error::TooLarge { .. })
        | (Failure::UnknownAddress, Error::UnknownAddress { .. })
        | (Failure::ScopeOpen, Error::ScopeOpen { .. })
        | (Failure::ScopeNotOpen, Error::ScopeNotOpen { .. })
        | (Failure::PoolReleased, Error::PoolReleased { .. })
        | (Failure::UnknownPool, Error::UnknownPool { .. })
        | (Failure::Misaligned, Error::MisalignedAddress { .. })
        | (Failure::NotFree, Error::AddressNotFree { .. })
        | (Failure::InvalidFraction, Error::InvalidFraction { .. }) => true,
        (Failure::Rejected { requested }, Error::Rejected { requested: ours }) => requested == ours,
        (Failure::Oom(facts), Error::OutOfMemory(oom)) => {
            let hint = match &oom.hint {
                millpond::Hint::TryExpandable => Hint::TryExpandable,
                millpond::Hint::ReserveTooSmall { reserve, .. } => Hint::ReserveTooSmall(*reserve),
                millpond::Hint::AddressSpace => Hint::AddressSpace,
            };
            *facts
                == OomFacts {
                    requested: oom.requested,
                    rounded: oom.rounded,
                    alloc_size: oom.alloc_size,
                    device_free: oom.device_free,
                    limit: oom.limit,
                    allocated: oom.allocated,
                    reserved: oom.reserved,
                    cached_in_private_pools: oom.cached_in_private_pools,
                    hint,
                    custom_failed: oom.custom_allocator_failed,
                }
        }
        _ => false,
    }
}
