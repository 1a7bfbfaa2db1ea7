//! Traces: lists of trace entries, most of which are rows already.

use super::keys::Key;
use super::{Converter, Result, read};
use crate::pickle::arena::{Arena, Kind};
use crate::pickle::word::{Item, Word};
use crate::trace::TraceEntry;

/// A trace that is being made.
pub(super) enum Trace {
    /// Rows of the folder, in order, from the first to before the second.
    Span(usize, usize),
    /// Rows put together one by one.
    Rows(Vec<TraceEntry>),
}

impl Converter<'_> {
    pub(super) fn device_traces(&mut self, word: Word) -> Result<Vec<Trace>> {
        let name = Key::DeviceTraces.as_str();
        let len = read::list(&self.arena, word).map_err(|error| error.within(name))?.len();
        let mut traces = Vec::new();
        for index in 0..len {
            let word = read::list(&self.arena, word)?[index];
            self.charge(size_of::<Trace>())?;
            let trace = self.trace(word);
            traces.push(trace.map_err(|error| error.within(format_args!("{name}[{index}]")))?);
        }
        Ok(traces)
    }

    /// The host's trace: one list, since there is one ring for it (R9.12). A list of lists is
    /// taken as one after the other.
    pub(super) fn host_traces(&mut self, word: Word) -> Result<Vec<Trace>> {
        let name = Key::HostTraces.as_str();
        let list = read::list(&self.arena, word).map_err(|error| error.within(name))?;
        let is_nested = list.first().is_some_and(|&first| read::list(&self.arena, first).is_ok());
        if !is_nested {
            let trace = self.trace(word).map_err(|error| error.within(name))?;
            return Ok(vec![trace]);
        }
        let len = list.len();
        let mut traces = Vec::new();
        for index in 0..len {
            let word = read::list(&self.arena, word)?[index];
            self.charge(size_of::<Trace>())?;
            let trace = self.trace(word);
            traces.push(trace.map_err(|error| error.within(format_args!("{name}[{index}]")))?);
        }
        Ok(traces)
    }

    fn trace(&mut self, word: Word) -> Result<Trace> {
        let list = read::list(&self.arena, word)?;
        if let Some(span) = span(&self.arena, list) {
            return Ok(span);
        }
        let len = list.len();
        let mut trace = Vec::new();
        for index in 0..len {
            self.charge(size_of::<TraceEntry>())?;
            let item = read::list(&self.arena, word)?[index];
            let entry = self.entry(item);
            trace.push(entry.map_err(|error| error.within(format_args!("[{index}]")))?);
        }
        Ok(Trace::Rows(trace))
    }

    fn entry(&mut self, word: Word) -> Result<TraceEntry> {
        if let Item::Node(id) = word.item()
            && let Kind::Row(row) = self.arena.kind(id)
        {
            return Ok(self.folder.rows[row as usize]);
        }
        let items = self.dict_items(word)?;
        self.folder.row(&mut self.arena, &items)
    }

    /// The rows of all traces. To be called when no row is needed for anything else any more:
    /// as long as no two traces share rows, they are cut from the folder's from the end on, and
    /// those of the first device are never copied.
    pub(super) fn cut(&mut self, traces: Vec<Trace>) -> Result<Vec<Vec<TraceEntry>>> {
        let mut spans: Vec<(usize, usize, usize)> = Vec::new();
        let mut cut: Vec<Vec<TraceEntry>> = Vec::new();
        for (index, trace) in traces.into_iter().enumerate() {
            match trace {
                Trace::Span(start, end) => {
                    spans.push((start, end, index));
                    cut.push(Vec::new());
                }
                Trace::Rows(rows) => cut.push(rows),
            }
        }
        spans.sort_unstable();
        let rows = &mut self.folder.rows;
        let are_apart = spans.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        if are_apart {
            for &(start, end, index) in spans.iter().rev() {
                rows.truncate(end);
                cut[index] = match start {
                    0 => std::mem::take(rows),
                    _ => rows.split_off(start),
                };
                cut[index].shrink_to_fit();
            }
            return Ok(cut);
        }
        for (start, end, index) in spans {
            self.charge((end - start) * size_of::<TraceEntry>())?;
            cut[index] = self.folder.rows[start..end].to_vec();
        }
        Ok(cut)
    }
}

/// The rows of a list, if they follow each other.
fn span(arena: &Arena<'_>, list: &[Word]) -> Option<Trace> {
    let row = |word: &Word| match word.item() {
        Item::Node(id) => match arena.kind(id) {
            Kind::Row(row) => Some(row as usize),
            _ => None,
        },
        _ => None,
    };
    let start = row(list.first()?)?;
    let follows = |(index, word)| row(word) == Some(start + index);
    let is_span = list.iter().enumerate().all(follows);
    is_span.then_some(Trace::Span(start, start + list.len()))
}
