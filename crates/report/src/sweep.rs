//! The same requests under many settings.

use std::fmt::Write;

use millpond_doctor::{Setting, Sweep};
use millpond_driver::Bytes;

use crate::grid::Grid;
use crate::words::{duration, paragraph};
use crate::{Document, Paint, count, plain};

/// `{"schema", "capacity", "others", "requests", "settings", "bounds"}`.
pub fn json(sweep: &Sweep) -> String {
    Document::new(sweep).line()
}

/// A row a setting, the one that needs least first, and under them what no setting can beat.
pub fn text(sweep: &Sweep, paint: Paint) -> String {
    let searched = sweep.settings.iter().any(|setting| setting.min_capacity.is_some());
    let shared = match sweep.others {
        0 => String::new(),
        others => format!(", of which others use {}", Bytes(others)),
    };
    let requests = count(sweep.requests, "request", "requests");
    let settings = count(sweep.settings.len() as u64, "setting", "settings");
    let mut text = format!("{requests} under {settings} on {}{shared}\n\n", Bytes(sweep.capacity));
    let mut order: Vec<&Setting> = sweep.settings.iter().collect();
    order.sort_by_key(|setting| {
        (!setting.fits, setting.min_capacity.unwrap_or(u64::MAX), setting.peak_reserved, setting.driver_us)
    });
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "{}", table(&order, searched));
    let fits = sweep.settings.iter().filter(|setting| setting.fits).count();
    let _ = match fits {
        0 => writeln!(text, "{}", paint.bad("no setting fits")),
        _ => writeln!(text, "{}", paint.good(&format!("{fits} of {} fit", sweep.settings.len()))),
    };
    for setting in order {
        remarks(&mut text, setting);
    }
    let bounds = &sweep.bounds;
    let mut grid = Grid::new(&[1, 2]);
    for (what, bytes) in [("largest sum of live bytes", bounds.live), ("offline packing found", bounds.packing)] {
        grid.row(&[what, &Bytes(bytes).to_string(), &bytes.to_string()]);
    }
    let _ = write!(text, "\n{}\n{grid}", paint.strong("what no setting can beat"));
    let method = format!(
        "No setting needs less than the first. An allocator that never moves a block needs at least the best packing, which \
         lies between the two; this one was found by {}.",
        bounds.method
    );
    text.push_str(&paragraph(&method, 2));
    text
}

fn table(settings: &[&Setting], searched: bool) -> Grid {
    let smallest = |setting: &Setting| match (searched, setting.min_capacity) {
        (false, _) => String::new(),
        (true, Some(bytes)) => Bytes(bytes).to_string(),
        (true, None) => "none".into(),
    };
    let mut grid = Grid::new(&[1, 2, 3, 4, 5]).head(&[
        "fits",
        if searched { "smallest device" } else { "" },
        "peak reserved",
        "OOMs",
        "retries",
        "driver",
        "setting",
    ]);
    for &setting in settings {
        grid.row(&[
            if setting.fits { "yes" } else { "no" },
            &smallest(setting),
            &Bytes(setting.peak_reserved).to_string(),
            &setting.ooms.to_string(),
            &setting.retries.to_string(),
            &duration(setting.driver_us),
            &name(&setting.conf),
        ]);
    }
    grid
}

fn name(conf: &str) -> String {
    if conf.is_empty() { "PyTorch's defaults".into() } else { plain(conf).into_owned() }
}

/// More memory is not always enough where less was.
fn remarks(text: &mut String, setting: &Setting) {
    let conf = name(&setting.conf);
    if let Some(capacity) = setting.fails_above {
        let remark = format!("{conf}: {} fails although less survives.", Bytes(capacity));
        text.push_str(&paragraph(&remark, 2));
    }
    if let Some(capacity) = setting.also_survives {
        let remark = format!("{conf}: {} survives although more fails.", Bytes(capacity));
        text.push_str(&paragraph(&remark, 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_doctor::Bounds;
    use std::time::Duration;

    fn sweep() -> Sweep {
        let setting = |conf: &str, fits, min_capacity| Setting {
            conf: conf.into(),
            fits,
            min_capacity,
            fails_above: None,
            also_survives: None,
            peak_reserved: 20 << 20,
            ooms: u64::from(!fits),
            retries: 0,
            driver_us: 1500,
            took: Duration::ZERO,
        };
        Sweep {
            capacity: 1 << 30,
            others: 0,
            requests: 3,
            settings: vec![setting("", false, None), setting("expandable_segments:True", true, Some(64 << 20))],
            bounds: Bounds { live: 512, packing: 1024, method: "hand" },
        }
    }

    #[test]
    fn what_fits_comes_first_and_the_bounds_last() {
        let text = text(&sweep(), Paint::OFF);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("expandable_segments:True") < at("PyTorch's defaults"));
        assert!(at("1 of 2 fit") < at("offline packing found"));
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }

    #[test]
    fn programs_see_the_order_that_was_asked_for() {
        let value: serde_json::Value = serde_json::from_str(&json(&sweep())).unwrap();
        assert_eq!(value["settings"][0]["conf"], "");
        assert_eq!(value["settings"][1]["min_capacity"], 64 << 20);
        assert_eq!(value["bounds"]["live"], 512);
    }
}
