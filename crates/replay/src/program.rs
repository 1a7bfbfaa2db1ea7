//! Something that makes requests, one by one: a workload, or a snapshot's trace.

use crate::machine::Machine;
use crate::runner::{Outcome, OwnCalls, RunError, Runner};
use crate::snapshot::SnapshotRun;
use crate::workload::{Op, Workload};

/// Something that makes requests of a machine's allocator, one by one.
pub trait Program {
    /// The machine it runs on.
    fn machine(&self) -> &Machine;

    /// Makes the next request; `None` when there are no more.
    ///
    /// # Errors
    /// A request that makes no sense.
    fn next_request(&mut self) -> Result<Option<Outcome>, RunError>;

    /// Driver calls that it made itself, not its allocator.
    fn own_calls(&self) -> OwnCalls;
}

/// The requests of a workload on a machine.
#[derive(Debug)]
pub struct WorkloadRun<'w> {
    runner: Runner,
    left: std::slice::Iter<'w, Op>,
}

impl<'w> WorkloadRun<'w> {
    /// The workload on a machine that should be fresh.
    pub fn new(workload: &'w Workload, machine: &Machine) -> Self {
        let mut runner = Runner::new(machine);
        if workload.ops.iter().any(|op| matches!(op, Op::Complete { .. })) {
            runner.expect_completions();
        }
        WorkloadRun { runner, left: workload.ops.iter() }
    }
}

impl Program for WorkloadRun<'_> {
    fn machine(&self) -> &Machine {
        self.runner.machine()
    }

    #[inline]
    fn next_request(&mut self) -> Result<Option<Outcome>, RunError> {
        self.left.next().map(|op| self.runner.step(op)).transpose()
    }

    fn own_calls(&self) -> OwnCalls {
        self.runner.own_calls()
    }
}

impl Program for SnapshotRun<'_> {
    fn machine(&self) -> &Machine {
        SnapshotRun::machine(self)
    }

    fn next_request(&mut self) -> Result<Option<Outcome>, RunError> {
        Ok(self.step().map(|(_, outcome)| outcome))
    }

    fn own_calls(&self) -> OwnCalls {
        OwnCalls { stream_syncs: self.own_stream_syncs, ..OwnCalls::default() }
    }
}
