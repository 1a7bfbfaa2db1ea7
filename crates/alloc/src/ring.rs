//! The newest events of a history, put in order from where they were written.

use std::collections::VecDeque;
use std::sync::Arc;

use millpond_driver::{Device, Stream};

use crate::caller::Stack;
use crate::event::{Action, Event};
use crate::log::{Line, NO_RUN, Sheet};
use crate::private::PoolId;

/// The newest events of a history (R9.12): entries, and sheets that pools have handed in.
///
/// Both keep enough for the newest `capacity` events of all, and some more; [`Ring::export`] counts.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    capacity: usize,
    /// In order of runs.
    entries: VecDeque<Entry>,
    sheets: Vec<Sheet>,
    /// Events on the sheets.
    on_sheets: usize,
    /// Empty sheets to be written again.
    spare: Vec<Vec<Line>>,
    /// Events that came in since the last change of the capacity, with those kept then.
    written: u64,
    /// How many had been overwritten before.
    lost: u64,
}

/// An event as it is kept.
#[derive(Clone, Debug)]
struct Entry {
    addr: u64,
    size: u64,
    stream: u64,
    time_us: u64,
    pool: PoolId,
    run: u64,
    /// What few events have when no stacks are kept.
    more: Option<Box<More>>,
    device: Device,
    action: Action,
}

#[derive(Clone, Debug)]
struct More {
    stack: Option<Stack>,
    metadata: Option<Arc<str>>,
    compile_context: Option<Arc<str>>,
    internal: Option<&'static str>,
}

impl Entry {
    #[inline]
    fn of(event: Event, run: u64) -> Self {
        let Event { action, addr, size, stream, time_us, pool, stack, metadata, compile_context, internal } = event;
        let Stream { device, raw } = stream;
        let is_plain = stack.is_none() && metadata.is_none() && compile_context.is_none() && internal.is_none();
        let more = (!is_plain).then(|| Box::new(More { stack, metadata, compile_context, internal }));
        Entry { addr, size, stream: raw, time_us, pool, run, more, device, action }
    }

    fn event(self) -> Event {
        let Entry { addr, size, stream, time_us, pool, run: _, more, device, action } = self;
        let more =
            more.map_or(More { stack: None, metadata: None, compile_context: None, internal: None }, |more| *more);
        let More { stack, metadata, compile_context, internal } = more;
        let stream = Stream::new(device, stream);
        Event { action, addr, size, stream, time_us, pool, stack, metadata, compile_context, internal }
    }
}

/// What one writer wrote in one run.
enum Run<'a> {
    Entry(&'a Entry),
    Lines(&'a Sheet, &'a [Line]),
}

impl Run<'_> {
    /// Its events, without the first `skip`, which is lowered by what there is to skip.
    fn events(&self, skip: &mut usize) -> Vec<Event> {
        let mut events = Vec::new();
        match self {
            Run::Entry(_) if *skip > 0 => *skip -= 1,
            Run::Entry(entry) => events.push((*entry).clone().event()),
            Run::Lines(sheet, lines) => {
                for line in *lines {
                    let skipped = line.len().min(*skip);
                    *skip -= skipped;
                    events.extend(line.events(sheet.key).skip(skipped));
                }
            }
        }
        events
    }
}

impl Ring {
    /// Adds an event; of as many entries as there may be events the oldest one makes room.
    #[inline]
    pub fn push(&mut self, event: Event, run: u64) {
        if self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry::of(event, run));
        self.written += 1;
    }

    /// Takes a sheet in. Returns an empty one.
    pub fn take_in(&mut self, sheet: Sheet) -> Vec<Line> {
        let events = sheet.len();
        if events > 0 {
            self.written += events as u64;
            self.on_sheets += events;
            self.sheets.push(sheet);
            if self.on_sheets > self.capacity.saturating_add(self.capacity / 4 + 8 * Sheet::LINES) {
                self.drop_old_sheets();
            }
        }
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(Sheet::LINES))
    }

    /// Drops sheets that end before as many events as are kept begin.
    #[cold]
    fn drop_old_sheets(&mut self) {
        let ends =
            |sheet: &Sheet| [sheet.lines.first(), sheet.lines.last()].map(|line| line.map_or(NO_RUN, |line| line.run));
        let first = |sheet: &Sheet| ends(sheet)[0];
        self.sheets.sort_by_key(first);
        let firsts: Vec<u64> = self.sheets.iter().map(first).collect();
        // Events of each sheet and of those that begin after it.
        let mut since: Vec<usize> = self.sheets.iter().map(Sheet::len).chain([0]).collect();
        (0..firsts.len()).rev().for_each(|at| since[at] += since[at + 1]);
        let (capacity, spare, dropped) = (self.capacity, &mut self.spare, &mut 0);
        self.sheets.retain_mut(|sheet| {
            let after = firsts.partition_point(|&begin| begin <= ends(sheet)[1]);
            let stays = since[after] < capacity;
            if !stays {
                *dropped += sheet.len();
                let mut lines = std::mem::take(&mut sheet.lines);
                lines.clear();
                if lines.capacity() >= Sheet::LINES {
                    spare.push(lines);
                }
            }
            stays
        });
        self.on_sheets -= *dropped;
    }

    pub fn clear(&mut self) {
        *self = Ring { capacity: self.capacity, ..Ring::default() };
    }

    /// Keeps the newest events only, so many from now on.
    pub fn keep(&mut self, capacity: usize) {
        let (kept, lost) = self.export();
        *self = Ring { capacity, lost, ..Ring::default() };
        let surplus = kept.len().saturating_sub(capacity);
        kept.into_iter().skip(surplus).for_each(|event| self.push(event, NO_RUN));
    }

    /// The events, oldest first, and how many were overwritten.
    pub fn export(&self) -> (Vec<Event>, u64) {
        let mut runs: Vec<(u64, Run<'_>)> = self.entries.iter().map(|entry| (entry.run, Run::Entry(entry))).collect();
        for sheet in &self.sheets {
            let of_one_run = sheet.lines.chunk_by(|line, next| line.run == next.run);
            runs.extend(of_one_run.map(|lines| (lines[0].run, Run::Lines(sheet, lines))));
        }
        // Entries of one run stay in their order.
        runs.sort_by_key(|(run, _)| *run);
        let there = self.entries.len() + self.on_sheets;
        let kept = there.min(self.capacity);
        let mut events = Vec::with_capacity(kept);
        let mut skip = there - kept;
        // Moments that share a reading of the clock have an earlier one.
        let mut latest = 0;
        for mut event in runs.iter().flat_map(|(_, run)| run.events(&mut skip)) {
            latest = event.time_us.max(latest);
            event.time_us = latest;
            events.push(event);
        }
        (events, self.lost + self.written - kept as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolKey;
    use crate::size::SizeClass;

    const CAPACITY: usize = 5;

    fn ring() -> Ring {
        Ring { capacity: CAPACITY, ..Ring::default() }
    }

    fn event(addr: u64) -> Event {
        let internal = (addr == 3).then_some("three");
        Event {
            action: Action::Alloc,
            addr,
            size: 512,
            stream: Stream::new(Device(1), 7),
            time_us: addr,
            pool: PoolId(0, 2),
            stack: None,
            metadata: None,
            compile_context: None,
            internal,
        }
    }

    fn alloc(addr: u64, run: u64) -> Line {
        Line { addr, size: 512, time_us: addr, run, moments: 1, free_first: false }
    }

    fn free(addr: u64, run: u64) -> Line {
        Line { free_first: true, ..alloc(addr, run) }
    }

    fn sheet(lines: impl IntoIterator<Item = Line>) -> Sheet {
        let key = PoolKey { memory_pool: PoolId(0, 2), class: SizeClass::Small, stream: Stream::new(Device(1), 9) };
        Sheet { key, lines: lines.into_iter().collect() }
    }

    fn kept(ring: &Ring) -> (Vec<u64>, u64) {
        let (events, lost) = ring.export();
        (events.iter().map(|event| event.addr).collect(), lost)
    }

    #[test]
    fn r9_12_the_newest_stay_in_order() {
        let mut ring = ring();
        (0..3).for_each(|addr| ring.push(event(addr), 1));
        assert_eq!(kept(&ring), (vec![0, 1, 2], 0));
        (3..12).for_each(|addr| ring.push(event(addr), 1));
        assert_eq!(kept(&ring), (vec![7, 8, 9, 10, 11], 7));
        ring.keep(3);
        assert_eq!(kept(&ring), (vec![9, 10, 11], 7));
        ring.push(event(12), 1);
        assert_eq!(kept(&ring), (vec![10, 11, 12], 8));
        ring.keep(10);
        ring.push(event(13), 1);
        assert_eq!(kept(&ring), (vec![10, 11, 12, 13], 8), "what was overwritten does not come back");
        ring.clear();
        assert_eq!(kept(&ring), (vec![], 0));
    }

    #[test]
    fn an_event_comes_back_whole() {
        let mut ring = ring();
        (2..4).for_each(|addr| ring.push(event(addr), 1));
        for (back, addr) in ring.export().0.into_iter().zip(2..) {
            assert_eq!(format!("{back:?}"), format!("{:?}", event(addr)));
        }
    }

    #[test]
    fn r9_12_sheets_and_entries_are_one_history_in_the_order_of_runs() {
        let mut ring = Ring { capacity: 100, ..Ring::default() };
        ring.push(event(1), 1);
        ring.push(event(4), 3);
        ring.take_in(sheet([alloc(2, 2), free(3, 2), alloc(5, 4)]));
        ring.take_in(sheet([alloc(6, 5)]));
        assert_eq!(kept(&ring), (vec![1, 2, 3, 3, 4, 5, 6], 0));
        // Half a line is as good as a whole one.
        for (capacity, newest) in [(5, vec![3, 3, 4, 5, 6]), (4, vec![3, 4, 5, 6]), (1, vec![6])] {
            ring.capacity = capacity;
            assert_eq!(kept(&ring), (newest, 7 - capacity as u64));
        }
    }

    /// Sheets of several pools come in late and out of order, and many more of them than are kept.
    #[test]
    fn r9_12_the_newest_of_all_pools_stay_however_late_their_sheets_come() {
        for capacity in [1, 700, 20_000] {
            let mut ring = Ring { capacity, ..Ring::default() };
            // Pool n writes every (n + 1)-th event or so: some fill a sheet while others write a line.
            let mut open = vec![Vec::new(); 6];
            let mut all = Vec::new();
            for run in 1..60_000_u64 {
                let pool = (run.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).trailing_zeros().min(5) as usize;
                open[pool].push(alloc(run, run));
                all.push(run);
                if open[pool].len() == Sheet::LINES {
                    ring.take_in(sheet(std::mem::take(&mut open[pool])));
                }
            }
            open.into_iter().for_each(|lines| drop(ring.take_in(sheet(lines))));
            let lost = all.len() - capacity;
            assert_eq!(kept(&ring), (all[lost..].to_vec(), lost as u64));
            assert!(ring.on_sheets < 2 * capacity + 20_000, "{} events are held", ring.on_sheets);
        }
    }
}
