//! What happened to one device of a snapshot, why, and what helps.

mod account;
mod checks;
mod evidence;
mod moment;
mod room;
mod stacks;
mod treatment;
mod verdict;

pub use account::{Account, Cause, CauseKind, Holder, NAMED, PoolShare};
pub use checks::{Checks, Grown};
pub use evidence::Evidence;
pub use moment::{Moment, PoolKey, When};
pub use room::{Limit, Room};
pub use treatment::Treatment;
pub use verdict::{Behind, Kind, Relief, Verdict, Where};

use millpond_driver::Bytes;
use millpond_replay::snapshot::{Recording, Trust, trust};
use serde::Serialize;

use crate::conf::Conf;
use crate::sweep::Setting;
use crate::trial::{Patient, Requests};
use moment::Held;
use treatment::Aim;

/// Everything that is known about one device.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Its index in the file.
    pub device: usize,
    /// What happened, and when.
    pub moment: Moment,
    /// Where every byte was then.
    pub account: Account,
    /// Why it failed.
    pub verdict: Verdict,
    /// The state that the file ends with.
    pub end: End,
    /// What helps, the best first; empty where nothing does and where there is nothing to replay. Only those with
    /// [`Setting::fits`] are advice.
    pub fixes: Vec<Setting>,
    /// How fixes were looked for; `None` where there is nothing to replay.
    pub treatment: Option<Treatment>,
    /// How far all of this can be trusted.
    pub trust: Evidence,
    /// Why nothing was replayed, although there is a trace.
    pub not_replayed: Option<String>,
    /// The facts behind the six checks.
    pub checks: Checks,
}

/// The state that a file ends with. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Held from the driver.
    pub reserved: u64,
    /// In live blocks.
    pub allocated: u64,
    /// In segments without any block in use: cached for the next request, and given back by `empty_cache`.
    pub returnable: u64,
}

/// What somebody who asks knows beyond the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// The device's memory.
    pub total: Option<Bytes>,
}

/// Finds out what happened to a device, why, and what helps. `done` is told how many of the settings that are tried are
/// through, and of how many.
pub fn diagnose(recording: &Recording<'_>, known: Known, done: impl Fn(usize, usize) + Sync) -> Diagnosis {
    find_out(recording, known, |conf, room, account| replay(recording, conf, known, room, account, done))
}

/// As [`diagnose`] without a replay: what happened and why, and neither what helps nor how far that can be trusted.
pub fn examine(recording: &Recording<'_>, known: Known) -> Diagnosis {
    find_out(recording, known, |_, _, _| Ok(None))
}

fn find_out(
    recording: &Recording<'_>,
    known: Known,
    treat: impl FnOnce(&Conf, Option<Room>, &Account) -> Result<Option<Replayed>, String>,
) -> Diagnosis {
    let conf = Conf::recorded(&recording.settings);
    let total = known.total.map(|total| total.0);
    let (moment, held) = Moment::of(recording);
    let room = Room::of(recording, total);
    let account = Account::of(recording, &moment, &held, room, total);
    let mut verdict = Verdict::of(recording, &moment, &held, &account, room);
    let replayed = treat(&conf, room, &account);
    let (mut fixes, mut treatment, mut trust, mut not_replayed) = (Vec::new(), None, None, None);
    match replayed {
        Ok(Some((known, found, helps))) => {
            verdict.enough = found.today.min_capacity;
            (fixes, treatment, trust) = (helps, Some(found), Some(known));
        }
        Ok(None) => {}
        Err(error) => not_replayed = Some(error),
    }
    Diagnosis {
        device: recording.device,
        end: end(recording, moment.pool),
        checks: Checks::of(recording, &held, &conf.text, total),
        moment,
        account,
        verdict,
        fixes,
        treatment,
        trust: Evidence::of(recording, trust),
        not_replayed,
    }
}

type Replayed = (Trust, Treatment, Vec<Setting>);

fn replay(
    recording: &Recording<'_>,
    conf: &Conf,
    known: Known,
    room: Option<Room>,
    account: &Account,
    done: impl Fn(usize, usize) + Sync,
) -> Result<Option<Replayed>, String> {
    if recording.requests.is_empty() {
        return Ok(None);
    }
    let trust = trust(recording).map_err(|error| error.to_string())?;
    let trace = recording.snapshot.trace(recording.device);
    let capacity = match room {
        Some(room) => room.capacity(recording, known.total.map(|total| total.0)),
        None => known.total.unwrap_or(Bytes(room::held_once(recording, trace.len()))),
    };
    // Who knows how much memory the device has knows what others hold of it, where the file says what was free.
    let others = Bytes(account.outside.filter(|_| known.total == Some(capacity)).unwrap_or(0));
    let requests = Requests::Snapshot { recording, tie_order: trust.tie_order };
    let patient = Patient { requests, others, anew: false };
    let aim = Aim { capacity, is_oom: recording.first_oom.is_some() };
    let (treatment, fixes) = Treatment::find(&patient, conf, aim, done).map_err(|error| error.to_string())?;
    Ok(Some((trust, treatment, fixes)))
}

fn end(recording: &Recording<'_>, pool: PoolKey) -> End {
    let account = Account::counted(&Held::at_the_end(recording), pool);
    End { reserved: account.reserved, allocated: account.allocated, returnable: account.returnable() }
}
