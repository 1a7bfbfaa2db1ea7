//! One replay: the requests of a file on a fresh device, under one setting and one capacity.

use millpond::config::Settings;
use millpond::{Metric, Stats, TieOrder};
use millpond_driver::Bytes;
use millpond_replay::ledger::{driver_calls, driver_time_us};
use millpond_replay::snapshot::{Conditions, Recording, SnapshotRun};
use millpond_replay::{Failure, Machine, Outcome, Program, RunError, Setup, Workload, WorkloadRun};
use millpond_sim::EventMode;

/// Whose requests are replayed.
#[derive(Clone, Copy, Debug)]
pub enum Requests<'a> {
    /// Those of a workload.
    Workload {
        /// The workload.
        workload: &'a Workload,
        /// When events complete.
        events: EventMode,
    },
    /// Those of one device of a snapshot.
    Snapshot {
        /// The device's recording.
        recording: &'a Recording<'a>,
        /// How ties between free blocks are decided: as the recording has it.
        tie_order: TieOrder,
    },
}

/// Requests, and the share of the device that others use.
#[derive(Clone, Copy, Debug)]
pub struct Patient<'a> {
    /// The requests.
    pub requests: Requests<'a>,
    /// What others use of the device.
    pub others: Bytes,
    /// Whether a snapshot's start state is placed anew also under the recorded settings: the control of what other settings
    /// gain by a fresh start alone.
    pub anew: bool,
}

/// How far a replay goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// To the last request, whatever fails.
    End,
    /// To the first out-of-memory error, as a program would.
    FirstOom,
}

/// What a replay came to. Bytes and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Out-of-memory errors; a start state that does not fit is one.
    pub ooms: u64,
    /// The most that live blocks held.
    pub peak_allocated: u64,
    /// The most that blocks live or waiting for events held.
    pub peak_active: u64,
    /// The most that was held from the driver.
    pub peak_reserved: u64,
    /// Allocations tried again after the synchronising release.
    pub retries: u64,
    /// The allocator's driver calls.
    pub driver_calls: u64,
    /// What the allocator's driver calls cost by the cost table.
    pub driver_us: u64,
}

impl Trial {
    /// Whether the program lives.
    pub fn survives(&self) -> bool {
        self.ooms == 0
    }
}

impl Patient<'_> {
    /// Replays the requests on a fresh device of `capacity` under `settings`.
    ///
    /// # Errors
    /// A request that makes no sense.
    pub fn replay(&self, settings: &Settings, capacity: Bytes, until: Until) -> Result<Trial, RunError> {
        let trial = self.run(settings, capacity, |program| measure(program, until))?;
        // A device on which nothing can be set up fits nothing.
        Ok(trial.unwrap_or(Trial { ooms: 1, ..Trial::default() }))
    }

    /// Sets the requests up on a fresh device of `capacity` under `settings` and lets `look` make them; `None` if already
    /// the start state does not fit.
    ///
    /// # Errors
    /// A request that makes no sense.
    pub fn run<T>(
        &self,
        settings: &Settings,
        capacity: Bytes,
        look: impl FnOnce(&mut dyn Program) -> Result<T, RunError>,
    ) -> Result<Option<T>, RunError> {
        match self.requests {
            Requests::Workload { workload, events } => {
                let setup = Setup {
                    capacity,
                    others: self.others,
                    events,
                    settings: settings.clone(),
                    devices: workload.devices(),
                    ..Setup::default()
                };
                Machine::new(&setup).ok().map(|machine| look(&mut WorkloadRun::new(workload, &machine))).transpose()
            }
            Requests::Snapshot { recording, tie_order } => {
                let conditions = self.conditions(recording, settings, capacity, tie_order);
                SnapshotRun::new(recording, &conditions).ok().map(|mut run| look(&mut run)).transpose()
            }
        }
    }

    fn conditions(
        &self,
        recording: &Recording<'_>,
        settings: &Settings,
        capacity: Bytes,
        tie_order: TieOrder,
    ) -> Conditions {
        let as_recorded = !self.anew && *settings == recording.settings;
        Conditions { settings: settings.clone(), capacity, others: self.others, tie_order, as_recorded }
    }

    /// How many requests a replay makes.
    pub fn len(&self) -> usize {
        match self.requests {
            Requests::Workload { workload, .. } => workload.ops.len(),
            Requests::Snapshot { recording, .. } => recording.requests.len(),
        }
    }

    /// Whether there is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Runs a program and reads its figures. All of the first device's, as `millpond replay` has them.
fn measure(program: &mut dyn Program, until: Until) -> Result<Trial, RunError> {
    while let Some(outcome) = program.next_request()? {
        if until == Until::FirstOom && is_out_of_memory(&outcome) {
            break;
        }
    }
    let stats = program.machine().allocator().stats();
    let peak = |metric| Stats::all(&stats, metric).peak;
    Ok(Trial {
        ooms: stats.num_ooms + stats.num_oom_rejections,
        peak_allocated: peak(Metric::AllocatedBytes),
        peak_active: peak(Metric::ActiveBytes),
        peak_reserved: peak(Metric::ReservedBytes),
        retries: stats.num_alloc_retries,
        driver_calls: driver_calls(program).values().sum(),
        driver_us: driver_time_us(program),
    })
}

fn is_out_of_memory(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if Failure::is_out_of_memory(failure))
}
