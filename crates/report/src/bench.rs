//! What an allocation costs.

use std::fmt::Write;

use millpond_bench::{GrowthRow, Row};
use serde::Serialize;

use crate::grid::Grid;
use crate::words::paragraph;
use crate::{Document, Paint, count};

/// `{"schema", "rows": [{"case", "ns", "yardstick_ns", "ratio", "instructions"}], "growth": […]}`.
pub fn json(rows: &[Row], growth: &[GrowthRow]) -> String {
    #[derive(Serialize)]
    struct Body<'a> {
        rows: &'a [Row],
        growth: &'a [GrowthRow],
    }
    Document::new(Body { rows, growth }).line()
}

/// A row a case, in nanoseconds, in yardsticks and, where they were counted, in instructions.
pub fn cases(rows: &[Row], paint: Paint) -> String {
    let counted = rows.iter().any(|row| row.instructions.is_some());
    let mut grid =
        Grid::new(&[1, 2, 3]).head(&["case", "ns a pair", "x malloc", if counted { "instructions" } else { "" }]);
    for row in rows {
        let instructions = row.instructions.map_or(String::new(), |count| count.to_string());
        grid.row(&[&row.case, &format!("{:.1}", row.ns), &format!("{:.2}", row.ratio), &instructions]);
    }
    let mut text =
        format!("{}\n{grid}", paint.strong("a pair of an allocation and a free, by the library's own interface"));
    let yardstick = "The yardstick is a malloc and a free of 4 KiB, timed between the rounds of the same run. Figures are medians. \
                     On a machine that does other work too only ratios mean something.";
    let _ = write!(text, "\n{}", paragraph(yardstick, 2));
    text
}

/// A row a population.
pub fn growth(rows: &[GrowthRow], paint: Paint) -> String {
    let mut grid = Grid::new(&[1, 2, 3, 4]).head(&["", "of", "ns each", "x the first", "walk, ns a step"]);
    let mut first = rows.first();
    for row in rows {
        if first.is_none_or(|first| first.what != row.what) {
            first = Some(row);
        }
        let (what, of) = match row.what {
            millpond_bench::Growth::RandomSmall => ("replacing a small block", "live block"),
            millpond_bench::Growth::RandomMixed => ("replacing a block of any size", "live block"),
            millpond_bench::Growth::Merging => ("freeing with merges", "block"),
            millpond_bench::Growth::EmptyCache => ("emptying the cache, a segment", "segment"),
            millpond_bench::Growth::Snapshot => ("a snapshot, a block", "block"),
            millpond_bench::Growth::Streams => ("a cached pair, streams in turn", "stream"),
        };
        let times = first.map_or(1.0, |first| row.ns / first.ns);
        let population = count(row.population as u64, of, &format!("{of}s"));
        grid.row(&[
            what,
            &population,
            &format!("{:.1}", row.ns),
            &format!("{times:.2}"),
            &format!("{:.1}", row.chase_ns),
        ]);
    }
    let mut text = format!("{}\n{grid}", paint.strong("how costs grow"));
    let walk =
        "The walk goes through as many records of 64 bytes in random order: what memory itself costs on this machine.";
    let _ = write!(text, "\n{}", paragraph(walk, 2));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, instructions: Option<u64>) -> Row {
        Row { case: case.into(), ns: 25.0, yardstick_ns: 10.0, ratio: 2.5, instructions }
    }

    #[test]
    fn json_has_the_fields_that_programs_read() {
        let expected = r#"{"schema":1,"rows":[{"case":"cached_4k","ns":25.0,"yardstick_ns":10.0,"ratio":2.5,"instructions":null}],"growth":[]}"#;
        assert_eq!(json(&[row("cached_4k", None)], &[]), expected);
    }

    #[test]
    fn instructions_have_a_column_only_where_they_were_counted() {
        assert!(!cases(&[row("cached_4k", None)], Paint::OFF).contains("instructions"));
        let text = cases(&[row("cached_4k", Some(242)), row("cached_1m", None)], Paint::OFF);
        assert!(text.contains("instructions") && text.contains("242"), "{text}");
    }

    #[test]
    fn growth_is_against_the_first_of_a_kind() {
        let row = |what, population, ns| GrowthRow { what, population, ns, chase_ns: 4.0 };
        let (small, streams) = (millpond_bench::Growth::RandomSmall, millpond_bench::Growth::Streams);
        let text = growth(&[row(small, 1000, 50.0), row(small, 10_000, 75.0), row(streams, 1, 20.0)], Paint::OFF);
        let line =
            |what: &str| text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}")).to_owned();
        assert!(line("10000 live blocks").contains("1.50"), "{text}");
        assert!(line("1 stream").contains("1.00"), "{text}");
    }
}
