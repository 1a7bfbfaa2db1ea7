//! Final segments in PyTorch's form: a driver allocation is one, and so is each run of mapped pages (R9.4).

use millpond::{BlockState, BlockUse, SegmentState};

use super::line::{Block, Segment};
use super::ranges::Ranges;

/// The segments of an allocator as a snapshot of PyTorch lists them, by address.
pub(super) fn recorded_form(segments: &[SegmentState], ranges: &Ranges, va_base: u64) -> Vec<Segment> {
    let runs = segments.iter().flat_map(|segment| {
        let runs = segment.blocks.split(|block| block.state == BlockUse::Unmapped);
        runs.filter(|run| !run.is_empty()).map(move |run| (segment, run))
    });
    runs.map(|(segment, run)| one(segment, run, ranges, va_base)).collect()
}

fn one(segment: &SegmentState, run: &[BlockState], ranges: &Ranges, va_base: u64) -> Segment {
    let start = run[0].addr;
    // Memory of a custom allocator lies outside of what the driver granted; recordings hold none.
    let (seg, off) = ranges.find(start).unwrap_or((u64::MAX, 0));
    let active = run.iter().filter(|block| block.state != BlockUse::Free);
    Segment {
        seg,
        off,
        va: start.saturating_sub(va_base),
        size: run.iter().map(|block| block.size).sum(),
        alloc: run.iter().filter(|block| block.state == BlockUse::Live).map(|block| block.size).sum(),
        active: active.clone().map(|block| block.size).sum(),
        req: active.map(|block| block.requested).sum(),
        stream: segment.stream.raw,
        class: segment.class.name().to_owned(),
        pool: (segment.pool.0, segment.pool.1),
        exp: segment.expandable,
        blocks: run.iter().map(|block| Block(block.addr - start, block.size, block.requested, state(block))).collect(),
    }
}

fn state(block: &BlockState) -> String {
    match block.state {
        BlockUse::Live => "active_allocated",
        BlockUse::Pending => "active_pending_free",
        BlockUse::Free | BlockUse::Unmapped => "inactive",
    }
    .to_owned()
}

/// Whether two blocks are the same; what an inactive one was asked for is stale (R9.7).
pub(super) fn same(a: &Block, b: &Block) -> bool {
    (a.0, a.1, &a.3) == (b.0, b.1, &b.3) && (a.2 == b.2 || a.3 == "inactive")
}
