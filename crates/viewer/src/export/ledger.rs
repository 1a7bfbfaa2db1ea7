//! A row for each event: what it was, and the totals after it.

use std::io::{self, Write};

use millpond_snapshot::Stacks;
use serde::Serialize;

use super::figures;
use crate::page::Page;
use crate::timeline::{Event, Timeline, Totals};

#[derive(Serialize)]
pub struct Row<'s> {
    /// Which of the page's timelines, counted from 0.
    pub run: usize,
    pub device: u32,
    pub event: usize,
    /// The request or the entry that it came with.
    pub at: u32,
    pub action: &'static str,
    /// Of an out-of-memory error the bytes free on the device.
    pub address: u64,
    pub size: u64,
    pub stream: u64,
    pub size_class: &'static str,
    pub pool: [u64; 2],
    pub time_us: Option<u64>,
    #[serde(flatten)]
    pub totals: Totals,
    /// The innermost frame.
    pub frame: Option<Frame<'s>>,
}

#[derive(Serialize)]
pub struct Frame<'s> {
    pub name: &'s str,
    pub filename: &'s str,
    pub line: i64,
}

pub fn json_lines(page: &Page<'_>, mut out: impl Write) -> io::Result<()> {
    each_row(page, |row| {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")
    })?;
    out.flush()
}

pub fn csv(page: &Page<'_>, mut out: impl Write) -> io::Result<()> {
    writeln!(
        out,
        "run,device,event,at,action,address,size,stream,size_class,pool_first,pool_second,time_us,allocated,active,requested,\
         reserved,function,file,line"
    )?;
    each_row(page, |row| {
        let Row { run, device, event, at, action, address, size, stream, size_class, pool, time_us, totals, frame } =
            row;
        let time = time_us.map(|time| time.to_string()).unwrap_or_default();
        let Totals { allocated, active, requested, reserved } = totals;
        write!(
            out,
            "{run},{device},{event},{at},{action},{address},{size},{stream},{size_class},{},{},",
            pool[0], pool[1]
        )?;
        write!(out, "{time},{allocated},{active},{requested},{reserved},")?;
        match frame {
            Some(Frame { name, filename, line }) => writeln!(out, "{},{},{line}", quoted(name), quoted(filename)),
            None => writeln!(out, ",,"),
        }
    })?;
    out.flush()
}

/// A text between commas (RFC 4180). One that a spreadsheet would take for a formula is marked as text.
fn quoted(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Calls for each row, run by run, event by event.
pub fn each_row<'s>(page: &Page<'s>, mut write: impl FnMut(Row<'s>) -> io::Result<()>) -> io::Result<()> {
    for (run, panel) in page.panels.iter().enumerate() {
        let timeline = &panel.timeline;
        for (event, (happened, totals)) in timeline.events.iter().zip(timeline.walk()).enumerate() {
            write(row(run, panel.device, event, timeline, happened, totals, page.stacks))?;
        }
    }
    Ok(())
}

fn row<'s>(
    run: usize,
    device: u32,
    number: usize,
    timeline: &Timeline,
    event: &Event,
    totals: Totals,
    stacks: &'s Stacks,
) -> Row<'s> {
    let (address, size) = figures(timeline, event);
    let pool = &timeline.pools[event.pool as usize];
    let frame = stacks.frames(event.stack).next();
    Row {
        run,
        device,
        event: number,
        at: event.at,
        action: event.action.name(),
        address,
        size,
        stream: pool.stream,
        size_class: pool.class,
        pool: [pool.id.0, pool.id.1],
        time_us: timeline.has_times.then_some(event.time_us),
        totals,
        frame: frame.map(|frame| Frame { name: &frame.name, filename: &frame.filename, line: frame.line }),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn texts_stay_in_their_cells() {
        assert_eq!(quoted("forward"), "forward");
        assert_eq!(quoted("std::pair<a, b>"), "\"std::pair<a, b>\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
    }
}
