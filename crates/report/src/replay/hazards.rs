//! Uses of memory that nothing orders.

use std::fmt::Write;

use millpond_driver::Bytes;
use millpond_replay::{Hazard, HazardBlock, HazardHint, HazardKind, HazardUse};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::words::paragraph;
use crate::{Paint, count, plain};

/// Each hazard as a paragraph, with the blocks under it.
pub fn text(found: &[Hazard], paint: Paint) -> String {
    if found.is_empty() {
        return format!("{}\n", paint.good("no hazards: all uses of memory are in order"));
    }
    let mut text = format!("{}\n", paint.bad(&count(found.len() as u64, "hazard", "hazards")));
    for hazard in found {
        text.push_str(&paragraph(&plain(&hazard.to_string()), 2));
        for HazardBlock { addr, size, stream, label } in hazard.former.iter().chain(&hazard.block) {
            let _ = writeln!(text, "    {}: {} at {addr:#x}, of {stream}", plain(label), Bytes(*size));
        }
    }
    text
}

/// As a list, or null where nobody looked.
pub fn serialize<S: Serializer>(found: &Option<&[Hazard]>, serializer: S) -> Result<S::Ok, S::Error> {
    found.map(|found| found.iter().map(value).collect::<Vec<_>>()).serialize(serializer)
}

fn value(hazard: &Hazard) -> Value {
    json!({
        "kind": kind(hazard.kind),
        "first": use_of(&hazard.first),
        "second": use_of(&hazard.second),
        "block": hazard.block.as_ref().map(block),
        "former": hazard.former.as_ref().map(block),
        "prevented_by": hint(hazard.hint),
        "text": hazard.to_string(),
    })
}

fn kind(kind: HazardKind) -> &'static str {
    match kind {
        HazardKind::UseStillRunning => "use_still_running",
        HazardKind::HandedOutTooEarly => "handed_out_too_early",
        HazardKind::UseAfterFree => "use_after_free",
    }
}

fn use_of(used: &HazardUse) -> Value {
    let HazardUse { stream, label, at_us, write, addr, bytes } = used;
    json!({
        "by": &**label,
        "stream": stream.raw,
        "device": stream.device.0,
        "write": write,
        "address": addr,
        "size": bytes,
        "at_us": at_us,
    })
}

fn block(block: &HazardBlock) -> Value {
    let HazardBlock { addr, size, stream, label } = block;
    json!({ "name": &**label, "address": addr, "size": size, "stream": stream.raw })
}

fn hint(hint: HazardHint) -> Value {
    match hint {
        HazardHint::Wait { waiter, awaited } => json!({ "wait": { "waiter": waiter.raw, "awaited": awaited.raw } }),
        HazardHint::RecordStream { stream } => json!({ "record_stream": { "stream": stream.raw } }),
        HazardHint::GiveBackLater => json!("free_later"),
    }
}
