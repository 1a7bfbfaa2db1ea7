//! A replay for people.

use std::fmt::Write;

use millpond::SegmentState;
use millpond::config::{Key, Settings};
use millpond_driver::Bytes;
use millpond_replay::{Decision, Ledger, Picture};

use super::{EventMode, Kind, Replayed, Trust, hazards, picture};
use crate::grid::Grid;
use crate::words::{duration, paragraph};
use crate::{Paint, count, plain};

/// What was replayed and under what, the figures, the first error, and the segments at the peak.
pub fn text(replayed: &Replayed<'_>, at_peak: &[SegmentState], decisions: &[Decision], paint: Paint) -> String {
    let ledger = replayed.ledger;
    let mut text = heading(replayed, paint);
    // Writing to a String cannot fail, here and below.
    let _ = write!(text, "\n{}", peaks(ledger));
    let _ = write!(text, "\n{}", outcome(ledger));
    let _ = write!(text, "\n{}", calls(ledger, paint));
    if let Some(oom) = &ledger.first_oom {
        let title = format!("first out-of-memory error, request {}", oom.request);
        let _ = write!(text, "\n{}\n{}", paint.bad(&title), paragraph(&plain(&oom.text), 2));
    }
    if !at_peak.is_empty() {
        let title = format!("segments at the peak, after request {}", ledger.peak_reserved_at);
        let picture = picture::lines(&Picture::of(at_peak), paint);
        let _ = write!(text, "\n{}\n{picture}  {}\n", paint.strong(&title), paint.faint(picture::LEGEND));
    }
    if let Some(found) = replayed.hazards {
        let _ = write!(text, "\n{}", hazards::text(found, paint));
    }
    if !decisions.is_empty() {
        text.push('\n');
    }
    for decision in decisions {
        let verdict = if decision.holds { paint.good("yes:") } else { paint.bad("no:") };
        let _ = writeln!(text, "{verdict} {}", plain(&decision.to_string()));
    }
    text
}

fn heading(replayed: &Replayed<'_>, paint: Paint) -> String {
    let Replayed { ledger, source, kind, device, capacity, others, settings, event_mode, trust, seed, .. } = replayed;
    let what = match kind {
        Kind::Workload => "a workload".into(),
        Kind::Snapshot => format!("a snapshot, GPU {device}"),
        Kind::Scenario => seed.map_or("a scenario".into(), |seed| format!("a scenario, seed {seed}")),
    };
    let requests = count(ledger.events, "request", "requests");
    let mut text = format!("{}: {what}, {requests}\n", paint.strong(&plain(source)));
    let mut grid = Grid::new(&[]);
    let shared = if others.0 == 0 { String::new() } else { format!(", of which others use {others}") };
    grid.row(&["capacity", &format!("{capacity}{shared}")]);
    grid.row(&["settings", &plain(&in_force(settings))]);
    grid.row(&[
        "events",
        match event_mode {
            EventMode::Immediate => "complete when they are recorded",
            EventMode::Manual => "complete when a request says so",
            EventMode::Recorded => "complete when the trace says so",
        },
    ]);
    match trust {
        None => {}
        Some(Trust { decisions: 0, .. }) => grid.row(&["trust", "the trace holds no allocation to compare with"]),
        Some(Trust { decisions, reproduced, tie_order }) => {
            let of =
                format!("{reproduced} of {decisions} recorded decisions are reproduced under the recorded settings");
            grid.row(&["trust", &format!("{of} (tie order {tie_order})")]);
        }
    }
    let _ = write!(text, "{grid}");
    text
}

/// The settings string; of a file that has none, what it says of single settings.
fn in_force(settings: &Settings) -> String {
    if !settings.text.is_empty() {
        return settings.text.clone();
    }
    let default = Settings::default();
    let changed = Key::all().filter(|&key| settings.value_text(key) != default.value_text(key));
    let changed: Vec<String> = changed.map(|key| format!("{} {}", key.name(), settings.value_text(key))).collect();
    if changed.is_empty() { "PyTorch's defaults".into() } else { changed.join(", ") }
}

fn peaks(ledger: &Ledger) -> Grid {
    let mut grid = Grid::new(&[1, 2, 3]).head(&["peak", "", "bytes", "after request"]);
    for (name, peak, at) in [
        ("reserved", ledger.peak_reserved, ledger.peak_reserved_at),
        ("active", ledger.peak_active, ledger.peak_active_at),
        ("allocated", ledger.peak_allocated, ledger.peak_allocated_at),
        ("requested", ledger.peak_requested, ledger.peak_requested_at),
    ] {
        grid.row(&[name, &Bytes(peak).to_string(), &peak.to_string(), &at.to_string()]);
    }
    grid
}

fn outcome(ledger: &Ledger) -> Grid {
    let mut grid = Grid::new(&[1, 2]);
    for (name, bytes) in
        [("reserved in the end", ledger.final_reserved), ("allocated in the end", ledger.final_allocated)]
    {
        grid.row(&[name, &Bytes(bytes).to_string(), &bytes.to_string()]);
    }
    for (name, n) in [("out of memory", ledger.ooms), ("retries", ledger.retries), ("other errors", ledger.errors)] {
        grid.row(&[name, "", &n.to_string()]);
    }
    grid
}

/// The calls that were made; those that were not are left out.
fn calls(ledger: &Ledger, paint: Paint) -> String {
    let made: Vec<String> =
        ledger.driver_calls.iter().filter(|&(_, &n)| n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    let made = if made.is_empty() { "none".into() } else { made.join(", ") };
    let title = format!("driver calls, {} as modelled", duration(ledger.driver_time_us));
    format!("{}\n{}", paint.strong(&title), paragraph(&made, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_replay::ledger::FirstOom;

    #[test]
    fn every_figure_is_told() {
        let first_oom = Some(FirstOom { request: 7, text: "CUDA out of memory.\u{1b}[2J".into() });
        let ledger = Ledger {
            schema: 1,
            events: 9,
            peak_reserved: 140 << 20,
            peak_reserved_at: 5,
            ooms: 1,
            first_oom,
            driver_calls: [("malloc", 8), ("free", 0)].into(),
            driver_time_us: 1_500,
            ..Ledger::default()
        };
        let replayed = Replayed {
            ledger: &ledger,
            source: "train.pickle",
            kind: Kind::Snapshot,
            device: 1,
            capacity: Bytes(1 << 30),
            others: Bytes(2 << 20),
            settings: &Settings::default(),
            event_mode: EventMode::Recorded,
            trust: Some(Trust { decisions: 36, reproduced: 31, tie_order: "registration" }),
            seed: None,
            hazards: None,
        };
        let decision = Decision { holds: false, text: "ooms == 0".into(), actual: 1 };
        let text = text(&replayed, &[], &[decision], Paint::OFF);
        for words in [
            "train.pickle: a snapshot, GPU 1, 9 requests",
            "1GiB, of which others use 2MiB",
            "31 of 36 recorded decisions",
            "140MiB",
            "malloc 8\n",
            "1.5 ms as modelled",
            "first out-of-memory error, request 7\n  CUDA out of memory.",
            "no: ooms == 0: does not hold, it is 1",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains('\x1b') && !text.contains("segments at the peak"));
    }
}
