//! What a test does to both sides: operations whose targets are picked by number from what is there, so that any list of
//! operations is a valid script and shrinks to a shorter one.

use std::collections::BTreeSet;

use millpond_driver::Order;
use proptest::prelude::*;

use super::MIB;
use super::pair::{KnownPool, Pair, caller, pool_id, same_end, stream};
use super::settings::Key;
use super::state::{DEFAULT, Failure, Filter, Id, Who};

/// The machine and the settings it starts with.
#[derive(Clone, Debug)]
pub struct Start {
    pub capacity: u64,
    pub manual: bool,
    pub keys: Vec<Key>,
    /// Whether somebody watches the events: without, the allocator may take shorter ways.
    pub watched: bool,
    /// Everything is compared at every so manieth step: looking settles what the allocator may have put off.
    pub every: usize,
}

impl Start {
    pub fn new(capacity: u64, manual: bool, keys: Vec<Key>) -> Self {
        Start { capacity, manual, keys, watched: false, every: 1 }
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Alloc { size: u64, stream: u64, who: Who },
    AllocInPool { pool: usize, size: u64, who: Who },
    AllocAt { block: usize, offset: u64, size: u64, who: Who },
    Free { nth: usize, who: Who },
    FreeUnknown { addr: u64 },
    Record { nth: usize, stream: u64, who: Who },
    Advance(usize),
    Sync,
    StreamSync(u64),
    ForkJoin(u64, u64),
    Empty(Who),
    ProcessEvents(Who),
    PoolCreate { use_on_oom: bool, no_split: bool, custom: bool },
    PoolEnter { pool: usize, filter: FilterKind, who: Who },
    PoolLeave { pool: usize },
    PoolDestroy { pool: usize },
    PoolEmpty { pool: usize },
    CaptureBegin { stream: u64, share: Option<usize> },
    CaptureEnd { graph: usize },
    GraphReset { graph: usize },
    SetFraction(f64),
    Configure(Vec<Key>),
    ResetPeaks,
    ResetAccumulated,
    LargestBlock(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum FilterKind {
    Any,
    Thread,
    Stream,
    Function,
}

/// Whether a script goes on.
pub enum Next {
    GoOn,
    /// The law says nothing about what follows.
    Stop,
}

/// Runs a script to its end or to where the law ends: what it reached. The error says which step differs and how.
pub fn run(start: &Start, ops: &[Op]) -> Result<BTreeSet<&'static str>, String> {
    let mut pair = Pair::new(start, "");
    for (i, op) in ops.iter().enumerate() {
        let compare = i % start.every == start.every - 1 || i + 1 == ops.len();
        let next = pair
            .step(op)
            .and_then(|()| pair.settle(compare))
            .map_err(|difference| format!("step {i}, {op:?}: {difference}"))?;
        if let Next::Stop = next {
            break;
        }
    }
    if pair.model.undefined.is_none() {
        pair.compare_names()?;
    }
    Ok(pair.model.reached)
}

/// Runs a script with settings that change nothing as long as there is memory: to its end, or to where there is none and
/// only consistency is asked for. Whether it came there.
pub fn run_until_exhausted(start: &Start, ops: &[Op], written: &str) -> Result<bool, String> {
    let mut pair = Pair::new(start, written);
    for (i, op) in ops.iter().enumerate() {
        let outcome = pair.step(op);
        if pair.model.exhausted {
            let verified = pair.real.verify().map_err(|wrong| format!("step {i}, {op:?}: verify: {}", wrong[0]));
            return verified.map(|()| true);
        }
        match outcome.and_then(|()| pair.settle(true)).map_err(|wrong| format!("step {i}, {op:?}: {wrong}"))? {
            Next::GoOn => {}
            Next::Stop => break,
        }
    }
    Ok(false)
}

fn pick<T>(list: &[T], nth: usize) -> Option<&T> {
    if list.is_empty() { None } else { list.get(nth % list.len()) }
}

fn end<A>(result: Result<A, millpond::Error>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("unexpected error: {error}"))
}

impl Pair {
    /// After a step: where the law ends the allocator need only be consistent.
    pub fn settle(&mut self, compare: bool) -> Result<Next, String> {
        if self.model.undefined.is_some() {
            self.real.verify().map_err(|wrong| format!("verify: {}", wrong[0]))?;
            return Ok(Next::Stop);
        }
        if compare { self.compare().map(|()| Next::GoOn) } else { Ok(Next::GoOn) }
    }

    /// Does one operation to both sides and compares how it ended.
    pub fn step(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Alloc { size, stream: raw, who } => self.alloc(size, raw, who),
            Op::AllocInPool { pool, size, who } => {
                let Some(pool) = self.living_pool(pool).filter(|pool| !pool.entered) else { return Ok(()) };
                let (id, filter) = (pool.id, Filter::Thread(who.thread));
                self.enter(id, filter)?;
                self.alloc(size, who.stream, who)?;
                self.leave(id)
            }
            Op::AllocAt { block, offset, size, who } => self.alloc_at(block, offset, size, who),
            Op::Free { nth, who } => {
                let Some(&addr) = pick(&self.model.live_addresses(), nth) else { return Ok(()) };
                let theirs = self.model.free(addr, who);
                self.unless_undefined("free", theirs, |pair| pair.real.free(addr, &caller(who)))
            }
            Op::FreeUnknown { addr } => {
                let who = Who { stream: 0, thread: 0 };
                let theirs = self.model.free(addr, who);
                same_end("free", &theirs, &self.real.free(addr, &caller(who)))
            }
            Op::Record { nth, stream: raw, who } => {
                let Some(&addr) = pick(&self.model.live_addresses(), nth) else { return Ok(()) };
                self.model.record_stream(addr, raw, who);
                end(self.real.record_stream(addr, stream(raw), &caller(who)))
            }
            Op::Advance(n) => {
                self.model.device.advance(n);
                self.sim.advance(n as u64);
                Ok(())
            }
            Op::Sync => {
                self.model.device.sync();
                self.sim.sync();
                Ok(())
            }
            Op::StreamSync(raw) => {
                self.model.device.wait_stream(raw);
                self.sim.stream_synchronize(stream(raw)).map_err(|error| error.to_string())
            }
            Op::ForkJoin(a, b) => {
                let (from, to) = (self.model.device.capture_of(a), self.model.device.capture_of(b));
                let crosses = to.is_some() && from != to;
                if a == b || crosses { Ok(()) } else { self.fork_join(a, b) }
            }
            Op::Empty(who) => {
                self.model.release_cached(DEFAULT, who);
                self.unless_undefined("empty_cache", Ok(()), |pair| pair.real.empty_cache(&caller(who)))
            }
            Op::ProcessEvents(who) => {
                if !self.model.in_capture(who) {
                    self.model.process_events();
                }
                self.unless_undefined("process_events", Ok(()), |pair| pair.real.process_events(&caller(who)))
            }
            Op::PoolCreate { use_on_oom, no_split, custom } => self.create_pool(use_on_oom, no_split, custom),
            Op::PoolEnter { pool, filter, who } => {
                let Some(pool) = self.living_pool(pool).cloned() else { return Ok(()) };
                let filter = match filter {
                    FilterKind::Any => Filter::Any,
                    FilterKind::Thread => Filter::Thread(who.thread),
                    FilterKind::Stream => Filter::Stream(who.stream),
                    FilterKind::Function => Filter::Streams(vec![who.stream, who.stream + 1]),
                };
                self.enter(pool.id, filter)
            }
            Op::PoolLeave { pool } => {
                let entered: Vec<_> = self.pools.iter().filter(|pool| pool.entered).cloned().collect();
                pick(&entered, pool).map_or(Ok(()), |pool| self.leave(pool.id))
            }
            Op::PoolDestroy { pool } => {
                let Some(pool) = self.living_pool(pool).cloned() else { return Ok(()) };
                self.destroy_pool(pool.id)
            }
            Op::PoolEmpty { pool } => {
                let Some(id) = pick(&self.pools, pool).map(|pool| pool.id) else { return Ok(()) };
                let who = Who { stream: 0, thread: 0 };
                self.model.release_cached(id, who);
                self.unless_undefined("empty", Ok(()), |pair| pair.real.empty_pool_cache(pool_id(id), &caller(who)))
            }
            Op::CaptureBegin { stream: raw, share } => {
                if self.model.device.capture_of(raw).is_some() {
                    return Ok(());
                }
                let shared = share.and_then(|nth| pick(&self.graphs, nth)).map(|graph| graph.pool);
                let pool = shared.unwrap_or_else(|| {
                    let id = self.real.world().graph_pool_id();
                    (id.0, id.1)
                });
                self.capture_begin(raw, pool)
            }
            Op::CaptureEnd { graph } => {
                let open: Vec<_> = (0..self.graphs.len()).filter(|&graph| !self.graphs[graph].ended).collect();
                pick(&open, graph).map_or(Ok(()), |&graph| self.capture_end(graph))
            }
            Op::GraphReset { graph } => {
                let ready = |graph: &usize| self.graphs[*graph].ended && !self.graphs[*graph].reset;
                let ready: Vec<_> = (0..self.graphs.len()).filter(ready).collect();
                let Some(&graph) = pick(&ready, graph) else { return Ok(()) };
                self.graphs[graph].reset = true;
                let pool = self.graphs[graph].pool;
                let theirs = self.model.release_pool(pool);
                same_end("release_pool", &theirs, &self.real.release_pool(pool_id(pool)))
            }
            Op::SetFraction(fraction) => {
                let theirs = self.model.set_fraction(fraction);
                same_end("set_memory_fraction", &theirs, &self.real.set_memory_fraction(fraction))
            }
            Op::Configure(ref keys) => self.configure(keys),
            Op::ResetPeaks => {
                self.model.stats.reset_peaks();
                self.real.reset_peak_stats();
                Ok(())
            }
            Op::ResetAccumulated => {
                self.model.stats.reset_accumulated();
                self.real.reset_accumulated_stats();
                Ok(())
            }
            Op::LargestBlock(floor) => {
                let theirs = Ok(self.model.largest_block(floor));
                same_end("largest_block", &theirs, &self.real.largest_block(floor))
            }
        }
    }

    /// The real side follows unless the model has met something that the law leaves open; then it need only survive.
    fn unless_undefined<A: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        theirs: Result<A, Failure>,
        ours: impl FnOnce(&Pair) -> Result<A, millpond::Error>,
    ) -> Result<(), String> {
        let ours = ours(self);
        if self.model.undefined.is_some() { Ok(()) } else { same_end(what, &theirs, &ours) }
    }

    pub fn alloc(&mut self, size: u64, raw: u64, who: Who) -> Result<(), String> {
        let theirs = self.model.malloc(size, raw, who);
        self.unless_undefined("alloc", theirs, |pair| pair.real.alloc(size, stream(raw), &caller(who)))
    }

    fn alloc_at(&mut self, block: usize, offset: u64, size: u64, who: Who) -> Result<(), String> {
        let free: Vec<_> =
            self.model.blocks.iter().filter(|block| block.used == super::state::Use::Free).cloned().collect();
        let Some(block) = pick(&free, block) else { return Ok(()) };
        let raw = self.model.segment_of(block.id).stream;
        let addr = block.addr + offset % block.size;
        let size = 1 + size % block.size;
        let theirs = self.model.malloc_at(addr, size, raw, who);
        self.unless_undefined("alloc_at", theirs, |pair| pair.real.alloc_at(addr, size, stream(raw), &caller(who)))
    }

    fn living_pool(&self, nth: usize) -> Option<&KnownPool> {
        let living: Vec<_> = self.pools.iter().filter(|pool| pool.alive).collect();
        pick(&living, nth).copied()
    }

    fn create_pool(&mut self, use_on_oom: bool, no_split: bool, custom: bool) -> Result<(), String> {
        let id = self.real.world().user_pool_id();
        let (theirs, ours) = match custom.then(|| self.custom()) {
            Some((index, ours)) => (Some(index), Some(ours)),
            None => (None, None),
        };
        let known = (id.0, id.1);
        let theirs = self.model.create_or_incref_pool(known, theirs);
        same_end("create_pool", &theirs, &self.real.create_or_incref_pool(id, ours))?;
        if use_on_oom {
            self.model.set_use_on_oom(known, true);
            end(self.real.set_use_on_oom(id, true))?;
        }
        if no_split {
            self.model.pool_mut(known).expect("the pool").no_split = true;
            end(self.real.set_no_split(id))?;
        }
        self.pools.push(KnownPool { id: known, alive: true, entered: false });
        Ok(())
    }

    fn known(&mut self, id: Id) -> &mut KnownPool {
        self.pools.iter_mut().find(|pool| pool.id == id).expect("a known pool")
    }

    fn enter(&mut self, id: Id, filter: Filter) -> Result<(), String> {
        let ours = match filter.clone() {
            Filter::Any => millpond::Filter::Any,
            Filter::Thread(thread) => millpond::Filter::Thread(millpond::Thread::Named(thread)),
            Filter::Stream(raw) => millpond::Filter::Stream(stream(raw)),
            Filter::Streams(raw) => millpond::Filter::Custom(std::sync::Arc::new(move |s| raw.contains(&s.raw))),
            Filter::Capture(_) => unreachable!("captures open their own scopes"),
        };
        let theirs = self.model.begin_allocate_to_pool(id, filter);
        if theirs.is_ok() {
            self.known(id).entered = true;
        }
        same_end("begin_allocate_to_pool", &theirs, &self.real.begin_allocate_to_pool(pool_id(id), ours))
    }

    fn leave(&mut self, id: Id) -> Result<(), String> {
        self.known(id).entered = false;
        let theirs = self.model.end_allocate_to_pool(id);
        same_end("end_allocate_to_pool", &theirs, &self.real.end_allocate_to_pool(pool_id(id)))?;
        let theirs = self.model.release_pool(id);
        same_end("release_pool", &theirs, &self.real.release_pool(pool_id(id)))
    }

    /// R5.12.
    fn destroy_pool(&mut self, id: Id) -> Result<(), String> {
        self.known(id).alive = false;
        self.model.set_use_on_oom(id, false);
        end(self.real.set_use_on_oom(pool_id(id), false))?;
        let theirs = self.model.release_pool(id);
        same_end("release_pool", &theirs, &self.real.release_pool(pool_id(id)))?;
        let who = Who { stream: 0, thread: 0 };
        self.model.release_cached(id, who);
        self.unless_undefined("empty", Ok(()), |pair| pair.real.empty_pool_cache(pool_id(id), &caller(who)))
    }
}

// ── Strategies ──

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 1..MIB,
        2 => (1u64..2048).prop_map(|n| n * 512),
        10 => MIB..10 * MIB,
        8 => 10 * MIB..40 * MIB,
        4 => 40 * MIB..130 * MIB,
        3 => prop::sample::select(vec![
            1, 511, 512, 513, MIB, MIB + 1, 2 * MIB, 10 * MIB - 512, 10 * MIB - 511, 10 * MIB, 10 * MIB + 1, 19 * MIB,
            20 * MIB, 32 * MIB,
        ]),
        1 => prop::sample::select(vec![0, 300 * MIB, (1 << 60) - 1, 1 << 60, u64::MAX]),
    ]
}

fn raw_stream() -> impl Strategy<Value = u64> {
    prop_oneof![5 => Just(0u64), 3 => Just(1u64), 1 => Just(2u64), 1 => Just(3u64)]
}

fn who() -> impl Strategy<Value = Who> {
    (raw_stream(), 0..2u64).prop_map(|(stream, thread)| Who { stream, thread })
}

/// Mostly the request's stream is the thread's own.
fn alloc() -> impl Strategy<Value = Op> {
    (size(), who(), prop_oneof![4 => Just(None), 1 => raw_stream().prop_map(Some)])
        .prop_map(|(size, who, other)| Op::Alloc { size, stream: other.unwrap_or(who.stream), who })
}

fn key() -> impl Strategy<Value = Key> {
    let list = prop::collection::vec(
        (0..9u32, prop::sample::select(vec![0u64, 1, 2, 4, 8])).prop_map(|(log, value)| (1 << log, value)),
        1..4,
    );
    prop_oneof![
        // Even ones: a page is a multiple of the driver's granularity.
        2 => prop::sample::select(vec![12u64, 16, 20, 24, 32]).prop_map(Key::LargeSegment),
        3 => (0..30u64).prop_map(Key::MaxSplit),
        2 => (0..60u64).prop_map(Key::MaxNonSplitRounding),
        3 => prop::sample::select(vec![0.1, 0.3, 0.5, 0.8, 0.95]).prop_map(Key::GcThreshold),
        2 => prop::sample::select(vec![1u64, 2, 4, 8]).prop_map(Key::Divisions),
        1 => (list, prop::option::of(prop::sample::select(vec![0u64, 1, 2, 4])))
            .prop_map(|(list, above)| Key::DivisionList(list, above)),
        4 => prop::bool::weighted(0.7).prop_map(Key::Expandable),
        2 => prop::sample::select(vec![0.1, 0.25, 0.5, 1.0, 2.0]).prop_map(Key::Reserve),
        1 => any::<bool>().prop_map(Key::ThrowOnOom),
        2 => prop::sample::select(vec![0.25, 0.5, 0.75, 0.9, 1.0]).prop_map(Key::Fraction),
    ]
}

/// A key stands at most once in a string.
fn keys(most: usize) -> impl Strategy<Value = Vec<Key>> {
    prop::collection::vec(key(), 0..=most).prop_map(|keys| {
        let mut once: Vec<Key> = Vec::new();
        for key in keys {
            let divides = |key: &Key| matches!(key, Key::Divisions(_) | Key::DivisionList(..));
            let same = |other: &Key| {
                std::mem::discriminant(other) == std::mem::discriminant(&key) || divides(other) && divides(&key)
            };
            if !once.iter().any(same) {
                once.push(key);
            }
        }
        once
    })
}

pub fn start() -> impl Strategy<Value = Start> {
    let capacity = prop::sample::select(vec![64 * MIB, 96 * MIB, 128 * MIB, 181 * MIB, 256 * MIB]);
    let every = prop::sample::select(vec![1, 1, 7, 1000]);
    (capacity, any::<bool>(), keys(4), any::<bool>(), every)
        .prop_map(|(capacity, manual, keys, watched, every)| Start { capacity, manual, keys, watched, every })
}

fn op() -> impl Strategy<Value = Op> {
    let nth = || 0..64usize;
    let filter = prop::sample::select(vec![
        FilterKind::Any,
        FilterKind::Thread,
        FilterKind::Thread,
        FilterKind::Stream,
        FilterKind::Function,
    ]);
    prop_oneof![
        40 => alloc(),
        26 => (nth(), who()).prop_map(|(nth, who)| Op::Free { nth, who }),
        6 => (nth(), raw_stream(), who()).prop_map(|(nth, stream, who)| Op::Record { nth, stream, who }),
        4 => (nth(), size(), who()).prop_map(|(pool, size, who)| Op::AllocInPool { pool, size, who }),
        2 => (nth(), 0..64 * MIB, 0..16 * MIB, any::<bool>(), who()).prop_map(|(block, offset, size, aligned, who)| {
            Op::AllocAt { block, offset: if aligned { offset / 512 * 512 } else { offset }, size, who }
        }),
        1 => prop::sample::select(vec![0, 1, 0x2000_0000_0001]).prop_map(|addr| Op::FreeUnknown { addr }),
        3 => (0..4usize).prop_map(Op::Advance),
        1 => Just(Op::Sync),
        1 => raw_stream().prop_map(Op::StreamSync),
        2 => (raw_stream(), raw_stream()).prop_map(|(a, b)| Op::ForkJoin(a, b)),
        2 => who().prop_map(Op::Empty),
        1 => who().prop_map(Op::ProcessEvents),
        2 => (prop::bool::weighted(0.4), prop::bool::weighted(0.2), prop::bool::weighted(0.3))
            .prop_map(|(use_on_oom, no_split, custom)| Op::PoolCreate { use_on_oom, no_split, custom }),
        2 => (nth(), filter, who()).prop_map(|(pool, filter, who)| Op::PoolEnter { pool, filter, who }),
        2 => nth().prop_map(|pool| Op::PoolLeave { pool }),
        1 => nth().prop_map(|pool| Op::PoolDestroy { pool }),
        1 => nth().prop_map(|pool| Op::PoolEmpty { pool }),
        2 => (1..4u64, prop::option::of(nth())).prop_map(|(stream, share)| Op::CaptureBegin { stream, share }),
        2 => nth().prop_map(|graph| Op::CaptureEnd { graph }),
        1 => nth().prop_map(|graph| Op::GraphReset { graph }),
        1 => prop::sample::select(vec![0.0, 0.3, 0.5, 0.8, 1.0, 1.5]).prop_map(Op::SetFraction),
        2 => keys(3).prop_map(Op::Configure),
        1 => Just(Op::ResetPeaks),
        1 => Just(Op::ResetAccumulated),
        1 => prop::sample::select(vec![0, 1, 50 * MIB]).prop_map(Op::LargestBlock),
    ]
}

pub fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..=most)
}
