//! Trace events in JSON, as ui.perfetto.dev and chrome://tracing read them.
//!
//! A timeline is a process: counters for the totals, and for each segment and each block a slice as long as its life. Where
//! nobody wrote times down, an event takes a microsecond.

use std::io::{self, Write};

use millpond::Action;
use millpond_snapshot::Frame;
use serde::Serialize;
use serde_json::{Value, json};

use crate::page::{Kind, Page, Panel};
use crate::timeline::{Life, NEVER, Timeline};

/// An id within its process.
#[derive(Clone, Copy, Serialize)]
struct Local<'t> {
    local: &'t str,
}

#[derive(Serialize)]
struct TraceEvent<'t> {
    name: &'t str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'t str,
    ph: &'t str,
    ts: u64,
    pid: usize,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id2: Option<Local<'t>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'t str>,
    args: Value,
}

pub fn write(page: &Page<'_>, out: impl Write) -> io::Result<()> {
    let mut writer = Writer { out, is_first: true };
    writer.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    for (index, panel) in page.panels.iter().enumerate() {
        panel_events(&mut writer, page, index + 1, panel)?;
    }
    writer.out.write_all(b"\n]}\n")?;
    writer.out.flush()
}

struct Writer<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> Writer<W> {
    fn event(&mut self, event: &TraceEvent<'_>) -> io::Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        serde_json::to_writer(&mut self.out, event)?;
        Ok(())
    }
}

fn panel_events<W: Write>(writer: &mut Writer<W>, page: &Page<'_>, pid: usize, panel: &Panel) -> io::Result<()> {
    let timeline = &panel.timeline;
    let clock = Clock::of(timeline);
    let kind = if panel.kind == Kind::Recording { "as recorded" } else { "replay" };
    let conf = if panel.conf.is_empty() { "default settings" } else { &panel.conf };
    let plain = TraceEvent { name: "", cat: "", ph: "M", ts: 0, pid, tid: 0, id2: None, s: None, args: Value::Null };
    let name = json!({ "name": format!("GPU {}, {kind}, {conf}", panel.device) });
    writer.event(&TraceEvent { name: "process_name", args: name, ..plain })?;

    for (cursor, totals) in std::iter::once(timeline.start_totals()).chain(timeline.walk()).enumerate() {
        let args = json!({ "allocated": totals.allocated, "waiting": totals.active.saturating_sub(totals.allocated) });
        let ts = clock.at(cursor as u32);
        writer.event(&TraceEvent { name: "in use", ph: "C", ts, args, ..plain })?;
        writer.event(&TraceEvent {
            name: "reserved",
            ph: "C",
            ts,
            args: json!({ "bytes": totals.reserved }),
            ..plain
        })?;
    }
    for (index, event) in timeline.events.iter().enumerate() {
        let is_mark = matches!(event.action, Action::Oom | Action::Retry | Action::Synchronised | Action::Rejected);
        if is_mark {
            let (addr, size) = super::figures(timeline, event);
            let args = json!({ "at": event.at, "bytes": size, "device_free": addr });
            let ts = clock.at(index as u32 + 1);
            writer.event(&TraceEvent { name: event.action.name(), ph: "i", ts, s: Some("p"), args, ..plain })?;
        }
    }
    for (index, segment) in timeline.segments.iter().enumerate() {
        let args = json!({ "address": format!("{:#x}", segment.base), "bytes": segment.size, "expandable": segment.expandable });
        let id = format!("segment {index}");
        life(writer, &clock, "segments", "segment", &id, segment.life, args, &plain)?;
    }
    for (index, block) in timeline.blocks.iter().enumerate() {
        let frames: Vec<String> = page.stacks.frames(block.stack).map(shown).collect();
        let name = page.stacks.frames(block.stack).next().map_or("block", |frame| &frame.name);
        let args = json!({
            "address": format!("{:#x}", block.addr), "bytes": block.size, "requested": block.requested, "stack": frames,
        });
        life(writer, &clock, "blocks", name, &format!("block {index}"), block.life, args, &plain)?;
    }
    Ok(())
}

fn shown(frame: &Frame) -> String {
    format!("{} {}:{}", frame.name, frame.filename, frame.line)
}

/// A slice as long as a life.
#[expect(clippy::too_many_arguments, reason = "one call a kind of thing")]
fn life<W: Write>(
    writer: &mut Writer<W>,
    clock: &Clock<'_>,
    cat: &str,
    name: &str,
    id: &str,
    life: Life,
    args: Value,
    plain: &TraceEvent<'_>,
) -> io::Result<()> {
    let TraceEvent { pid, tid, s, .. } = *plain;
    let id2 = Some(Local { local: id });
    let begin = TraceEvent { name, cat, ph: "b", ts: clock.at(life.born), pid, tid, id2, s, args };
    writer.event(&begin)?;
    let ts = clock.at(if life.died == NEVER { clock.end() } else { life.died });
    writer.event(&TraceEvent { ph: "e", ts, args: json!({}), ..begin })
}

/// Microseconds by cursor.
struct Clock<'t>(&'t Timeline);

impl<'t> Clock<'t> {
    fn of(timeline: &'t Timeline) -> Self {
        Clock(timeline)
    }

    fn end(&self) -> u32 {
        self.0.end()
    }

    fn at(&self, cursor: u32) -> u64 {
        let events = &self.0.events;
        let first = events.first().map_or(0, |event| event.time_us);
        match (self.0.has_times, (cursor as usize).checked_sub(1).and_then(|event| events.get(event))) {
            (false, _) => u64::from(cursor),
            (true, Some(event)) => event.time_us.saturating_sub(first),
            (true, None) => 0,
        }
    }
}
