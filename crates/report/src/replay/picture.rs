//! Pictures of segments, laid out in lines.

use millpond_replay::Picture;

use crate::Paint;
use crate::words::WIDTH;

/// What the marks mean.
pub const LEGEND: &str = "A live, . free, ~ waits for an event, _ reserved and not mapped; | between segments";

/// A row for each pool under its name. A line ends between two segments.
pub fn lines(picture: &Picture, paint: Paint) -> String {
    let mut text = String::new();
    for row in &picture.rows {
        let mut name = format!("{}, {}", row.stream, row.class);
        if row.pool.is_private() {
            name.push_str(&format!(", pool {}", row.pool));
        }
        text.push_str(&format!("  {}\n", paint.strong(&name)));
        let mut line = String::new();
        for segment in row.to_string().split(" | ") {
            if !line.is_empty() && 4 + line.chars().count() + 3 + segment.chars().count() > WIDTH {
                text.push_str(&format!("    {line} |\n"));
                line.clear();
            }
            line.push_str(if line.is_empty() { "" } else { " | " });
            line.push_str(segment);
        }
        text.push_str(&format!("    {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::{BlockUse, PoolId};
    use millpond_driver::{Bytes, Device, Stream};
    use millpond_replay::{Cell, Row};

    #[test]
    fn lines_end_between_segments() {
        let cell = |state, mib: u64| Cell { state, bytes: Bytes(mib << 20), blocks: 1 };
        let segment = vec![cell(BlockUse::Live, 16), cell(BlockUse::Free, 4)];
        let row = Row {
            stream: Stream::default_of(Device(0)),
            class: "large",
            pool: PoolId::DEFAULT,
            segments: vec![segment; 10],
        };
        let text = lines(&Picture { rows: vec![row] }, Paint::OFF);
        let mut of_text = text.lines();
        assert_eq!(of_text.next(), Some("  the default stream, large"));
        assert!(of_text.next().is_some_and(|line| line.starts_with("    [A 16M][. 4M] | ") && line.ends_with("] |")));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 2), "{text}");
        assert_eq!(text.matches("[A 16M][. 4M]").count(), 10);
    }
}
