//! The same requests under many settings.

use std::time::{Duration, Instant};

use millpond_driver::Bytes;
use millpond_replay::RunError;
use rayon::prelude::*;
use serde::Serialize;

use crate::bounds::Bounds;
use crate::conf::Conf;
use crate::search::{Smallest, smallest};
use crate::trial::{Patient, Trial, Until};

/// What is swept.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The device's memory.
    pub capacity: Bytes,
    /// Look for the smallest device, in these steps.
    pub step: Option<Bytes>,
}

/// What became of the requests under each setting. Bytes and microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// The device's memory.
    pub capacity: u64,
    /// Of that, what others use.
    pub others: u64,
    /// How many requests were made.
    pub requests: u64,
    /// One for each setting, in the order in which they were given.
    pub settings: Vec<Setting>,
    /// What the requests need at least.
    pub bounds: Bounds,
}

/// What became of the requests under one setting. Bytes and microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Setting {
    /// The setting's text.
    pub conf: String,
    /// Whether every request was served.
    pub fits: bool,
    /// The smallest capacity under which every request is served, where it was looked for and there is one.
    pub min_capacity: Option<u64>,
    /// A larger capacity that fails all the same: a full device is cleared, and what follows may lie worse.
    pub fails_above: Option<u64>,
    /// A smaller capacity that survives all the same.
    pub also_survives: Option<u64>,
    /// The most that was held from the driver.
    pub peak_reserved: u64,
    /// Requests that failed; a program would have ended with the first.
    pub ooms: u64,
    /// Allocations tried again after the synchronising release.
    pub retries: u64,
    /// What the allocator's driver calls cost.
    pub driver_us: u64,
    /// How long this setting took, the search included.
    #[serde(skip)]
    pub took: Duration,
}

/// Replays the requests under each setting, in parallel. `done` is told how many are through.
///
/// # Errors
/// A request that makes no sense.
pub fn sweep(
    patient: &Patient<'_>,
    confs: &[Conf],
    plan: Plan,
    done: impl Fn(usize) + Sync,
) -> Result<Sweep, RunError> {
    let through = std::sync::atomic::AtomicUsize::new(0);
    let each = |conf: &Conf| {
        let setting = try_out(patient, conf, plan);
        done(through.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        setting
    };
    let (settings, bounds) =
        rayon::join(|| confs.par_iter().map(each).collect::<Result<Vec<_>, _>>(), || Bounds::of(patient));
    Ok(Sweep {
        capacity: plan.capacity.0,
        others: patient.others.0,
        requests: patient.len() as u64,
        settings: settings?,
        bounds,
    })
}

fn try_out(patient: &Patient<'_>, conf: &Conf, plan: Plan) -> Result<Setting, RunError> {
    let start = Instant::now();
    let trial = patient.replay(&conf.settings, plan.capacity, Until::End)?;
    let found = match plan.step {
        Some(step) => smallest(patient, &conf.settings, step)?,
        None => None,
    };
    Ok(Setting {
        min_capacity: found.map(|Smallest { capacity, .. }| capacity),
        fails_above: found.and_then(|found| found.fails_above),
        also_survives: found.and_then(|found| found.also_survives),
        ..Setting::new(&conf.text, trial, start.elapsed())
    })
}

impl Setting {
    /// What one replay under the setting `conf` came to, without a search.
    pub(crate) fn new(conf: &str, trial: Trial, took: Duration) -> Self {
        Setting {
            conf: conf.to_owned(),
            fits: trial.survives(),
            min_capacity: None,
            fails_above: None,
            also_survives: None,
            peak_reserved: trial.peak_reserved,
            ooms: trial.ooms,
            retries: trial.retries,
            driver_us: trial.driver_us,
            took,
        }
    }
}
