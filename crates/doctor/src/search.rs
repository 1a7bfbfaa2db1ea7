//! The smallest device on which the requests live, by bisection.
//!
//! From what live blocks need at least (a device without a limit says so) up to what was reserved there. More memory is not
//! always enough where less was: a device that is full is cleared, and what is placed anew afterwards may lie better. So the
//! search reports also the largest device that failed above the one it found.

use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::RunError;
use serde::Serialize;

use crate::trial::{Patient, Trial, Until};

/// The step in which capacities are tried, unless something else is said.
pub const STEP: Bytes = Bytes(64 << 20);

/// How many steps below what was found are tried, too.
const BELOW: u64 = 4;

/// A device without a limit. Expandable segments reserve address space in proportion to it, so theirs is smaller.
fn unlimited(settings: &Settings) -> Bytes {
    Bytes(if settings.expandable_segments { 1 << 40 } else { 1 << 43 })
}

/// What a search found. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Smallest {
    /// The smallest capacity that survives, in steps.
    pub capacity: u64,
    /// The largest capacity that was tried, failed, and is larger than that.
    pub fails_above: Option<u64>,
    /// A smaller capacity that survives although larger ones below `capacity` fail; the few steps below it were tried.
    pub also_survives: Option<u64>,
    /// The steps of the search.
    pub step: u64,
}

/// The smallest capacity under which every request is served; `None` if no capacity is enough.
///
/// # Errors
/// A request that makes no sense.
pub fn smallest(patient: &Patient<'_>, settings: &Settings, step: Bytes) -> Result<Option<Smallest>, RunError> {
    let step = step.0.max(1 << 21);
    let Some(range) = Range::without_a_limit(patient, settings, step)? else { return Ok(None) };
    let mut tried = Tried { patient, settings, failed: Vec::new() };
    let high = tried.narrow(range, step)?;
    let fails_above = tried.failed.iter().copied().filter(|&failed| failed > high).max();
    let mut also_survives = None;
    for below in 2..=BELOW {
        let Some(capacity) = high.checked_sub(below * step).filter(|&capacity| capacity >= range.bottom) else {
            break;
        };
        if tried.survives(capacity)? {
            also_survives = Some(capacity);
            break;
        }
    }
    Ok(Some(Smallest { capacity: high, fails_above, also_survives, step }))
}

/// The smallest capacity that survives below `capacity`, where `trial` has survived, or above it, where it has not: a search
/// that knows where to begin. `None` if no capacity is enough.
///
/// # Errors
/// A request that makes no sense.
pub fn smallest_from(
    patient: &Patient<'_>,
    settings: &Settings,
    capacity: Bytes,
    trial: &Trial,
    step: Bytes,
) -> Result<Option<u64>, RunError> {
    let step = step.0.max(1 << 21);
    let range = if trial.survives() {
        let others = patient.others.0;
        let high = (trial.peak_reserved + others).next_multiple_of(step);
        Range { bottom: trial.peak_allocated + others, high: high.max(step).min(capacity.0) }
    } else {
        match Range::without_a_limit(patient, settings, step)? {
            Some(Range { bottom, high }) => Range { bottom: bottom.max(capacity.0), high: high.max(capacity.0 + step) },
            None => return Ok(None),
        }
    };
    let mut tried = Tried { patient, settings, failed: Vec::new() };
    Ok(Some(match tried.narrow(range, step)? {
        // The search goes in whole steps, and this need not be one.
        found if trial.survives() => found.min(capacity.0),
        found => found,
    }))
}

/// Where a search takes place: what lives at the peak is held in any case, and `high` is likely to be enough. Bytes.
#[derive(Clone, Copy, Debug)]
struct Range {
    bottom: u64,
    high: u64,
}

impl Range {
    /// What a device without a limit says; `None` if not even that is enough.
    fn without_a_limit(patient: &Patient<'_>, settings: &Settings, step: u64) -> Result<Option<Self>, RunError> {
        let free = patient.replay(settings, unlimited(settings), Until::FirstOom)?;
        let others = patient.others.0;
        let high = (free.peak_reserved + others).next_multiple_of(step).max(step);
        Ok(free.survives().then_some(Range { bottom: free.peak_allocated + others, high }))
    }
}

/// The capacities that failed, bytes.
struct Tried<'a> {
    patient: &'a Patient<'a>,
    settings: &'a Settings,
    failed: Vec<u64>,
}

impl Tried<'_> {
    fn survives(&mut self, capacity: u64) -> Result<bool, RunError> {
        let survives = capacity > self.patient.others.0
            && self.patient.replay(self.settings, Bytes(capacity), Until::FirstOom)?.survives();
        if !survives {
            self.failed.push(capacity);
        }
        Ok(survives)
    }

    /// The end of a bisection.
    fn narrow(&mut self, range: Range, step: u64) -> Result<u64, RunError> {
        let Range { bottom, mut high } = range;
        // `low` is too small or was not tried, `high` survives; all that is tried is a multiple of the step.
        let mut low = bottom;
        while !self.survives(high)? {
            let grown = (high / 10 * 11).next_multiple_of(step).max(high + step);
            // Without a limit it survived.
            high = grown.min(unlimited(self.settings).0);
        }
        while high > low + step {
            let middle = low.midpoint(high).next_multiple_of(step).min(high - step);
            if self.survives(middle)? { high = middle } else { low = middle }
        }
        // What is live at the peak may fill whole steps and need no more; the bisection has not tried that.
        if low == bottom && bottom.is_multiple_of(step) && bottom < high && self.survives(bottom)? {
            high = bottom;
        }
        Ok(high)
    }
}
