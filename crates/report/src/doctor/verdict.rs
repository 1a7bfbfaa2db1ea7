//! The verdict in sentences, and what would have been enough.

use millpond_doctor::Diagnosis;
use millpond_doctor::diagnosis::{Behind, Kind, Limit, Relief, When, Where};
use millpond_driver::Bytes;

use super::holder;
use crate::words::paragraph;

/// How many of the blocks that would have to go are shown.
const BLOCKS: usize = 4;

/// The verdict in a few words.
pub fn title(diagnosis: &Diagnosis) -> &'static str {
    match (diagnosis.verdict.kind, diagnosis.verdict.cause, diagnosis.verdict.behind) {
        (Kind::None, ..) if diagnosis.moment.when == When::State => "a state without a trace",
        (Kind::None, ..) => "nothing ran out",
        (_, _, Some(Behind::Limit)) => "out of memory, at a limit below what the device has",
        (_, _, Some(Behind::Outside)) => "out of memory, most of the device is held by others",
        (Kind::TrueShortage, ..) => "out of memory, a true shortage",
        (Kind::Fragmentation, Where::OtherPool, _) => "out of memory, the free bytes are in other pools",
        (Kind::Fragmentation, Where::Pinned, _) => "out of memory, free bytes are pinned inside segments",
        (Kind::Fragmentation, ..) => "out of memory, free bytes are spread over many segments",
    }
}

/// The verdict, a sentence each.
pub fn sentences(diagnosis: &Diagnosis) -> Vec<String> {
    let verdict = &diagnosis.verdict;
    let account = &diagnosis.account;
    let Some((request, room)) = verdict.request.zip(verdict.room) else {
        return vec![waste(diagnosis)];
    };
    let own = Bytes(account.own_free());
    let largest = Bytes(verdict.largest_free);
    let (usable, wanted) = (Bytes(room.usable), Bytes(request));
    let mut sentences = Vec::new();
    match (verdict.kind, verdict.cause) {
        (Kind::TrueShortage, _) => {
            let elsewhere = account.elsewhere_free() + account.pending;
            let there = account.own_free() + room.usable;
            let missing = Bytes(request.saturating_sub(there + elsewhere));
            sentences.push(format!(
                "True shortage: {own} were free in the pool that was asked, {usable} could be had from the device and {} were \
                 free or pending elsewhere. That is {missing} less than the {wanted} asked for, wherever it lay.",
                Bytes(elsewhere)
            ));
        }
        (_, Where::OtherPool) => sentences.push(format!(
            "Fragmentation ③, in another pool: {own} were free in the pool that was asked and {usable} could be had from the \
             device, less than the {wanted} asked for; {} more were free or pending elsewhere, where this request cannot use \
             them.",
            Bytes(account.elsewhere_free() + account.pending)
        )),
        (_, cause) => {
            let kind = match cause {
                Where::Pinned => "② pinned inside segments",
                _ => "① free in other segments",
            };
            sentences.push(format!(
                "Fragmentation {kind}: {own} were free in the pool that was asked and {usable} could be had from the device, \
                 enough for the {wanted} asked for, but not in one piece: the largest was {largest}."
            ));
            sentences.push(match cause {
                Where::Pinned => "At least half of what was free lay in segments at least half empty, which blocks in use keep \
                                  from being given back or joined."
                    .into(),
                _ => "More than half of what was free lay in segments that are mostly full: slack, a little in each.".into(),
            });
        }
    }
    match verdict.behind {
        Some(Behind::Outside) => sentences.push(format!(
            "Others hold {} of the device, more than this allocator ({}): look there first.",
            Bytes(account.outside.unwrap_or_default()),
            Bytes(account.reserved)
        )),
        Some(Behind::Limit) => sentences.push(limited(diagnosis)),
        None => {}
    }
    sentences
}

fn limited(diagnosis: &Diagnosis) -> String {
    let room = diagnosis.verdict.room.unwrap_or_default();
    let free = Bytes(room.device_free);
    match room.limit {
        Some(Limit::Inferred { at_least, at_most }) => format!(
            "The cause is a limit: the device had {free} free, room for the request. Nothing in the file states it; it lies \
             between {} and {}, as torch.cuda.set_per_process_memory_fraction makes one.",
            Bytes(at_least),
            Bytes(at_most)
        ),
        Some(Limit::Stated { bytes }) => format!(
            "The cause is the limit of {} that per_process_memory_fraction sets: the device had {free} free.",
            Bytes(bytes)
        ),
        None => String::new(),
    }
}

/// Where nothing failed: what was held for nothing.
fn waste(diagnosis: &Diagnosis) -> String {
    let account = &diagnosis.account;
    let unused = account.reserved.saturating_sub(account.allocated + account.pending);
    let end = diagnosis.end;
    let then = if diagnosis.moment.when == When::State { "The file holds" } else { "At the peak it held" };
    let share = if account.reserved > 0 { unused as f64 / account.reserved as f64 * 100.0 } else { 0.0 };
    let mut said = format!(
        "No failure, so no verdict. {then} {} for {} of live blocks: {} ({share:.0}%) stood free.",
        Bytes(account.reserved),
        Bytes(account.allocated),
        Bytes(unused)
    );
    if end.returnable > 0 {
        said += &format!(
            " In the end {} of {} reserved are cached and returnable: kept for the next request, given back by \
             torch.cuda.empty_cache, and no leak.",
            Bytes(end.returnable),
            Bytes(end.reserved)
        );
    }
    said
}

/// The section.
pub fn text(diagnosis: &Diagnosis) -> String {
    paragraph(&sentences(diagnosis).join(" "), 2)
}

/// What would have been enough.
pub fn enough(diagnosis: &Diagnosis) -> String {
    let verdict = &diagnosis.verdict;
    if verdict.kind == Kind::None {
        return String::new();
    }
    let mut text = String::new();
    if diagnosis.treatment.as_ref().is_some_and(|treatment| treatment.today.fits) {
        let said = "The replay of today's settings survives on this very device: it does not bring the error about, so what it \
                    says of other settings is weak.";
        text += &paragraph(said, 2);
    } else if let Some((enough, treatment)) = verdict.enough.zip(diagnosis.treatment.as_ref()) {
        let more = Bytes(enough.saturating_sub(treatment.capacity));
        text += &paragraph(
            &format!(
                "Under today's settings a device of {} ({enough} bytes), which is {more} more: the smallest that survives, by \
                 replay in steps of {}.",
                Bytes(enough),
                Bytes(treatment.step)
            ),
            2,
        );
    }
    if let Some(relief) = &verdict.relief {
        text += &relieved(relief);
    }
    text
}

fn relieved(relief: &Relief) -> String {
    let blocks = match relief.count {
        1 => "one block".to_owned(),
        many => format!("{many} blocks, together"),
    };
    let mut text = paragraph(
        &format!(
            "Or without {blocks} of {}: then {} of the segment at {:#x} are free in one piece.",
            Bytes(relief.bytes),
            Bytes(relief.makes),
            relief.segment
        ),
        2,
    );
    for block in relief.blocks.iter().take(BLOCKS) {
        text += &format!("    {}\n", holder(block));
    }
    let more = relief.count.saturating_sub(BLOCKS as u64);
    if more > 0 {
        text += &format!("    … and {more} more\n");
    }
    text
}
