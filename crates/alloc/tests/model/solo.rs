//! Scripts on the allocator alone: for what a comparison cannot show, such as injected failures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use millpond::config::Settings;
use millpond::{Allocator, BlockUse, Error, Filter, PoolId, Thread, TieOrder, World};
use millpond_driver::{Bytes, Capture, CaptureMode, Event, Order};
use millpond_sim::{EventMode, Sim, SimConfig};

use super::pair::{Custom, DEVICE, caller, stream};
use super::script::{FilterKind, Op, Start};
use super::state::{Jumpy, Who};

const MAIN: Who = Who { stream: 0, thread: 0 };

/// What one step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to say, or nothing to do.
    Quiet,
    At(u64),
    Failed(String),
}

pub struct Solo {
    pub sim: Arc<Sim>,
    pub real: Allocator,
    /// Live blocks: (rounded bytes, stream) by address.
    pub live: BTreeMap<u64, (u64, u64)>,
    /// (id, alive, entered).
    pools: Vec<(PoolId, bool, bool)>,
    /// (pool, stream, open, reset).
    graphs: Vec<(PoolId, u64, bool, bool)>,
    budget: u64,
    /// Streams that a script recorded for a live block.
    pub uses: BTreeMap<u64, Vec<u64>>,
    pub last_error: Option<Error>,
    pub kept: KeptOnPanic,
}

/// An allocator that panicked is not emptied on the way out: a second panic would hide which script it was.
pub struct KeptOnPanic(Allocator);

impl KeptOnPanic {
    pub fn new(allocator: &Allocator) -> Self {
        KeptOnPanic(allocator.clone())
    }
}

impl Drop for KeptOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.clone());
        }
    }
}

fn pick<T: Clone>(list: &[T], nth: usize) -> Option<T> {
    if list.is_empty() { None } else { list.get(nth % list.len()).cloned() }
}

impl Solo {
    /// With the settings that `written` adds in Millpond's dialect.
    pub fn new(start: &Start, written: &str) -> Self {
        let events = if start.manual { EventMode::Manual } else { EventMode::Immediate };
        let capacity = Bytes(start.capacity);
        let sim =
            Sim::new(SimConfig { events, capture_checks: false, log: true, ..SimConfig::with_capacity(capacity) });
        let text = super::settings::Conf::default().apply(&start.keys);
        let (mut settings, _) = Settings::parse(&text).unwrap();
        settings.apply(written, millpond::config::Dialect::Millpond).unwrap();
        let real = Allocator::new(sim.clone(), DEVICE, World::of_recordings(settings, TieOrder::default())).unwrap();
        let kept = KeptOnPanic::new(&real);
        Solo {
            sim,
            real,
            live: BTreeMap::new(),
            pools: Vec::new(),
            graphs: Vec::new(),
            budget: start.capacity / 2,
            uses: BTreeMap::new(),
            last_error: None,
            kept,
        }
    }

    fn quiet(&mut self, result: Result<(), Error>) -> Outcome {
        match result {
            Ok(()) => Outcome::Quiet,
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: Error) -> Outcome {
        let text = error.to_string();
        self.last_error = Some(error);
        Outcome::Failed(text)
    }

    fn handed_out(&mut self, result: Result<u64, Error>, raw: u64) -> Outcome {
        match result {
            Ok(0) => Outcome::Quiet,
            Ok(addr) => {
                let (_, rounded) = self.real.size_of(addr).expect("a live block");
                let before = self.live.insert(addr, (rounded, raw));
                assert_eq!(before, None, "{addr:#x} was handed out twice");
                Outcome::At(addr)
            }
            Err(error) => self.failed(error),
        }
    }

    pub fn nth_live(&self, nth: usize) -> Option<u64> {
        pick(&self.live.keys().copied().collect::<Vec<_>>(), nth)
    }

    /// Frees a live block. It is not live any more, whatever fails.
    pub fn free(&mut self, addr: u64, who: Who) -> Outcome {
        self.live.remove(&addr);
        self.uses.remove(&addr);
        let result = self.real.free(addr, &caller(who));
        self.quiet(result)
    }

    pub fn step(&mut self, op: &Op) -> Outcome {
        match *op {
            Op::Alloc { size, stream: raw, who } => {
                let result = self.real.alloc(size, stream(raw), &caller(who));
                self.handed_out(result, raw)
            }
            Op::AllocInPool { pool, size, who } => {
                let Some(at) = self.pool(pool, |&(_, alive, entered)| alive && !entered) else { return Outcome::Quiet };
                let id = self.pools[at].0;
                if let Err(error) = self.real.begin_allocate_to_pool(id, Filter::Thread(Thread::Named(who.thread))) {
                    return self.failed(error);
                }
                let result = self.real.alloc(size, stream(who.stream), &caller(who));
                let outcome = self.handed_out(result, who.stream);
                self.leave(id);
                outcome
            }
            Op::AllocAt { block, offset, size, who } => {
                let free = self.real.segments().into_iter().flat_map(|segment| {
                    let raw = segment.stream.raw;
                    let free = segment.blocks.into_iter().filter(|block| block.state == BlockUse::Free);
                    free.map(move |block| (block.addr, block.size, raw))
                });
                let Some((addr, bytes, raw)) = pick(&free.collect::<Vec<_>>(), block) else { return Outcome::Quiet };
                let (addr, size) = (addr + offset % bytes, 1 + size % bytes);
                let result = self.real.alloc_at(addr, size, stream(raw), &caller(who));
                self.handed_out(result, raw)
            }
            Op::Free { nth, who } => match self.nth_live(nth) {
                Some(addr) => self.free(addr, who),
                None => Outcome::Quiet,
            },
            Op::FreeUnknown { addr } => {
                let result = self.real.free(addr, &caller(MAIN));
                self.quiet(result)
            }
            Op::Record { nth, stream: raw, who } => {
                let Some(addr) = self.nth_live(nth) else { return Outcome::Quiet };
                let result = self.real.record_stream(addr, stream(raw), &caller(who)).map(drop);
                if result.is_ok() {
                    self.uses.entry(addr).or_default().push(raw);
                }
                self.quiet(result)
            }
            Op::Advance(n) => {
                self.sim.advance(n as u64);
                Outcome::Quiet
            }
            Op::Sync => {
                self.sim.sync();
                Outcome::Quiet
            }
            Op::StreamSync(raw) => {
                // A failure of the script's own calls means nothing to the allocator.
                let _ = self.sim.stream_synchronize(stream(raw));
                Outcome::Quiet
            }
            Op::ForkJoin(a, b) => {
                let open = |raw: u64| self.graphs.iter().any(|graph| graph.1 == raw && graph.2);
                if a != b && !open(b) {
                    let _ = self.fork_join(a, b);
                }
                Outcome::Quiet
            }
            Op::Empty(who) => {
                let result = self.real.empty_cache(&caller(who));
                self.quiet(result)
            }
            Op::ProcessEvents(who) => {
                let result = self.real.process_events(&caller(who));
                self.quiet(result)
            }
            Op::PoolCreate { use_on_oom, no_split, custom } => {
                let id = self.real.world().user_pool_id();
                let nth = self.pools.len() as u64;
                let source = || Arc::new(Custom(Mutex::new(Jumpy::new(nth, self.budget)))) as _;
                self.real.create_or_incref_pool(id, custom.then(source)).expect("a fresh id");
                self.real.set_use_on_oom(id, use_on_oom).expect("a pool");
                if no_split {
                    self.real.set_no_split(id).expect("a pool");
                }
                self.pools.push((id, true, false));
                Outcome::Quiet
            }
            Op::PoolEnter { pool, filter, who } => {
                let Some(at) = self.pool(pool, |&(_, alive, _)| alive) else { return Outcome::Quiet };
                let filter = match filter {
                    FilterKind::Any => Filter::Any,
                    FilterKind::Thread => Filter::Thread(Thread::Named(who.thread)),
                    FilterKind::Stream => Filter::Stream(stream(who.stream)),
                    FilterKind::Function => Filter::Custom(Arc::new(move |s| s.raw >= who.stream)),
                };
                let result = self.real.begin_allocate_to_pool(self.pools[at].0, filter);
                self.pools[at].2 |= result.is_ok();
                self.quiet(result)
            }
            Op::PoolLeave { pool } => match self.pool(pool, |&(.., entered)| entered) {
                Some(at) => {
                    self.pools[at].2 = false;
                    self.leave(self.pools[at].0)
                }
                None => Outcome::Quiet,
            },
            Op::PoolDestroy { pool } => match self.pool(pool, |&(_, alive, _)| alive) {
                Some(at) => self.destroy(at),
                None => Outcome::Quiet,
            },
            Op::PoolEmpty { pool } => {
                let Some((id, ..)) = pick(&self.pools, pool) else { return Outcome::Quiet };
                let result = self.real.empty_pool_cache(id, &caller(MAIN));
                self.quiet(result)
            }
            Op::CaptureBegin { stream: raw, share } => self.capture_begin(raw, share),
            Op::CaptureEnd { graph } => {
                let open: Vec<_> = (0..self.graphs.len()).filter(|&graph| self.graphs[graph].2).collect();
                pick(&open, graph).map_or(Outcome::Quiet, |graph| self.capture_end(graph))
            }
            Op::GraphReset { graph } => {
                let ready: Vec<_> =
                    (0..self.graphs.len()).filter(|&graph| !self.graphs[graph].2 && !self.graphs[graph].3).collect();
                pick(&ready, graph).map_or(Outcome::Quiet, |graph| self.graph_reset(graph))
            }
            Op::SetFraction(fraction) => {
                let result = self.real.set_memory_fraction(fraction);
                self.quiet(result)
            }
            Op::Configure(ref keys) => {
                let mut conf = super::settings::Conf {
                    large_segment: self.real.world().settings().large_segment_size,
                    ..Default::default()
                };
                let text = conf.apply(keys);
                self.real.world().configure(&text, millpond::config::Dialect::Torch).expect("a valid string");
                Outcome::Quiet
            }
            Op::ResetPeaks => {
                self.real.reset_peak_stats();
                Outcome::Quiet
            }
            Op::ResetAccumulated => {
                self.real.reset_accumulated_stats();
                Outcome::Quiet
            }
            Op::LargestBlock(floor) => {
                let result = self.real.largest_block(floor).map(drop);
                self.quiet(result)
            }
        }
    }

    fn pool(&self, nth: usize, fits: impl Fn(&(PoolId, bool, bool)) -> bool) -> Option<usize> {
        let fitting: Vec<_> = (0..self.pools.len()).filter(|&at| fits(&self.pools[at])).collect();
        pick(&fitting, nth)
    }

    fn leave(&mut self, id: PoolId) -> Outcome {
        let result = self.real.end_allocate_to_pool(id);
        let result = result.and(self.real.release_pool(id));
        self.quiet(result)
    }

    fn destroy(&mut self, at: usize) -> Outcome {
        self.pools[at].1 = false;
        let id = self.pools[at].0;
        self.real.set_use_on_oom(id, false).expect("no error without a pool");
        self.real.release_pool(id).expect("the script's own reference");
        let result = self.real.empty_pool_cache(id, &caller(MAIN));
        self.quiet(result)
    }

    fn fork_join(&self, a: u64, b: u64) -> millpond_driver::Result<()> {
        let event: Event = self.sim.event_create(DEVICE)?;
        self.sim.event_record(event, stream(a))?;
        self.sim.stream_wait_event(stream(b), event)
    }

    fn capture_begin(&mut self, raw: u64, share: Option<usize>) -> Outcome {
        if self.graphs.iter().any(|graph| graph.1 == raw && graph.2) {
            return Outcome::Quiet;
        }
        let shared = share.and_then(|nth| pick(&self.graphs, nth)).map(|graph| graph.0);
        let pool = shared.unwrap_or_else(|| self.real.world().graph_pool_id());
        let id = Arc::new(OnceLock::new());
        if let Err(error) = self.real.begin_allocate_to_pool(pool, Filter::Capture(id.clone())) {
            return self.failed(error);
        }
        let begun = self.sim.capture_begin(stream(raw), CaptureMode::Global);
        match begun.and_then(|()| self.sim.capture_info(stream(raw))) {
            Ok(info) => {
                id.set(info.id).expect("set once");
                self.real.mark_capture_begin();
                self.graphs.push((pool, raw, true, false));
                Outcome::Quiet
            }
            Err(error) => {
                // It may have begun before the second call failed.
                let _ = self.sim.capture_end(stream(raw));
                self.leave(pool);
                self.failed(error.into())
            }
        }
    }

    fn capture_end(&mut self, graph: usize) -> Outcome {
        let (pool, raw, open, _) = &mut self.graphs[graph];
        *open = false;
        let (pool, raw) = (*pool, *raw);
        let ended = self.sim.capture_end(stream(raw));
        if ended.is_err() {
            // Injected: once more, so that the stream is free again.
            let _ = self.sim.capture_end(stream(raw));
        }
        self.real.mark_capture_end();
        let result = self.real.end_allocate_to_pool(pool);
        self.quiet(result)
    }

    fn graph_reset(&mut self, graph: usize) -> Outcome {
        self.graphs[graph].3 = true;
        let result = self.real.release_pool(self.graphs[graph].0);
        self.quiet(result)
    }

    /// Ends what is open, frees what is live, and empties.
    pub fn tear_down(&mut self) -> Result<(), Error> {
        for graph in 0..self.graphs.len() {
            if self.graphs[graph].2 {
                self.capture_end(graph);
            }
            if !self.graphs[graph].3 {
                self.graph_reset(graph);
            }
        }
        for at in 0..self.pools.len() {
            if std::mem::take(&mut self.pools[at].2) {
                self.leave(self.pools[at].0);
            }
        }
        for addr in self.live.keys().copied().collect::<Vec<_>>() {
            if let Outcome::Failed(_) = self.free(addr, MAIN) {
                return Err(self.last_error.clone().expect("the error"));
            }
        }
        self.sim.sync();
        for at in 0..self.pools.len() {
            if self.pools[at].1
                && let Outcome::Failed(_) = self.destroy(at)
            {
                return Err(self.last_error.clone().expect("the error"));
            }
        }
        self.real.empty_cache(&caller(MAIN))
    }
}
