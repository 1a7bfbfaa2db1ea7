//! A snapshot as long as one likes, by repeating the trace of a recorded one: for measuring.
//!
//! `cargo run --release -p millpond-snapshot --example long_snapshot -- IN OUT [EVENTS]`
//!
//! Between two rounds what was taken is given back and what was given back is taken again, so that every round begins in the state of
//! the first. That happens in an order of ours, so a replay does not reproduce all decisions of the later rounds. An out-of-memory
//! error at the end stays at the end.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::hash::Hash;

use millpond_snapshot::{Action, Snapshot, TimeUs, TraceEntry};

/// Events, unless something else is said.
const EVENTS: usize = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, rest @ ..] = &arguments[..] else {
        return Err("usage: long_snapshot IN OUT [EVENTS]".into());
    };
    let wanted = rest.first().map_or(Ok(EVENTS), |events| events.parse())?;
    let mut snapshot = Snapshot::open(source)?;
    let trace = snapshot.device_traces.first_mut().ok_or("the snapshot has no trace")?;
    *trace = repeat(trace, wanted).ok_or("the trace has no events")?;
    let events = trace.len();
    snapshot.write_pickle(File::create(target)?)?;
    println!("{events} events, {} bytes", std::fs::metadata(target)?.len());
    Ok(())
}

/// The trace over and over, until it has as many events as are wanted.
fn repeat(trace: &[TraceEntry], wanted: usize) -> Option<Vec<TraceEntry>> {
    let is_kept = |entry: &&TraceEntry| !matches!(entry.action, Action::Oom | Action::Snapshot);
    let body: Vec<TraceEntry> = trace.iter().filter(is_kept).copied().collect();
    let last = trace.last().filter(|entry| entry.action == Action::Oom);
    let (from, to) = (time(body.first()?), time(body.last()?));
    let back = way_back(&body, to);
    let mut events = Vec::with_capacity(wanted + body.len() + back.len());
    let mut round = 0;
    let late = |entry: &TraceEntry, round: u64| TraceEntry {
        time_us: entry.time_us.map(|time| TimeUs::new(time.get() + round * (to - from + 1))),
        ..*entry
    };
    while events.len() < wanted {
        if round > 0 {
            events.extend(back.iter().map(|entry| late(entry, round - 1)));
        }
        events.extend(body.iter().map(|entry| late(entry, round)));
        round += 1;
    }
    events.extend(last.map(|entry| late(entry, round - 1)));
    Some(events)
}

fn time(entry: &TraceEntry) -> u64 {
    entry.time_us.map_or(0, TimeUs::get)
}

/// The events that lead from the end of a trace to the state in which it began.
fn way_back(body: &[TraceEntry], time: u64) -> Vec<TraceEntry> {
    let blocks = Left::over(body, Action::Alloc, |entry| match entry.action {
        Action::Alloc | Action::FreeCompleted => Some(entry.addr),
        _ => None,
    });
    let range = |made, gone| {
        Left::over(body, made, move |entry| {
            (entry.action == made || entry.action == gone).then_some((entry.addr, entry.size))
        })
    };
    let segments = range(Action::SegmentAlloc, Action::SegmentFree);
    let pages = range(Action::SegmentMap, Action::SegmentUnmap);
    let mut back = Vec::new();
    let mut add = |entries: &[TraceEntry], action| {
        back.extend(entries.iter().map(|&entry| TraceEntry { action, time_us: Some(TimeUs::new(time)), ..entry }));
    };
    for block in &blocks.made {
        add(&[*block], Action::FreeRequested);
        add(&[*block], Action::FreeCompleted);
    }
    add(&segments.made, Action::SegmentFree);
    add(&pages.made, Action::SegmentUnmap);
    add(&segments.gone, Action::SegmentAlloc);
    add(&pages.gone, Action::SegmentMap);
    add(&blocks.gone, Action::Alloc);
    back
}

/// What a trace leaves behind, in the order of its events.
struct Left {
    /// What it made and did not take away.
    made: Vec<TraceEntry>,
    /// What it took away and had not made.
    gone: Vec<TraceEntry>,
}

impl Left {
    /// `key` names what an entry makes, if its action is `made`, or takes away.
    fn over<K: Eq + Hash>(body: &[TraceEntry], made: Action, key: impl Fn(&TraceEntry) -> Option<K>) -> Self {
        let (mut new, mut old): (HashMap<K, usize>, HashMap<K, usize>) = Default::default();
        for (at, entry) in body.iter().enumerate() {
            let Some(key) = key(entry) else { continue };
            if entry.action == made {
                new.insert(key, at);
            } else if new.remove(&key).is_none() {
                // The first to go was there from the start.
                old.entry(key).or_insert(at);
            }
        }
        let entries = |of: HashMap<K, usize>| {
            let mut at: Vec<usize> = of.into_values().collect();
            at.sort_unstable();
            at.into_iter().map(|at| body[at]).collect()
        };
        Left { made: entries(new), gone: entries(old) }
    }
}
