//! The settings that survive, and what they cost.

use millpond_doctor::diagnosis::{Kind, Treatment, When};
use millpond_doctor::{Diagnosis, Setting};
use millpond_driver::Bytes;

use super::Asked;
use crate::grid::Grid;
use crate::words::{duration, paragraph};
use crate::{Paint, count, plain};

/// How many fixes are shown; `--json` has all.
const SHOWN: usize = 6;

pub fn name(diagnosis: &Diagnosis) -> &'static str {
    match diagnosis.moment.when {
        When::Oom => "fixes, each replayed",
        When::Peak => "settings that need less, each replayed",
        When::State => "fixes",
    }
}

pub fn text(diagnosis: &Diagnosis, asked: Asked<'_>, paint: Paint) -> String {
    if let Some(why) = &diagnosis.not_replayed {
        let said = format!("None: the recording cannot be replayed ({}), and nothing is advised without.", plain(why));
        return paragraph(&said, 2);
    }
    let Some(treatment) = &diagnosis.treatment else {
        return paragraph("None: without a trace there is nothing to replay, and nothing is advised without.", 2);
    };
    let fixes = &diagnosis.fixes;
    let tried = count(treatment.tried, "other setting was", "other settings were");
    let device = Bytes(treatment.capacity);
    let fits = fixes.iter().filter(|fix| fix.fits).count();
    if fixes.is_empty() {
        let said = format!("None: {tried} replayed on {device}, and none needs a smaller device than today's.");
        return paragraph(&said, 2);
    }
    let need = if fits == 1 { "needs" } else { "need" };
    let said = match fits {
        0 => format!("None: {tried} replayed on {device}, and none survives. The nearest:"),
        _ if is_fresh_enough(diagnosis, treatment) => format!(
            "{tried} replayed on {device}, with the blocks that were in use when the trace began placed anew. Begun so, \
             today's settings survive, too: what was there before the trace began is part of the cause, and only a longer \
             recording can tell settings apart. {fits} of the others {need} a smaller device still."
        ),
        _ => format!(
            "{tried} replayed on {device}; {fits} of them {} and {need} a smaller device than today's.",
            if fits == 1 { "survives" } else { "survive" },
        ),
    };
    let mut text = paragraph(&said, 2);
    text += &table(fixes, treatment).to_string();
    if treatment.is_short {
        let said = "The trace is long, so these are the few that help most often, in coarse steps; `millpond sweep \
                    --min-capacity` tries more.";
        text += &paragraph(said, 2);
    }
    if fixes.len() > SHOWN {
        text += &format!("  … and {} more, with --json\n", fixes.len() - SHOWN);
    }
    text += &caveats(diagnosis);
    if let Some(best) = fixes.first().filter(|fix| fix.fits) {
        text += &command(diagnosis, treatment, best, asked, paint);
    }
    text
}

fn table(fixes: &[Setting], treatment: &Treatment) -> Grid {
    let mut grid = Grid::new(&[0, 1, 2, 3, 4]).head(&[
        "smallest device",
        "headroom",
        "peak reserved",
        "retries",
        "driver",
        "setting",
    ]);
    let mut row = |setting: &Setting, name: &str| {
        let bytes = |bytes: Option<u64>| bytes.map_or("none".to_owned(), |bytes| Bytes(bytes).to_string());
        let headroom = setting.min_capacity.and_then(|needs| treatment.capacity.checked_sub(needs));
        grid.row(&[
            bytes(setting.min_capacity),
            bytes(headroom),
            Bytes(setting.peak_reserved).to_string(),
            setting.retries.to_string(),
            duration(setting.driver_us),
            name.to_owned(),
        ]);
    };
    for fix in fixes.iter().take(SHOWN) {
        row(fix, &plain(&fix.conf));
    }
    row(&treatment.control, "today's, for comparison");
    grid
}

/// Whether the recorded settings survive, too, when all blocks are placed anew.
fn is_fresh_enough(diagnosis: &Diagnosis, treatment: &Treatment) -> bool {
    diagnosis.verdict.kind != Kind::None && treatment.control.fits
}

/// What the comparison is worth.
fn caveats(diagnosis: &Diagnosis) -> String {
    let mut said = String::from(
        "All begin with the blocks that were in use when the trace began placed anew; driver time is modelled. A trace ends, \
         and what would have come after it nobody knows.",
    );
    if diagnosis.moment.when == When::Oom {
        said += " What failed in the recording and fits in a replay is given back there at once, for nothing says how long it \
                 would have been held.";
    }
    paragraph(&said, 2)
}

/// What to set, and how to see for oneself.
fn command(diagnosis: &Diagnosis, treatment: &Treatment, best: &Setting, asked: Asked<'_>, paint: Paint) -> String {
    let device = if asked.has_several { format!(" --device-index {}", diagnosis.device) } else { String::new() };
    let others = if treatment.others > 0 { format!(" --others {}", treatment.others) } else { String::new() };
    let conf = plain(&best.conf);
    let lines = [
        format!("export PYTORCH_CUDA_ALLOC_CONF=\"{conf}\""),
        format!(
            "millpond replay {} --conf \"{conf}\" --capacity {}{others}{device} --assert \"ooms == 0\"",
            plain(asked.source),
            treatment.capacity
        ),
    ];
    let lines: String = lines.iter().map(|line| format!("    {}\n", paint.good(line))).collect();
    format!("  To set the first, and to see it survive:\n{lines}")
}
