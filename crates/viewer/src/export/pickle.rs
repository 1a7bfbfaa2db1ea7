//! A snapshot from timelines: the segments at the end, and the events as traces.

use millpond_snapshot::{
    Action as Word, Block, BlockState, PoolId, Segment, SegmentType, Settings, Snapshot, TimeUs, TraceEntry,
};

use super::figures;
use crate::page::{Page, Panel};
use crate::timeline::{Holds, Pool, SegmentAt};

/// A device that stands twice on the page, under two settings, keeps the first.
pub fn snapshot(page: &Page<'_>) -> Snapshot {
    let mut snapshot = Snapshot { stacks: page.stacks.clone(), ..Snapshot::default() };
    let mut seen: Vec<u32> = Vec::new();
    for panel in &page.panels {
        if seen.contains(&panel.device) {
            continue;
        }
        if seen.is_empty() {
            let expandable = panel.timeline.segments.iter().any(|segment| segment.expandable);
            let conf = Some(panel.conf.clone());
            snapshot.settings = Settings { conf, expandable_segments: Some(expandable), ..Settings::default() };
        }
        seen.push(panel.device);
        let timeline = &panel.timeline;
        let at_end = timeline.segments_at(timeline.end());
        snapshot.segments.extend(at_end.iter().flat_map(|segment| segments(panel, segment)));
        let device = panel.device as usize;
        if snapshot.device_traces.len() <= device {
            snapshot.device_traces.resize_with(device + 1, Vec::new);
        }
        snapshot.device_traces[device] = trace(panel);
    }
    snapshot.segments.sort_by_key(|segment| (segment.device, segment.address));
    snapshot
}

/// The contiguous ranges that a segment holds: each is a segment of its own in a snapshot (R9.4).
fn segments<'p>(panel: &'p Panel, at: &'p SegmentAt) -> impl Iterator<Item = Segment> + 'p {
    let of = &panel.timeline.segments[at.segment as usize];
    let Pool { stream, class, id } = panel.timeline.pools[of.pool as usize];
    at.ranges.chunk_by(|before, after| before.addr + before.size == after.addr).map(move |ranges| {
        let blocks: Vec<Block> = ranges.iter().map(|range| block(panel, range.addr, range.size, range.holds)).collect();
        let sum = |bytes: fn(&Block) -> u64| blocks.iter().map(bytes).sum();
        Segment {
            device: panel.device as i32,
            address: ranges[0].addr,
            total_size: sum(|block| block.size),
            allocated_size: sum(Block::allocated),
            active_size: sum(Block::active),
            requested_size: sum(Block::requested),
            stream,
            segment_type: SegmentType::from_word(class).unwrap_or_default(),
            pool: Some(PoolId::new(id.0, id.1)),
            is_expandable: of.expandable,
            blocks,
            ..Segment::default()
        }
    })
}

fn block(panel: &Panel, address: u64, size: u64, holds: Holds) -> Block {
    let (state, index) = match holds {
        Holds::Free => return Block { address, size, ..Block::default() },
        Holds::Live(index) => (BlockState::ActiveAllocated, index),
        Holds::Pending(index) => (BlockState::ActivePendingFree, index),
    };
    let block = &panel.timeline.blocks[index as usize];
    Block { address, size, requested_size: block.requested, state, stack: block.stack, ..Block::default() }
}

/// The events that PyTorch's traces know.
fn trace(panel: &Panel) -> Vec<TraceEntry> {
    let timeline = &panel.timeline;
    let known = timeline.events.iter().filter(|event| event.action.is_torch());
    known
        .map(|event| {
            let (addr, size) = figures(timeline, event);
            let pool = &timeline.pools[event.pool as usize];
            TraceEntry {
                action: Word::from_word(event.action.name()).unwrap_or(Word::Other),
                addr,
                size,
                stream: pool.stream,
                time_us: timeline.has_times.then(|| TimeUs::new(event.time_us)),
                pool: Some(PoolId::new(pool.id.0, pool.id.1)),
                stack: Some(event.stack),
                ..TraceEntry::default()
            }
        })
        .collect()
}
