//! What grew between two states.

use std::fmt::Write;

use millpond_doctor::{DeviceDiff, Diff, Place, Totals};
use millpond_driver::Bytes;

use crate::grid::Grid;
use crate::{Document, Paint, count, plain};

/// How many lines of a stack are shown.
const FRAMES: usize = 6;

/// `{"schema", "devices"}`.
pub fn json(diff: &Diff) -> String {
    Document::new(diff).line()
}

/// A table a device, then its places: at most `most` that grew and as many that shrank.
pub fn text(diff: &Diff, most: usize, paint: Paint) -> String {
    let mut text = String::new();
    for device in &diff.devices {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{}\n{}", paint.strong(&format!("GPU {}", device.device)), totals(device));
        let grown: Vec<&Place> = device.places.iter().filter(|place| place.grown > 0).collect();
        let shrunk: Vec<&Place> = device.places.iter().rev().filter(|place| place.grown < 0).collect();
        if grown.is_empty() && shrunk.is_empty() {
            text.push_str("No place holds more or less than before.\n\n");
        }
        places(&mut text, "what grew", &grown, most, paint);
        places(&mut text, "what shrank", &shrunk, most, paint);
    }
    if diff.devices.is_empty() {
        text.push_str("Neither state holds segments.\n\n");
    }
    text.pop();
    text
}

/// A column of the account.
type Figure = fn(&Totals) -> u64;

fn totals(device: &DeviceDiff) -> Grid {
    let mut grid = Grid::new(&[1, 2, 3, 4]).head(&["", "before", "after", "grown", "bytes"]);
    let rows: [(&str, Figure); 4] = [
        ("reserved", |totals| totals.reserved),
        ("in live blocks", |totals| totals.allocated),
        ("waiting for streams", |totals| totals.pending),
        ("free", |totals| totals.free),
    ];
    for (what, figure) in rows {
        let (was, is) = (figure(&device.before), figure(&device.after));
        let grown = i128::from(is) - i128::from(was);
        let bytes = format!("{grown:+}");
        grid.row(&[what, &Bytes(was).to_string(), &Bytes(is).to_string(), &signed(grown), &bytes]);
    }
    grid
}

fn places(text: &mut String, title: &str, places: &[&Place], most: usize, paint: Paint) {
    if places.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", paint.strong(title));
    for place in places.iter().take(most) {
        let Place { before, after, .. } = place;
        let blocks = if before.blocks == after.blocks {
            count(after.blocks, "block", "blocks")
        } else {
            format!("{} to {}", before.blocks, count(after.blocks, "block", "blocks"))
        };
        let (was, is) = (Bytes(before.bytes), Bytes(after.bytes));
        let _ = writeln!(text, "  {}  {was} to {is}, {blocks}", signed(place.grown.into()));
        for line in place.stack.iter().take(FRAMES) {
            let _ = writeln!(text, "    {}", plain(line));
        }
        match place.stack.len().saturating_sub(FRAMES) {
            0 => {}
            more => drop(writeln!(text, "    {}", paint.faint(&format!("… {more} more")))),
        }
        if let Some(requested) = place.requested {
            let line = format!("no stack was recorded; requests of {requested} bytes");
            let _ = writeln!(text, "    {}", paint.faint(&line));
        }
    }
    if places.len() > most {
        let more = count((places.len() - most) as u64, "place", "places");
        let rest: i128 = places[most..].iter().map(|place| i128::from(place.grown)).sum();
        let _ = writeln!(text, "  {}  in {more} more", signed(rest));
    }
    text.push('\n');
}

/// A size with its sign.
fn signed(bytes: i128) -> String {
    let size = Bytes(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX));
    match bytes {
        0 => "0B".into(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

#[cfg(test)]
mod tests {
    use millpond_doctor::Held;

    use super::*;

    fn diff() -> Diff {
        let place = |function: &str, before: u64, after: u64| Place {
            stack: (0..8).map(|line| format!("model.py:{line} {function}")).collect(),
            requested: None,
            before: Held { bytes: before << 20, blocks: before },
            after: Held { bytes: after << 20, blocks: after },
            grown: (after << 20) as i64 - (before << 20) as i64,
        };
        let places = vec![place("cache", 0, 9), place("acts\x1b[2J", 4, 6), place("same", 3, 3), place("old", 2, 1)];
        let after = Totals { reserved: 19 << 20, allocated: 19 << 20, ..Totals::default() };
        let device = DeviceDiff { device: 1, before: Totals::default(), after, places };
        Diff { devices: vec![device] }
    }

    #[test]
    fn people_see_what_grew_and_what_shrank() {
        let text = text(&diff(), 20, Paint::OFF);
        for words in
            ["GPU 1", "+19MiB", "+9MiB  0B to 9MiB, 0 to 9 blocks", "-1MiB  2MiB to 1MiB, 2 to 1 block\n", "… 2 more"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("same"), "what stays is not told: {text}");
        assert!(!text.contains('\x1b'));
        assert!(text.ends_with("… 2 more\n") && text.lines().all(|line| line.trim_end() == line), "{text:?}");
        assert!(super::text(&diff(), 1, Paint::OFF).contains("+2MiB  in 1 place more"));
    }

    #[test]
    fn programs_see_all_of_it() {
        let json: serde_json::Value = serde_json::from_str(&json(&diff())).unwrap();
        assert_eq!((&json["schema"], &json["devices"][0]["device"]), (&1.into(), &1.into()));
        assert_eq!(json["devices"][0]["places"].as_array().unwrap().len(), 4);
        assert_eq!(json["devices"][0]["places"][3]["grown"], -(1 << 20));
    }
}
