//! Where every byte was, each under one name.

use millpond_doctor::Diagnosis;
use millpond_doctor::diagnosis::{Account, Cause, CauseKind, Holder, Limit};
use millpond_driver::Bytes;

use super::holder;
use crate::{Paint, count};

/// How many segments are shown whose blocks pin free bytes.
const SEGMENTS: usize = 4;

/// How many of their blocks.
const BLOCKS: usize = 4;

pub fn text(diagnosis: &Diagnosis, paint: Paint) -> String {
    let account = &diagnosis.account;
    let mut text = String::new();
    match account.total {
        Some(total) if account.outside.is_some() => text += &row(0, "device", total, ""),
        Some(total) => text += &row(0, "known of the device", total, "reserved and free; --capacity tells the rest"),
        None => {}
    }
    if let Some(outside) = account.outside {
        text += &row(1, "others", outside, "held outside of this allocator");
    }
    if let Some(free) = account.device_free {
        text += &row(1, "free on the device", free, &limit(diagnosis));
    }
    text += &row(1, "reserved", account.reserved, "what the driver has handed over");
    text += &row(2, "allocated", account.allocated, "in live blocks");
    if account.rounding > 0 {
        text += &row(3, "of that rounding", account.rounding, "more than was asked for");
    }
    if account.pending > 0 {
        text += &row(2, "waiting for events", account.pending, "freed, and other streams may still use it");
    }
    for cause in &account.causes {
        text += &row(2, name(cause.kind), cause.bytes, &about(cause));
    }
    text += &pinned(account, paint);
    text
}

fn row(depth: usize, name: &str, bytes: u64, about: &str) -> String {
    let name = format!("{}{name}", "  ".repeat(depth));
    let row = format!("  {name:<36}{:>10}  {bytes:>13}  {about}", Bytes(bytes).to_string());
    format!("{}\n", row.trim_end())
}

fn limit(diagnosis: &Diagnosis) -> String {
    let Some(room) = diagnosis.verdict.room else { return String::new() };
    match room.limit {
        None => String::new(),
        Some(Limit::Stated { bytes }) => {
            format!("of which {} may be taken: the limit is {}", Bytes(room.usable), Bytes(bytes))
        }
        Some(Limit::Inferred { .. }) => "and yet the request failed".into(),
    }
}

/// A cause as a row's name.
fn name(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::OtherSegments => "① free in other segments",
        CauseKind::Pinned => "② pinned by blocks in use",
        CauseKind::OtherSize => "③ in the other size class",
        CauseKind::OtherStream => "③ on another stream",
        CauseKind::PrivatePool => "③ in another memory pool",
        CauseKind::Unlisted => "not listed in the file",
    }
}

fn about(cause: &Cause) -> String {
    if cause.kind == CauseKind::Unlisted {
        return "the blocks do not fill their segments".into();
    }
    let segments = count(cause.segments, "segment", "segments");
    let returnable = match cause.returnable {
        0 => String::new(),
        all if all == cause.bytes => ", all of them cached and returnable".into(),
        some => format!(", {} of it cached and returnable", Bytes(some)),
    };
    format!("in {segments}, the largest piece {}{returnable}", Bytes(cause.largest))
}

/// The blocks that pin, by segment.
fn pinned(account: &Account, paint: Paint) -> String {
    let Some(cause) = account.causes.iter().find(|cause| !cause.blocks.is_empty()) else { return String::new() };
    let mut text = format!("\n{}\n", paint.strong("what pins"));
    let segments: Vec<&[Holder]> = cause.blocks.chunk_by(|a, b| a.segment == b.segment).collect();
    for blocks in segments.iter().take(SEGMENTS) {
        let (segment, pins) = (blocks[0].segment, Bytes(blocks[0].pins));
        text.push_str(&format!("  {pins} free in the segment at {segment:#x}, held by\n"));
        for block in blocks.iter().take(BLOCKS) {
            text.push_str(&format!("    {}\n", holder(block)));
        }
        if blocks.len() > BLOCKS {
            text.push_str(&format!("    … and {} or more other blocks\n", blocks.len() - BLOCKS));
        }
    }
    let more = cause.segments.saturating_sub(SEGMENTS.min(segments.len()) as u64);
    if more > 0 {
        text.push_str(&format!("  … and {}\n", count(more, "more segment", "more segments")));
    }
    text
}
