//! The figures for a person.

use millpond_report::Grid;

use crate::compare::Row;

/// A row a case: nanoseconds of each, how often PyTorch's time holds ours, and whether that is enough.
pub fn cases(rows: &[Row]) -> String {
    let head = ["ns a pair", "PyTorch", "C", "Rust", "malloc", "PyTorch ÷ C", "must", "aim", ""];
    let mut table = Grid::new(&[1, 2, 3, 4, 5, 6, 7]).head(&head);
    for row in rows {
        let asked = |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
        let verdict = match (row.must, row.aim) {
            (_, Some(aim)) if row.ratio >= aim => "aim",
            (Some(must), _) if row.ratio >= must => "met",
            (Some(_), _) => "NOT MET",
            _ => "",
        };
        let times = [row.torch_ns, row.c_ns, row.rust_ns, row.yardstick_ns].map(|ns| format!("{ns:.1}"));
        let [torch, c, rust, yardstick] = times;
        let ratio = format!("{:.2}", row.ratio);
        let (must, aim) = (asked(row.must), asked(row.aim));
        table.row(&[row.case.as_str(), &torch, &c, &rust, &yardstick, &ratio, &must, &aim, verdict]);
    }
    table.to_string()
}

/// What two threads do together against one, and what the history adds to a cached pair.
pub fn derived(rows: &[Row]) -> String {
    let row = |name: &str| rows.iter().find(|row| row.case == name);
    let times = |row: &Row| [row.torch_ns, row.c_ns, row.rust_ns];
    let mut table = Grid::new(&[1, 2, 3, 4, 5]).head(&["", "PyTorch", "C", "Rust", "must", "aim"]);
    let mut empty = true;
    let mut add = |what: &str, one: &str, other: &str, figure: fn(f64, f64) -> f64, must: &str, aim: &str| {
        let (Some(one), Some(other)) = (row(one).map(times), row(other).map(times)) else { return };
        let [torch, c, rust] = [0, 1, 2].map(|at| format!("{:.2}", figure(one[at], other[at])));
        table.row(&[what, &torch, &c, &rust, must, aim]);
        empty = false;
    };
    let faster = |one: f64, two: f64| one / two;
    let added = |with: f64, without: f64| (with - without) / without;
    let (one, two) = ("threads_two_streams_1", "threads_two_streams_2");
    add("throughput of two threads on two streams ÷ of one", one, two, faster, "1.8", "1.95");
    let (one, two) = ("threads_same_stream_1", "threads_same_stream_2");
    add("throughput of two threads on one stream ÷ of one", one, two, faster, "", "");
    add("history adds, in cached pairs", "history_cached_4k", "cached_4k", added, "< 0.5", "");
    if empty { String::new() } else { table.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, torch_ns: f64, c_ns: f64, must: Option<f64>, aim: Option<f64>) -> Row {
        let (rust_ns, yardstick_ns) = (c_ns, 10.0);
        Row { case: case.into(), torch_ns, c_ns, rust_ns, yardstick_ns, ratio: torch_ns / c_ns, must, aim }
    }

    #[test]
    fn a_row_says_what_it_reached() {
        let rows = [
            row("one", 160.0, 10.0, Some(8.0), Some(15.0)),
            row("two", 90.0, 10.0, Some(8.0), Some(15.0)),
            row("three", 79.0, 10.0, Some(8.0), Some(15.0)),
            row("four", 79.0, 10.0, None, None),
        ];
        let text = cases(&rows);
        let ends: Vec<_> =
            text.lines().skip(1).map(|line| line.trim_end().rsplit("  ").next().unwrap().trim()).collect();
        assert_eq!(ends, ["aim", "met", "NOT MET", "7.90"], "{text}");
    }

    #[test]
    fn what_follows_from_two_rows() {
        let rows = [
            row("cached_4k", 100.0, 20.0, None, None),
            row("history_cached_4k", 150.0, 25.0, None, None),
            row("threads_two_streams_1", 100.0, 30.0, None, None),
            row("threads_two_streams_2", 200.0, 15.0, None, None),
        ];
        let text = derived(&rows);
        let figures = |what: &str| -> Vec<f64> {
            let line = text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        assert_eq!(figures("two threads on two")[..3], [0.5, 2.0, 2.0]);
        assert_eq!(figures("history")[..3], [0.5, 0.25, 0.25]);
        assert!(!text.contains("one stream"), "{text}");
    }
}
