//! The header of a page's columns: what there is, and where its columns stand.

use serde::{Serialize, Serializer};

use super::columns::{Column, Columns};
use super::stacks::{StackTable, Written};
use super::{Counted, Kind, Page, Panel, Verdict};
use crate::timeline::{Life, NEVER, NONE, Subject, Timeline};

/// The number of the header's shape. The page and the program come as one, so it rises with every change.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub struct Header<'s> {
    schema: u32,
    source: &'s str,
    counted: Counted,
    stacks: Written<'s>,
    panels: Vec<PanelHeader<'s>>,
}

impl<'s> Header<'s> {
    pub fn new(page: &Page<'s>, panels: Vec<PanelHeader<'s>>, stacks: Written<'s>) -> Self {
        Header { schema: SCHEMA, source: page.source, counted: page.counted, stacks, panels }
    }
}

#[derive(Serialize)]
pub struct PanelHeader<'s> {
    kind: Kind,
    device: u32,
    conf: &'s str,
    capacity: Option<u64>,
    others: u64,
    contradictions: u64,
    has_times: bool,
    /// What is to be added to every address. As text, for a page's numbers do not hold every address.
    #[serde(serialize_with = "hexadecimal")]
    origin: u64,
    actions: Vec<&'static str>,
    pools: Vec<PoolHeader>,
    segments: Segments,
    held: HeldRanges,
    blocks: Blocks,
    events: Events,
    verdict: Option<&'s Verdict>,
}

#[derive(Serialize)]
struct PoolHeader {
    /// As text, for some accelerators have pointers for streams.
    stream: String,
    class: &'static str,
    id: [u64; 2],
}

/// Columns `died` hold 0 for never, else how long the life is, plus one.
#[derive(Serialize)]
struct Segments {
    base: Column,
    size: Column,
    pool: Column,
    expandable: Column,
    born: Column,
    died: Column,
}

#[derive(Serialize)]
struct HeldRanges {
    segment: Column,
    addr: Column,
    size: Column,
    born: Column,
    died: Column,
}

#[derive(Serialize)]
struct Blocks {
    /// 0 for none, else the segment plus one.
    segment: Column,
    addr: Column,
    size: Column,
    requested: Column,
    stack: Column,
    born: Column,
    freed: Column,
    died: Column,
}

#[derive(Serialize)]
struct Events {
    at: Column,
    /// Index in `actions`.
    action: Column,
    /// Of events about a block its index plus one; of others 0.
    block: Column,
    /// Of events about no block, in order: address and bytes.
    addr: Column,
    size: Column,
    pool: Column,
    stack: Column,
    time: Column,
}

pub fn hexadecimal<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{number:#x}"))
}

/// Writes the columns of a panel.
pub fn panel<'s>(panel: &'s Panel, columns: &mut Columns, stacks: &mut StackTable<'_>) -> PanelHeader<'s> {
    let timeline = &panel.timeline;
    let origin = timeline.lowest_address();
    PanelHeader {
        kind: panel.kind,
        device: panel.device,
        conf: &panel.conf,
        capacity: panel.capacity.map(|bytes| bytes.0),
        others: panel.others.0,
        contradictions: timeline.contradictions,
        has_times: timeline.has_times,
        origin,
        pools: timeline.pools.iter().map(pool).collect(),
        segments: segments(timeline, origin, columns),
        held: held(timeline, origin, columns),
        blocks: blocks(timeline, origin, columns, stacks),
        actions: actions(timeline),
        events: events(timeline, origin, columns, stacks),
        verdict: panel.verdict.as_ref(),
    }
}

fn pool(pool: &crate::timeline::Pool) -> PoolHeader {
    PoolHeader { stream: pool.stream.to_string(), class: pool.class, id: [pool.id.0, pool.id.1] }
}

fn born(life: &Life) -> u64 {
    u64::from(life.born)
}

/// How long after `born` something ends, as the columns have it.
fn until(born: u32, end: u32) -> u64 {
    if end == NEVER { 0 } else { u64::from(end.saturating_sub(born)) + 1 }
}

fn segments(timeline: &Timeline, origin: u64, columns: &mut Columns) -> Segments {
    let all = || timeline.segments.iter();
    Segments {
        base: columns.add(all().map(|segment| segment.base - origin)),
        size: columns.add(all().map(|segment| segment.size)),
        pool: columns.add(all().map(|segment| u64::from(segment.pool))),
        expandable: columns.add(all().map(|segment| u64::from(segment.expandable))),
        born: columns.add(all().map(|segment| born(&segment.life))),
        died: columns.add(all().map(|segment| until(segment.life.born, segment.life.died))),
    }
}

fn held(timeline: &Timeline, origin: u64, columns: &mut Columns) -> HeldRanges {
    let all = || timeline.held.iter();
    HeldRanges {
        segment: columns.add(all().map(|held| u64::from(held.segment))),
        addr: columns.add(all().map(|held| held.addr - origin)),
        size: columns.add(all().map(|held| held.size)),
        born: columns.add(all().map(|held| born(&held.life))),
        died: columns.add(all().map(|held| until(held.life.born, held.life.died))),
    }
}

fn blocks(timeline: &Timeline, origin: u64, columns: &mut Columns, stacks: &mut StackTable<'_>) -> Blocks {
    let all = || timeline.blocks.iter();
    let segment = |segment| if segment == NONE { 0 } else { u64::from(segment) + 1 };
    Blocks {
        segment: columns.add(all().map(|block| segment(block.segment))),
        addr: columns.add(all().map(|block| block.addr - origin)),
        size: columns.add(all().map(|block| block.size)),
        requested: columns.add(all().map(|block| block.requested)),
        stack: columns.add(all().map(|block| stacks.row(block.stack))),
        born: columns.add(all().map(|block| born(&block.life))),
        freed: columns.add(all().map(|block| until(block.life.born, block.freed))),
        died: columns.add(all().map(|block| until(block.life.born, block.life.died))),
    }
}

/// The names of the actions that occur, in the order of their first event.
fn actions(timeline: &Timeline) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for event in &timeline.events {
        if !names.contains(&event.action.name()) {
            names.push(event.action.name());
        }
    }
    names
}

fn events(timeline: &Timeline, origin: u64, columns: &mut Columns, stacks: &mut StackTable<'_>) -> Events {
    let all = || timeline.events.iter();
    let names = actions(timeline);
    let action = |name| names.iter().position(|&known| known == name).unwrap_or(0) as u64;
    let ranges = || {
        all().filter_map(|event| match event.subject {
            Subject::Block(_) => None,
            Subject::Range { addr, size } => Some((event.action, addr, size)),
        })
    };
    // Free bytes of a device are no address; a range below everything else belongs to nothing.
    let addr = |action, addr: u64| match action {
        millpond::Action::Oom | millpond::Action::Rejected => addr,
        _ => addr.saturating_sub(origin),
    };
    let about = |subject| match subject {
        Subject::Block(block) => u64::from(block) + 1,
        Subject::Range { .. } => 0,
    };
    let first = timeline.events.first().map_or(0, |event| event.time_us);
    Events {
        at: columns.add(all().map(|event| u64::from(event.at))),
        action: columns.add(all().map(|event| action(event.action.name()))),
        block: columns.add(all().map(|event| about(event.subject))),
        addr: columns.add(ranges().map(|(action, at, _)| addr(action, at).min(super::columns::LIMIT - 1))),
        size: columns.add(ranges().map(|(_, _, size)| size.min(super::columns::LIMIT - 1))),
        pool: columns.add(all().map(|event| u64::from(event.pool))),
        stack: columns.add(all().map(|event| stacks.row(event.stack))),
        time: columns.add(all().map(|event| event.time_us.saturating_sub(first))),
    }
}
