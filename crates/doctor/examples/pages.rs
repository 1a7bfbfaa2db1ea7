//! What `page_reuse` does to recordings, beside PyTorch's own ways: the tables of `docs/pages.md`.
//!
//! ```console
//! $ cargo run --release -p millpond-doctor --example pages -- ../shared/golden ../shared/workloads
//! ```
//!
//! Each argument is a folder of recordings, each a group of its own. The requests of every recording are replayed under five
//! policies, laid over the settings that were recorded. With `--smallest`, measure (b) is taken too, of the recordings under
//! PyTorch's default settings: a search of some minutes.

use std::path::PathBuf;
use std::process::ExitCode;

use millpond_doctor::{Bounds, Conf, Patient, Requests, Trial, Until, smallest};
use millpond_driver::Bytes;
use millpond_replay::parity::{Case, Recording, find};
use millpond_replay::{Op, Workload};
use millpond_sim::EventMode;
use rayon::prelude::*;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The policies, by their columns.
const POLICIES: [(&str, &str); 5] = [
    ("default", "expandable_segments:False"),
    ("expandable", "expandable_segments:True"),
    ("pressure", "expandable_segments:True,page_reuse:pressure,page_size_mb:2"),
    ("always, 2 MiB", "expandable_segments:True,page_reuse:always,page_size_mb:2"),
    ("always, 20 MiB", "expandable_segments:True,page_reuse:always,page_size_mb:20"),
];

/// The policies without `page_reuse`, on pages of the same size, in the same order.
const OFF: [(&str, &str); 3] = [
    ("pressure", "expandable_segments:True,page_reuse:off,page_size_mb:2"),
    ("always, 2 MiB", "expandable_segments:True,page_reuse:off,page_size_mb:2"),
    ("always, 20 MiB", "expandable_segments:True,page_reuse:off,page_size_mb:20"),
];

/// The step of measure (b).
const STEP: u64 = 2 << 20;
/// A device without a limit.
const UNLIMITED: Bytes = Bytes(1 << 40);
const MIB: u64 = 1 << 20;

/// Requests with the conditions of their recording, however many recordings have them.
struct Subject {
    name: String,
    workload: Workload,
    base: Conf,
    capacity: Bytes,
    others: Bytes,
    events: EventMode,
}

/// What became of a subject.
struct Row {
    name: String,
    captures: bool,
    bounds: Bounds,
    /// On the recording's device, by policy.
    limited: Vec<Trial>,
    /// Without a limit.
    unlimited: Vec<Trial>,
    /// On the recording's device and without a limit, by the rows of [`OFF`].
    off: Vec<(Trial, Trial)>,
    /// The smallest capacity that survives, bytes.
    smallest: Vec<Option<u64>>,
}

impl Row {
    /// Peak reserved without a limit ÷ peak active.
    fn waste(&self, policy: usize) -> f64 {
        let Trial { peak_reserved, peak_active, .. } = self.unlimited[policy];
        peak_reserved as f64 / peak_active.max(1) as f64
    }

    /// Smallest surviving capacity ÷ the most that lives at once, in steps.
    fn need(&self, policy: usize) -> Option<f64> {
        Some(self.smallest[policy]? as f64 / self.bounds.live.next_multiple_of(STEP) as f64)
    }
}

impl Subject {
    fn open(case: &Case) -> Result<Self, Failure> {
        let recording = Recording::open(case)?;
        let setup = recording.setup()?;
        let file = case.outcome.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = file.split(".out.").next().unwrap_or(&file).to_owned();
        let base = Conf::read(&recording.header.config)?;
        Ok(Subject {
            name,
            base,
            capacity: setup.capacity,
            others: setup.others,
            events: setup.events,
            workload: recording.workload,
        })
    }

    /// Whether both come to the same when the policies are laid over them.
    fn is_same(&self, other: &Subject) -> bool {
        let scenario = |name: &str| name.split("__").next().unwrap_or(name).to_owned();
        let base = |subject: &Subject| subject.base.with(POLICIES[0].1);
        scenario(&self.name) == scenario(&other.name)
            && (self.capacity, self.others, self.events) == (other.capacity, other.others, other.events)
            && base(self).zip(base(other)).is_some_and(|(one, other)| one.is_same(&other))
    }

    /// Whether nothing but the policies is set.
    fn is_plain(&self) -> bool {
        let plain = Conf::default().with(POLICIES[0].1);
        self.base.with(POLICIES[0].1).zip(plain).is_some_and(|(base, plain)| base.is_same(&plain))
    }

    fn measure(&self, search: bool) -> Result<Row, Failure> {
        let search = search && self.is_plain();
        let requests = Requests::Workload { workload: &self.workload, events: self.events };
        let patient = Patient { requests, others: self.others, anew: false };
        let (mut limited, mut unlimited, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let conf = |policy| self.base.with(policy).ok_or_else(|| format!("{}: {policy} does not fit", self.name));
        let replay =
            |policy, capacity| Ok::<_, Failure>(patient.replay(&conf(policy)?.settings, capacity, Until::End)?);
        for (_, policy) in POLICIES {
            let conf = conf(policy)?;
            limited.push(replay(policy, self.capacity)?);
            unlimited.push(replay(policy, UNLIMITED)?);
            let smallest = if search { smallest(&patient, &conf.settings, Bytes(STEP))? } else { None };
            found.push(smallest.map(|found| found.capacity));
        }
        let off = |(_, policy)| Ok::<_, Failure>((replay(policy, self.capacity)?, replay(policy, UNLIMITED)?));
        Ok(Row {
            name: self.name.clone(),
            captures: self.workload.ops.iter().any(|op| matches!(op, Op::CaptureBegin { .. })),
            bounds: Bounds::of(&patient),
            limited,
            unlimited,
            off: OFF.into_iter().map(off).collect::<Result<_, _>>()?,
            smallest: found,
        })
    }
}

fn subjects(folder: &PathBuf) -> Result<Vec<Subject>, Failure> {
    let cases = find(std::slice::from_ref(folder))?;
    let opened = cases.par_iter().map(Subject::open).collect::<Result<Vec<_>, _>>()?;
    let mut subjects: Vec<Subject> = Vec::new();
    for subject in opened {
        match subjects.iter_mut().find(|other| other.is_same(&subject)) {
            // Named for the plain recording.
            Some(other) if subject.name.len() < other.name.len() => other.name = subject.name,
            Some(_) => {}
            None => subjects.push(subject),
        }
    }
    Ok(subjects)
}

fn head(first: &[&str]) {
    let names = first.iter().copied().chain(POLICIES.map(|(name, _)| name)).collect::<Vec<_>>();
    println!("| {} |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(names.len() - 1));
}

fn mib(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / MIB as f64)
}

/// Each recording on its own device.
fn print_outcomes(rows: &[Row]) {
    head(&["recording", "live", "active", "packing"]);
    for row in rows {
        let cells = row.limited.iter().map(|trial| {
            let Trial { ooms, peak_reserved, driver_calls, driver_us, .. } = *trial;
            format!("{} · {ooms} · {driver_calls} · {:.1}", mib(peak_reserved), driver_us as f64 / 1000.0)
        });
        let (live, active) = row
            .limited
            .iter()
            .fold((0, 0), |(live, active), trial| (trial.peak_allocated.max(live), trial.peak_active.max(active)));
        let first = [row.name.clone(), mib(live), mib(active), mib(row.bounds.packing)];
        println!("| {} |", first.into_iter().chain(cells).collect::<Vec<_>>().join(" | "));
    }
    println!();
    // No policy may gain by failing requests.
    let differing = |of: &dyn Fn(&Row, usize) -> Option<String>| {
        let cells = |row: &Row| {
            let cells = (0..OFF.len()).filter_map(|policy| Some(format!("{} {}", OFF[policy].0, of(row, policy)?)));
            let cells = cells.collect::<Vec<_>>();
            (!cells.is_empty()).then(|| format!("{} ({})", row.name, cells.join("; ")))
        };
        list(&rows.iter().filter_map(cells).collect::<Vec<_>>())
    };
    let ooms = |row: &Row, policy: usize| {
        let (off, on) = (row.off[policy].0.ooms, row.limited[policy + 2].ooms);
        (on > off).then(|| format!("{off} → {on}"))
    };
    let fewer = |row: &Row, policy: usize| {
        let (off, on) = (row.off[policy].0.ooms, row.limited[policy + 2].ooms);
        (on < off).then(|| format!("{off} → {on}"))
    };
    let active = |row: &Row, policy: usize| {
        let (off, on) = (row.off[policy].1.peak_active, row.unlimited[policy + 2].peak_active);
        (on != off).then(|| format!("{} → {}", mib(off), mib(on)))
    };
    println!("More OOMs than with `page_reuse:off` on the same pages: {}.\n", differing(&ooms));
    println!("Fewer: {}.\n", differing(&fewer));
    println!(
        "Another peak of active bytes (MiB) than with `page_reuse:off`, without a limit: {}.\n",
        differing(&active)
    );
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A measure of each recording under each policy, with median and worst.
fn print_measure(rows: &[Row], measure: impl Fn(&Row, usize) -> Option<f64>) {
    head(&["recording"]);
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
    let line = |name: &str, of: &dyn Fn(usize) -> Option<f64>| {
        let cells = (0..POLICIES.len()).map(|policy| shown(of(policy)));
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    let rows: Vec<&Row> = rows.iter().filter(|row| measure(row, 0).is_some()).collect();
    for &row in &rows {
        let name = if row.captures { format!("{} (captures)", row.name) } else { row.name.clone() };
        line(&name, &|policy| measure(row, policy));
    }
    let sorted = |policy| {
        let mut values: Vec<f64> = rows.iter().filter_map(|row| measure(row, policy)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    line("**median**", &|policy| sorted(policy).get(sorted(policy).len() / 2).copied());
    line("**worst**", &|policy| sorted(policy).last().copied());
    println!();
}

fn show(folder: &PathBuf, search: bool) -> Result<(), Failure> {
    let subjects = subjects(folder)?;
    let rows: Vec<Row> = subjects.par_iter().map(|subject| subject.measure(search)).collect::<Result<_, _>>()?;
    println!("## {}\n", folder.display());
    println!("Peak reserved MiB · OOMs · driver calls · modelled driver ms.\n");
    print_outcomes(&rows);
    println!("(a) Peak reserved without a limit ÷ peak active.\n");
    print_measure(&rows, |row, policy| Some(row.waste(policy)));
    if search {
        println!("(b) Smallest surviving capacity ÷ the most that lives at once.\n");
        print_measure(&rows, Row::need);
    }
    Ok(())
}

fn main() -> ExitCode {
    let (flags, folders): (Vec<_>, Vec<_>) = std::env::args_os().skip(1).partition(|arg| arg == "--smallest");
    if folders.is_empty() {
        eprintln!("usage: pages [--smallest] FOLDER...: folders of recordings");
        return ExitCode::from(2);
    }
    for folder in folders.into_iter().map(PathBuf::from) {
        if let Err(error) = show(&folder, !flags.is_empty()) {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
