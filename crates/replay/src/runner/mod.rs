//! The process that makes the requests: one thread, its current stream, its pools, graphs and events.
//!
//! It does what the process behind the golden recordings did. The current stream of the thread is the default one;
//! `capture_begin` makes the capture's stream current until `capture_end`, and an `alloc` makes its own stream current for
//! that one call. So a `free` between the two is in capture context (R5.22), and an `alloc` on another stream is not.

mod error;
mod graphs;
mod owners;
mod pools;
mod waits;
mod work;

use millpond::config::Dialect;
use millpond::{Allocator, Caller};
use millpond_driver::{Capture, CaptureStatus, Device, Order, Stream};
use millpond_sim::{EventMode, Sim};
use rustc_hash::FxHashMap;

pub use error::{Failure, Nonsense, RunError};

use crate::ids::{Ids, State};
use crate::machine::Machine;
use crate::workload::Op;
use graphs::Graphs;
use pools::Pools;
use waits::Waits;

/// What came of a request.
#[derive(Debug)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// An allocation at this address.
    Allocated(u64),
    /// A checkpoint: whoever drives the runner may look at the statistics now.
    Checkpoint,
    /// It could not be carried out, and the program goes on.
    Failed(Failure),
}

/// Driver calls that the program makes itself, not its allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCalls {
    /// `cuEventRecord`.
    pub event_records: u64,
    /// `cuEventSynchronize`.
    pub event_syncs: u64,
    /// `cuStreamSynchronize`.
    pub stream_syncs: u64,
    /// `cuStreamWaitEvent`.
    pub stream_waits: u64,
}

/// Makes requests, one by one.
#[derive(Debug)]
pub struct Runner {
    machine: Machine,
    /// The device that requests concern.
    device: Device,
    /// The number of the next request.
    next: u64,
    ids: Ids,
    /// Allocations that are not on device 0.
    elsewhere: FxHashMap<u64, Device>,
    pools: Pools,
    graphs: Graphs,
    waits: Waits,
    own: OwnCalls,
    /// Whether a `replay` does the graph's work on the device: only hazards and clocks can tell.
    launches_graphs: bool,
    /// Whether the device checks uses of memory, and so wants to hear whose it is.
    tells_owners: bool,
}

/// What a step gives: an outcome, or what makes no sense about the request.
type Step = Result<Outcome, Nonsense>;

/// A result of the allocator or the driver as an outcome.
fn done<T, E: Into<Failure>>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(failure) => Outcome::Failed(failure.into()),
    }
}

impl Runner {
    /// A program that has done nothing yet, on a machine that should be fresh.
    pub fn new(machine: &Machine) -> Self {
        let config = machine.sim().config();
        Runner {
            machine: machine.clone(),
            device: Device(0),
            next: 0,
            ids: Ids::default(),
            elsewhere: FxHashMap::default(),
            pools: Pools::default(),
            graphs: Graphs::default(),
            waits: Waits::default(),
            own: OwnCalls::default(),
            launches_graphs: config.hazards || config.events == EventMode::Timed,
            tells_owners: config.hazards,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How many requests were made.
    pub fn requests(&self) -> u64 {
        self.next
    }

    /// The driver calls that the program made itself.
    pub fn own_calls(&self) -> OwnCalls {
        self.own
    }

    /// The live allocations: id and address.
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ids.live()
    }

    /// Makes the next request.
    ///
    /// # Errors
    /// A request that makes no sense after the ones before it, such as a free of what was never allocated. What the
    /// allocator or the driver refuses is an [`Outcome::Failed`]: a program may go on after it.
    #[inline]
    pub fn step(&mut self, op: &Op) -> Result<Outcome, RunError> {
        let request = self.next;
        self.next += 1;
        let outcome = match *op {
            Op::Alloc { id, size, stream, pool: None } => self.alloc(id, size, stream),
            Op::Free { id } => self.free(id),
            _ => self.rare(op),
        };
        outcome.map_err(|why| RunError { request, why })
    }

    /// Makes all of some requests; `seen` is told of every outcome.
    ///
    /// # Errors
    /// As [`Runner::step`].
    pub fn run(&mut self, ops: &[Op], mut seen: impl FnMut(u64, &Op, Outcome)) -> Result<(), RunError> {
        for op in ops {
            let request = self.next;
            let outcome = self.step(op)?;
            seen(request, op, outcome);
        }
        Ok(())
    }

    fn sim(&self) -> &Sim {
        self.machine.sim()
    }

    /// The current device's allocator.
    fn allocator(&self) -> &Allocator {
        &self.machine.allocators()[self.device.0 as usize]
    }

    /// A stream of the current device.
    fn stream(&self, ordinal: u32) -> Stream {
        Stream::new(self.device, u64::from(ordinal))
    }

    /// The thread outside of an `alloc`.
    fn caller(&self) -> Caller<'static> {
        Caller::on(self.graphs.current_stream(self.device))
    }

    /// The allocator that made an allocation.
    fn owner(&self, id: u64) -> &Allocator {
        let device = if self.elsewhere.is_empty() { Device(0) } else { self.device_of(id) };
        &self.machine.allocators()[device.0 as usize]
    }

    fn device_of(&self, id: u64) -> Device {
        self.elsewhere.get(&id).copied().unwrap_or(Device(0))
    }

    #[inline]
    fn alloc(&mut self, id: u64, size: u64, stream: u32) -> Step {
        if let State::Live(_) = self.ids.get(id) {
            return Err(Nonsense::IdInUse { id });
        }
        let stream = self.stream(stream);
        let result = self.allocator().alloc(size, stream, &Caller::on(stream));
        Ok(self.allocated(id, stream, result))
    }

    #[inline]
    fn allocated(&mut self, id: u64, stream: Stream, result: millpond::Result<u64>) -> Outcome {
        match result {
            Ok(addr) => {
                self.ids.set(id, State::Live(addr));
                if self.device.0 != 0 {
                    self.elsewhere.insert(id, self.device);
                } else if !self.elsewhere.is_empty() {
                    self.elsewhere.remove(&id);
                }
                if self.tells_owners {
                    self.tell_handed_out(id, addr, stream);
                }
                Outcome::Allocated(addr)
            }
            Err(error) => {
                self.ids.set(id, State::Failed);
                Outcome::Failed(error.into())
            }
        }
    }

    #[inline]
    fn free(&mut self, id: u64) -> Step {
        let addr = match self.ids.get(id) {
            State::Live(addr) => addr,
            State::Failed => return Ok(Outcome::Done),
            State::Unknown => return Err(Nonsense::UnknownId { id }),
            State::Freed => return Err(Nonsense::FreedId { id }),
        };
        self.ids.set(id, State::Freed);
        if self.tells_owners {
            self.tell_given_back(addr);
        }
        let result = self.owner(id).free(addr, &self.caller());
        if self.waits.are_tracked() {
            self.mark_free(id);
        }
        Ok(done(result))
    }

    /// The address of an allocation; `None` if its allocation failed.
    fn address(&self, id: u64) -> Result<Option<u64>, Nonsense> {
        match self.ids.get(id) {
            State::Live(addr) => Ok(Some(addr)),
            State::Failed => Ok(None),
            State::Unknown => Err(Nonsense::UnknownId { id }),
            State::Freed => Err(Nonsense::FreedId { id }),
        }
    }

    fn record_stream(&mut self, id: u64, stream: u32) -> Step {
        let Some(addr) = self.address(id)? else { return Ok(Outcome::Done) };
        let stream = Stream::new(self.device_of(id), u64::from(stream));
        if self.waits.are_tracked() {
            self.waits.used(id, stream);
        }
        Ok(done(self.owner(id).record_stream(addr, stream, &self.caller())))
    }

    #[cold]
    fn rare(&mut self, op: &Op) -> Step {
        let caller = self.caller();
        Ok(match *op {
            Op::Alloc { id, size, stream, pool } => {
                return match pool {
                    Some(pool) => self.alloc_in_pool(id, size, stream, pool),
                    None => self.alloc(id, size, stream),
                };
            }
            Op::Free { id } => return self.free(id),
            Op::RecordStream { id, stream } => return self.record_stream(id, stream),
            Op::Complete { id } => return self.complete(id),
            Op::Advance { n } => {
                self.sim().advance(n);
                Outcome::Done
            }
            Op::Sync => {
                self.sim().sync();
                Outcome::Done
            }
            Op::StreamSync { stream } => {
                self.own.stream_syncs += 1;
                done(self.sim().stream_synchronize(self.stream(stream)))
            }
            Op::ForkJoin { a, b } => done(self.fork_join(a, b)),
            Op::EventRecord { event, stream } => done(self.event_record(event, stream)),
            Op::EventWait { event, stream } => return self.event_wait(event, stream),
            Op::Work { id, stream } => return self.work(id, stream),
            Op::Launch(ref launch) => return self.launch(launch),
            Op::EmptyCache => done(self.allocator().empty_cache(&caller)),
            Op::Checkpoint => Outcome::Checkpoint,
            Op::PoolCreate { pool, use_on_oom, no_split } => return self.create_pool(pool, use_on_oom, no_split),
            Op::PoolDestroy { pool } => return self.destroy_pool(pool),
            Op::PoolEnter { pool } => return self.enter_pool(pool),
            Op::PoolLeave { pool } => return self.leave_pool(pool),
            Op::SetFraction { fraction } => done(self.allocator().set_memory_fraction(fraction)),
            Op::SetConf { ref conf } => done(self.machine.world().configure(conf, Dialect::Torch)),
            Op::CaptureBegin { graph, share, stream } => return self.begin_capture(graph, share, stream),
            Op::CaptureEnd { graph } => return self.end_capture(graph),
            Op::Replay { graph } => return self.replay(graph),
            Op::GraphReset { graph } => return self.reset_graph(graph),
            Op::Device { device } => {
                if device >= self.machine.allocators().len() as u32 {
                    return Err(Nonsense::UnknownDevice { device });
                }
                self.device = Device(device);
                Outcome::Done
            }
        })
    }

    /// Whether a stream is part of a capture.
    fn is_capturing(&self, stream: Stream) -> bool {
        self.sim().capture_status(stream).is_ok_and(|status| status == CaptureStatus::Active)
    }
}
