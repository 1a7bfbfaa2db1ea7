//! Settings under which the recorded requests survive, each replayed.
//!
//! What decides is the smallest device that survives. A replay under other settings begins with the blocks in use placed anew,
//! and that alone may help: so the recorded settings are replayed in the same way, as a control, and only what does better
//! than the control is a fix.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use millpond_driver::Bytes;
use millpond_replay::RunError;
use rayon::prelude::*;
use serde::Serialize;

use crate::conf::{Conf, GRID};
use crate::search::{STEP, smallest_from};
use crate::sweep::Setting;
use crate::trial::{Patient, Trial, Until};

/// How many settings are named where none fits.
const NEAREST: usize = 3;

/// With more requests than this, only [`SHORT`] is tried, in coarser steps: an answer in seconds. A sweep tries all.
const LONG: usize = 200_000;

/// What helps most often.
const SHORT: [&str; 3] = ["expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512"];

/// How fixes were looked for. Bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Treatment {
    /// The device on which a fix must prove itself: with an error that of the error, else what the recording held at most.
    pub capacity: u64,
    /// Of that, what others use.
    pub others: u64,
    /// In this step the smallest devices were looked for.
    pub step: u64,
    /// The recorded settings from the recorded state.
    pub today: Setting,
    /// The control: the recorded settings with the blocks in use placed anew.
    pub control: Setting,
    /// How many other settings were tried.
    pub tried: u64,
    /// Whether the trace is so long that only those were tried that help most often.
    pub is_short: bool,
}

/// What a treatment is to achieve.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// The device's memory.
    pub capacity: Bytes,
    /// Whether an error was recorded.
    pub is_oom: bool,
}

impl Treatment {
    /// Tries the grid of a sweep laid over the recorded settings, and names those that survive and need a smaller device than
    /// the control, the smallest first; if an error was recorded and nothing survives it, the few that come nearest. `done` is
    /// told how many settings are through, and of how many.
    ///
    /// # Errors
    /// A request that makes no sense.
    pub fn find(
        patient: &Patient<'_>,
        recorded: &Conf,
        aim: Aim,
        done: impl Fn(usize, usize) + Sync,
    ) -> Result<(Self, Vec<Setting>), RunError> {
        let is_short = patient.len() > LONG;
        let step = step(aim.capacity, is_short);
        let candidates = candidates(recorded, if is_short { &SHORT } else { &GRID });
        let controls = [Patient { anew: false, ..*patient }, Patient { anew: true, ..*patient }];
        let tries: Vec<(&Patient<'_>, &Conf)> = controls
            .iter()
            .map(|patient| (patient, recorded))
            .chain(candidates.iter().map(|conf| (patient, conf)))
            .collect();
        let through = AtomicUsize::new(0);
        let tell = || done(through.fetch_add(1, Ordering::Relaxed) + 1, tries.len());
        let one = |&(patient, conf): &(&Patient<'_>, &Conf)| {
            let tried = try_out(patient, conf, aim.capacity);
            tell();
            tried
        };
        let mut tried = tries.par_iter().map(one).collect::<Result<Vec<_>, RunError>>()?;
        // A setting that does not survive matters only where none does.
        let fits_any = tried[controls.len()..].iter().any(|(setting, _)| setting.fits);
        let is_wanted =
            |index: usize, fits: bool| index < controls.len() || fits || (aim.is_oom && !fits_any && !is_short);
        let found = tried.par_iter().zip(&tries).enumerate();
        let found = found.map(|(index, ((setting, trial), (patient, conf)))| match is_wanted(index, setting.fits) {
            true => smallest_from(patient, &conf.settings, aim.capacity, trial, step),
            false => Ok(None),
        });
        let found = found.collect::<Result<Vec<_>, RunError>>()?;
        for ((setting, _), found) in tried.iter_mut().zip(found) {
            setting.min_capacity = found;
        }
        let mut settings = tried.into_iter().map(|(setting, _)| setting);
        let (today, control) = (settings.next().unwrap_or_default(), settings.next().unwrap_or_default());
        let mut fixes: Vec<Setting> = settings.collect();
        let tried = fixes.len() as u64;
        fixes.retain(|fix| is_better(fix, &control));
        if fits_any || !aim.is_oom {
            fixes.retain(|fix| fix.fits);
        }
        fixes.sort_by_key(|fix| (fix.min_capacity.unwrap_or(u64::MAX), fix.conf.matches(':').count(), fix.driver_us));
        if !fits_any {
            fixes.truncate(NEAREST);
        }
        let (capacity, others) = (aim.capacity.0, patient.others.0);
        Ok((Treatment { capacity, others, step: step.0, today, control, tried, is_short }, fixes))
    }
}

/// One replay, without a search.
fn try_out(patient: &Patient<'_>, conf: &Conf, capacity: Bytes) -> Result<(Setting, Trial), RunError> {
    let start = Instant::now();
    let trial = patient.replay(&conf.settings, capacity, Until::End)?;
    Ok((Setting::new(&conf.text, trial, start.elapsed()), trial))
}

/// The step of the search: that of a sweep, finer on small devices, coarser for long traces.
fn step(capacity: Bytes, is_short: bool) -> Bytes {
    let share = (capacity.0 >> 8).next_power_of_two().clamp(2 << 20, STEP.0);
    Bytes(if is_short { share * 4 } else { share })
}

/// The settings to try: a grid laid over the recorded ones. None is what is recorded, and none moves a limit that somebody
/// set, but for one: that limit taken away.
fn candidates(recorded: &Conf, grid: &[&'static str]) -> Vec<Conf> {
    let is_limited = recorded.settings.per_process_memory_fraction < 1.0;
    let mut confs: Vec<Conf> = Vec::new();
    let kept = |change: &&str| !(is_limited && change.contains("per_process_memory_fraction"));
    let lifted = is_limited.then_some("per_process_memory_fraction:1.0");
    for conf in grid.iter().copied().filter(kept).chain(lifted).filter_map(|change| recorded.with(change)) {
        if !conf.is_same(recorded) && !confs.iter().any(|other| other.is_same(&conf)) {
            confs.push(conf);
        }
    }
    confs
}

fn is_better(fix: &Setting, control: &Setting) -> bool {
    match (fix.min_capacity, control.min_capacity) {
        (Some(needs), Some(control)) => needs < control,
        (Some(_), None) => true,
        (None, _) => fix.fits && !control.fits,
    }
}
