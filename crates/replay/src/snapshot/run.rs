//! One replay of a recorded device.

use millpond::{Allocator, Caller, Filter, PoolId, TieOrder};
use millpond_driver::{Bytes, Device, Order, Stream};
use millpond_sim::EventMode;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Bases, NewMemory, Recorded, Recording, Request};
use crate::{Failure, Machine, Outcome, Setup};

/// Under which conditions a recording is replayed.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The settings.
    pub settings: millpond::config::Settings,
    /// The device's memory.
    pub capacity: Bytes,
    /// Of that, what others use.
    pub others: Bytes,
    /// How ties between free blocks are decided.
    pub tie_order: TieOrder,
    /// Whether the start state is taken up whole, with recorded placement. Only right under the recorded settings.
    pub as_recorded: bool,
}

impl Recording<'_> {
    /// The recorded conditions, as far as the file tells.
    pub fn conditions(&self, tie_order: TieOrder) -> Conditions {
        let settings = self.settings.clone();
        Conditions { settings, capacity: self.capacity(), others: Bytes(0), tie_order, as_recorded: true }
    }
}

/// How many of the recorded decisions a replay of the recorded settings reproduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Allocations and OOMs in the trace.
    pub decisions: u64,
    /// Those with the recorded outcome: the same address, or an OOM.
    pub reproduced: u64,
    /// The tie order that reproduces more.
    pub tie_order: TieOrder,
}

/// Replays the recorded settings under both tie orders and reports the better one (`registration` if they are level).
///
/// # Errors
/// The allocator's or driver's, where the start state cannot be taken up.
pub fn trust(recording: &Recording<'_>) -> Result<Trust, Failure> {
    let of = |tie_order| -> Result<Trust, Failure> {
        let conditions = recording.conditions(tie_order);
        let mut run = SnapshotRun::new(recording, &conditions)?;
        run.to_the_end(|_, _| ());
        Ok(Trust { decisions: run.decisions, reproduced: run.reproduced, tie_order })
    };
    let (registration, address) = rayon::join(|| of(TieOrder::Registration), || of(TieOrder::Address));
    let (registration, address) = (registration?, address?);
    Ok(if address.reproduced > registration.reproduced { address } else { registration })
}

/// Streams with which blocks are kept pending: one a block, so that each completes when the recording says so.
const PENDING_STREAMS: u64 = 1 << 62;

/// A replay under way.
pub struct SnapshotRun<'r> {
    recording: &'r Recording<'r>,
    machine: Machine,
    /// Recorded address → ours, of blocks that are live.
    live: FxHashMap<u64, u64>,
    /// Recorded address → the stream that keeps the block pending.
    pending: FxHashMap<u64, u64>,
    pendings: u64,
    next: usize,
    /// Recorded placement: where reservations begin, and which are placed.
    bases: Option<Bases>,
    placed: FxHashSet<u64>,
    /// Allocations and OOMs so far.
    pub decisions: u64,
    /// Of those, the ones with the recorded outcome.
    pub reproduced: u64,
    /// Stream waits that the replay itself made, to let a pending block complete.
    pub own_stream_syncs: u64,
}

impl<'r> SnapshotRun<'r> {
    /// A fresh machine in the recording's start state.
    ///
    /// # Errors
    /// The allocator's or driver's: the start state does not fit the conditions. Under other
    /// settings that is an out-of-memory error before the first request.
    pub fn new(recording: &'r Recording<'r>, conditions: &Conditions) -> Result<Self, Failure> {
        let settings = conditions.settings.clone();
        let machine = Machine::new(&Setup {
            capacity: conditions.capacity,
            others: conditions.others,
            events: EventMode::Manual,
            settings: match conditions.as_recorded {
                true => recording.within_reach(settings, conditions.capacity),
                false => settings,
            },
            tie_order: conditions.tie_order,
            va_base: 1 << 21,
            va_end: 1 << 56,
            ..Setup::default()
        })?;
        let mut run = SnapshotRun {
            recording,
            machine,
            live: FxHashMap::default(),
            pending: FxHashMap::default(),
            pendings: 0,
            next: 0,
            bases: None,
            placed: FxHashSet::default(),
            decisions: 0,
            reproduced: 0,
            own_stream_syncs: 0,
        };
        run.make_pools()?;
        if conditions.as_recorded {
            run.take_up_whole(conditions)?;
        } else {
            run.place_blocks_in_use()?;
        }
        Ok(run)
    }

    fn allocator(&self) -> &Allocator {
        self.machine.allocator()
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The live blocks: recorded address and ours.
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.live.iter().map(|(&recorded, &ours)| (recorded, ours))
    }

    fn caller(&self) -> Caller<'static> {
        Caller::on(Stream::default_of(Device(0)))
    }

    /// Every private pool of the recording, with one owner.
    fn make_pools(&mut self) -> Result<(), Failure> {
        let in_trace = self.recording.requests.iter().filter_map(|recorded| match recorded.request {
            Request::Alloc { pool, .. } | Request::Oom { pool, .. } => Some(pool),
            _ => None,
        });
        let mut pools: Vec<PoolId> = in_trace.chain(self.recording.start.in_use().map(|block| block.pool)).collect();
        pools.sort_unstable();
        pools.dedup();
        for pool in pools.into_iter().filter(|pool| pool.is_private()) {
            self.allocator().create_or_incref_pool(pool, None)?;
        }
        Ok(())
    }

    /// The start state as recorded, segment by segment, at the recorded addresses.
    fn take_up_whole(&mut self, conditions: &Conditions) -> Result<(), Failure> {
        let (segments, bases) = self.recording.start_segments(&conditions.settings, conditions.capacity);
        for segment in &segments {
            self.machine.sim().place_next(segment.base);
            self.placed.insert(segment.base);
            self.allocator().seed(std::slice::from_ref(segment))?;
        }
        self.bases = Some(bases);
        for block in self.recording.start.in_use() {
            self.live.insert(block.addr, block.addr);
            if block.pending {
                self.free_pending(block.addr)?;
            }
        }
        Ok(())
    }

    /// The blocks in use, as fresh requests.
    fn place_blocks_in_use(&mut self) -> Result<(), Failure> {
        for block in self.recording.start.in_use() {
            let placed = self.alloc(block.requested, block.stream, block.pool)?;
            self.live.insert(block.addr, placed);
            if block.pending {
                self.free_pending(block.addr)?;
            }
        }
        Ok(())
    }

    fn alloc(&self, size: u64, stream: u64, pool: PoolId) -> Result<u64, Failure> {
        let stream = Stream::new(Device(0), stream);
        let allocator = self.allocator();
        let caller = Caller::on(stream);
        if !pool.is_private() {
            return Ok(allocator.alloc(size, stream, &caller)?);
        }
        allocator.begin_allocate_to_pool(pool, Filter::Any)?;
        let result = allocator.alloc(size, stream, &caller);
        allocator.end_allocate_to_pool(pool)?;
        allocator.release_pool(pool)?;
        Ok(result?)
    }

    /// Frees a live block that other streams use until the recording says that they are done.
    fn free_pending(&mut self, addr: u64) -> Result<(), Failure> {
        let Some(ours) = self.live.remove(&addr) else { return Ok(()) };
        let stream = PENDING_STREAMS + self.pendings;
        self.pendings += 1;
        self.pending.insert(addr, stream);
        self.allocator().record_stream(ours, Stream::new(Device(0), stream), &self.caller())?;
        Ok(self.allocator().free(ours, &self.caller())?)
    }

    /// Makes the next request; `None` at the end of the trace.
    pub fn step(&mut self) -> Option<(&'r Recorded, Outcome)> {
        let recorded = self.recording.requests.get(self.next)?;
        self.next += 1;
        let outcome = match self.make(recorded) {
            Ok(outcome) => outcome,
            Err(failure) => Outcome::Failed(failure),
        };
        Some((recorded, outcome))
    }

    /// How many requests were made.
    pub fn made(&self) -> usize {
        self.next
    }

    /// Makes all requests that are left; `seen` is told of every outcome.
    pub fn to_the_end(&mut self, mut seen: impl FnMut(&'r Recorded, &Outcome)) {
        while let Some((recorded, outcome)) = self.step() {
            seen(recorded, &outcome);
        }
    }

    fn make(&mut self, recorded: &Recorded) -> Result<Outcome, Failure> {
        match recorded.request {
            Request::Alloc { addr, size, stream, pool } => {
                self.decisions += 1;
                if let Some(new) = recorded.new_memory {
                    self.place(new, stream, pool);
                }
                let ours = self.alloc(size, stream, pool)?;
                self.reproduced += u64::from(ours == addr);
                self.live.insert(addr, ours);
                Ok(Outcome::Allocated(ours))
            }
            Request::Oom { size, stream, pool, .. } => {
                self.decisions += 1;
                match self.alloc(size, stream, pool) {
                    Ok(ours) => {
                        // What would have become of it nobody knows.
                        self.allocator().free(ours, &self.caller())?;
                        Ok(Outcome::Allocated(ours))
                    }
                    Err(failure) => {
                        self.reproduced += u64::from(failure.is_out_of_memory());
                        Err(failure)
                    }
                }
            }
            Request::Free { addr, completes: true } => {
                if let Some(ours) = self.live.remove(&addr) {
                    self.allocator().free(ours, &self.caller())?;
                }
                Ok(Outcome::Done)
            }
            Request::Free { addr, completes: false } => {
                self.free_pending(addr)?;
                Ok(Outcome::Done)
            }
            Request::Complete { addr } => {
                if let Some(stream) = self.pending.remove(&addr) {
                    self.own_stream_syncs += 1;
                    self.machine.sim().stream_synchronize(Stream::new(Device(0), stream))?;
                    self.allocator().process_events(&self.caller())?;
                } else if let Some(ours) = self.live.remove(&addr) {
                    self.allocator().free(ours, &self.caller())?;
                }
                Ok(Outcome::Done)
            }
            Request::ReleasePool { pool } => {
                self.allocator().release_pool(pool)?;
                Ok(Outcome::Done)
            }
            Request::EmptyCache { pressed } => {
                // A release just before new memory may have been the allocator's own; under other conditions it decides.
                if self.bases.is_some() || !pressed {
                    self.allocator().empty_cache(&self.caller())?;
                    let bases = self.allocator().segments().into_iter().map(|segment| segment.base);
                    self.placed = bases.collect();
                }
                Ok(Outcome::Done)
            }
        }
    }

    /// Recorded placement: new memory goes where the recording has it.
    fn place(&mut self, new: NewMemory, stream: u64, pool: PoolId) {
        let Some(bases) = &self.bases else { return };
        if !new.mapped {
            return self.machine.sim().place_next(new.addr);
        }
        // A reservation goes where its lowest page is ever mapped; later pages need no placing.
        let base = bases.base_of(new.addr, stream, pool).unwrap_or(new.addr);
        if self.placed.insert(base) {
            self.machine.sim().place_next(base);
        }
    }
}
