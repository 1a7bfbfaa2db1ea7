//! The smallest device on which the requests live, by bisection.
//!
//! From what live blocks need at least (a device without a limit says so) up to what was reserved there. More memory is not
//! always enough where less was: a device that is full is cleared, and what is placed anew afterwards may lie better. So the
//! search reports also the largest device that failed above the one it found.

use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::RunError;
use serde::Serialize;

use crate::trial::{Patient, Until};

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
    let free = patient.replay(settings, unlimited(settings), Until::FirstOom)?;
    if !free.survives() {
        return Ok(None);
    }
    let others = patient.others.0;
    let mut tried = Tried { patient, settings, failed: Vec::new() };
    // `low` is too small or was not tried, `high` survives; all that is tried is a multiple of the step.
    let bottom = free.peak_allocated + others;
    let mut low = bottom;
    let mut high = (free.peak_reserved + others).next_multiple_of(step).max(step);
    while !tried.survives(high)? {
        let grown = (high / 10 * 11).next_multiple_of(step).max(high + step);
        // Without a limit it survived.
        high = grown.min(unlimited(settings).0);
    }
    while high > low + step {
        let middle = low.midpoint(high).next_multiple_of(step).min(high - step);
        if tried.survives(middle)? { high = middle } else { low = middle }
    }
    // What is live at the peak may fill whole steps and need no more; the bisection has not tried that.
    if low == bottom && bottom.is_multiple_of(step) && bottom < high && tried.survives(bottom)? {
        high = bottom;
    }
    let fails_above = tried.failed.iter().copied().filter(|&failed| failed > high).max();
    let mut also_survives = None;
    for below in 2..=BELOW {
        let Some(capacity) = high.checked_sub(below * step).filter(|&capacity| capacity >= bottom) else {
            break;
        };
        if tried.survives(capacity)? {
            also_survives = Some(capacity);
            break;
        }
    }
    Ok(Some(Smallest { capacity: high, fails_above, also_survives, step }))
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
}
