//! The state that a snapshot holds, in figures.

use std::fmt::Write;

use millpond_driver::Bytes;
use millpond_snapshot::{DeviceSummary, Summary};

use crate::grid::Grid;
use crate::{Document, Paint, count, plain};

/// `{"schema", "devices", "settings", "problems"}`.
pub fn json(summary: &Summary) -> String {
    Document::new(summary).line()
}

/// A table a device, then the settings and what does not add up.
pub fn text(summary: &Summary, paint: Paint) -> String {
    let mut text = String::new();
    for device in &summary.devices {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{}\n{}", paint.strong(&name(device.device)), table(device));
    }
    if summary.devices.is_empty() {
        text.push_str("The snapshot holds no segments and no trace.\n\n");
    }
    let _ = writeln!(text, "{}\n{}", paint.strong("settings"), settings(&summary.settings));
    let problems = summary.problems.iter().map(|problem| format!("  {}\n", plain(&problem.to_string())));
    match problems.collect::<String>() {
        none if none.is_empty() => text.push_str("Everything adds up.\n"),
        some => {
            let _ = write!(text, "{}\n{some}", paint.doubt("what does not add up"));
        }
    }
    text
}

fn name(device: i32) -> String {
    if device < 0 { "pinned host memory".into() } else { format!("GPU {device}") }
}

fn table(device: &DeviceSummary) -> Grid {
    let mut grid = Grid::new(&[1, 2]);
    let mut size = |what: &str, bytes: u64, about: &str| {
        grid.row(&[what, &Bytes(bytes).to_string(), &bytes.to_string(), about]);
    };
    size("reserved", device.reserved, "what the driver has handed over");
    size("allocated", device.allocated, "in live blocks");
    size("active", device.active, "with the blocks that wait for other streams");
    size("requested", device.requested, "what callers asked for, of the active blocks");
    size("free in used segments", device.free_in_used_segments, "kept by live blocks in the same segment");
    size("releasable", device.releasable, "in segments without live blocks: empty_cache gives it back");
    size("largest free, large", device.largest_free_large, "for requests above 1 MiB");
    size("largest free, small", device.largest_free_small, "for requests up to 1 MiB");
    let mut number = |what: &str, n: u64| grid.row(&[what, "", &n.to_string()]);
    number("segments", device.segments);
    number("blocks", device.blocks);
    number("trace events", device.trace_events);
    grid
}

fn settings(settings: &serde_json::Value) -> String {
    let Some(settings) = settings.as_object().filter(|settings| !settings.is_empty()) else {
        return "  the snapshot does not say which\n".into();
    };
    let mut grid = Grid::new(&[]);
    for (key, value) in settings {
        grid.row(&[plain(key), plain(&setting(value))]);
    }
    grid.to_string()
}

/// A setting's value; a table is summed up.
fn setting(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) if text.is_empty() => "(empty)".into(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Object(table) if table.values().all(|value| value.as_u64() == Some(0)) => "off".into(),
        serde_json::Value::Object(table) if table.len() > 16 => count(table.len() as u64, "entry", "entries"),
        serde_json::Value::Object(table) => {
            table.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let device =
            DeviceSummary { device: 0, segments: 1, blocks: 2, reserved: 20 << 20, ..DeviceSummary::default() };
        Summary {
            devices: vec![device],
            settings: serde_json::json!({ "expandable_segments": false }),
            problems: vec![],
        }
    }

    #[test]
    fn people_see_both_forms_of_a_size() {
        let text = text(&summary(), Paint::OFF);
        assert!(text.contains("GPU 0"), "{text}");
        assert!(
            text.lines().any(|line| line.contains("reserved") && line.contains("20MiB") && line.contains("20971520"))
        );
        assert!(text.contains("Everything adds up."));
        assert!(!text.contains('\x1b'));
        assert!(text.lines().all(|line| line.trim_end() == line), "no line ends with white space: {text:?}");
    }

    #[test]
    fn programs_see_the_shape_of_schema_1() {
        let json: serde_json::Value = serde_json::from_str(&json(&summary())).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["devices"][0]["reserved"], 20 << 20);
        assert_eq!(json["problems"], serde_json::json!([]));
    }

    #[test]
    fn a_text_of_the_file_cannot_steer_the_terminal() {
        let mut summary = summary();
        summary.settings = serde_json::json!({ "PYTORCH_CUDA_ALLOC_CONF": "\u{1b}[2J" });
        assert!(!text(&summary, Paint::OFF).contains('\x1b'));
    }
}
