//! A pool's own part of a history without stacks: 32 bytes for an allocation, as many for a free.
//!
//! It is written under the pool's lock, which a hit holds anyway. Full sheets go to the [`Journal`], which puts all parts in
//! order when it is asked for the history.

use millpond_driver::Reading;

use crate::caller::Caller;
use crate::device::{Core, Happened, Held};
use crate::event::{Action, Event};
use crate::pool::{Pool, PoolKey};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::trace::Journal;

/// The order of what several writers write, each in a place of its own.
///
/// What one writes while nobody else does is a *run*. Runs are numbered as they begin, and the last number says whose run is
/// still going on: a single writer looks at it and changes nothing.
///
/// If one write happens before another, its run has the lower number, or it is the same run. Say the second writer goes on with
/// its run: then no later run had begun as far as it could see, and it sees all that happened before. The first write is
/// therefore in this run or in an earlier one.
#[derive(Debug)]
pub(crate) struct Runs(AtomicU64);

/// The number of no run, below all others.
pub(crate) const NO_RUN: u64 = 0;

impl Default for Runs {
    fn default() -> Self {
        Runs(AtomicU64::new(NO_RUN + 1))
    }
}

impl Runs {
    /// The run of a writer whose last run was `run`.
    #[inline]
    pub fn of(&self, run: u64) -> u64 {
        if self.is_last(run) { run } else { self.begin() }
    }

    /// Whether nobody has begun another run since.
    #[inline]
    pub fn is_last(&self, run: u64) -> bool {
        self.0.load(Relaxed) == run
    }

    fn begin(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// An allocation, or a free that waited for nothing (two events of one moment); and how often the block went on to and fro in
/// the same microsecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub addr: u64,
    /// Requested bytes.
    pub size: u64,
    pub time_us: u64,
    pub run: u64,
    /// An allocation or a free, then the other one, and so on: so many in all.
    pub moments: u32,
    /// Whether the first one is a free.
    pub free_first: bool,
}

impl Line {
    /// The most moments of one line.
    const MOMENTS: u32 = 1 << 12;

    fn of(moment: Moment, time_us: u64) -> Self {
        let Moment { addr, size, is_free } = moment;
        Line { addr, size, time_us, run: NO_RUN, moments: 1, free_first: is_free }
    }

    /// How many events it stands for.
    pub fn len(&self) -> usize {
        let frees = (self.moments + u32::from(self.free_first)) / 2;
        (self.moments + frees) as usize
    }

    /// The events, of a pool with this key.
    pub fn events(self, key: PoolKey) -> impl Iterator<Item = Event> {
        let Line { addr, size, time_us, .. } = self;
        let actions = (u32::from(self.free_first)..).take(self.moments as usize).flat_map(|moment| match moment % 2 {
            0 => &[Action::Alloc] as &[Action],
            _ => &[Action::FreeRequested, Action::FreeCompleted],
        });
        actions.map(move |&action| Happened::new(action, addr, size, key).at(time_us))
    }
}

/// Lines of one pool, in order.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub key: PoolKey,
    pub lines: Vec<Line>,
}

impl Sheet {
    /// How many lines fill one.
    pub const LINES: usize = 512;

    /// How many events its lines stand for.
    pub fn len(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }
}

/// The sheet that a pool writes.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: Vec<Line>,
    run: u64,
    clock: Reading,
}

impl Log {
    /// One more moment of the block on the last line, in the same microsecond and with nothing in between; false if it needs a
    /// line of its own.
    fn goes_on(&mut self, journal: &Journal, time_us: u64) -> bool {
        let Some(last) = self.lines.last_mut() else { return false };
        let goes_on = last.time_us == time_us && last.moments < Line::MOMENTS && journal.runs.is_last(self.run);
        last.moments += u32::from(goes_on);
        goes_on
    }

    fn write(&mut self, journal: &Journal, key: PoolKey, line: Line) {
        self.run = journal.runs.of(self.run);
        if self.lines.len() == self.lines.capacity() {
            self.turn(journal, key);
        }
        self.lines.push(Line { run: self.run, ..line });
    }

    /// Begins another sheet. Its lines are of another run, so that sheets have an order.
    #[cold]
    fn turn(&mut self, journal: &Journal, key: PoolKey) {
        let lines = std::mem::take(&mut self.lines);
        self.lines = journal.take_in(Sheet { key, lines });
        self.run = journal.runs.of(NO_RUN);
    }

    /// Hands the sheet in, full or not.
    pub fn hand_in(&mut self, journal: &Journal, key: PoolKey) {
        if !self.lines.is_empty() {
            let mut lines = std::mem::take(&mut self.lines);
            lines.shrink_to_fit();
            drop(journal.take_in(Sheet { key, lines }));
            self.run = NO_RUN;
        }
    }
}

/// A moment of a block: its address and the bytes requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub addr: u64,
    pub size: u64,
    pub is_free: bool,
}

impl Core {
    /// Writes the hand-out of a block, or a free that waits for nothing, into its pool's part of the history.
    #[inline(never)]
    pub fn record(&self, pool: &mut Pool, moment: Moment, caller: &Caller<'_>) {
        let Pool { log, key, recent, .. } = pool;
        match log {
            Some(log) if !caller.has_notes() && self.journal.is_plain() => {
                // The last thing that the pool did was the other half of a round of this block, with as many bytes.
                let again = recent.is_round_of(moment.addr);
                let clock = &mut log.clock;
                let time_us = if again { self.driver.now_us_again(clock) } else { clock.alone(self.driver.now_us()) };
                if !(again && log.goes_on(&self.journal, time_us)) {
                    log.write(&self.journal, *key, Line::of(moment, time_us));
                }
            }
            // Other things are wanted since the call began, or the caller has notes. Whoever comes next tells observers.
            _ => {
                let Moment { addr, size, is_free } = moment;
                let happened = |action| Happened::new(action, addr, size, *key);
                if is_free {
                    self.emit_both([happened(Action::FreeRequested), happened(Action::FreeCompleted)], Some(caller));
                } else {
                    self.emit(happened(Action::Alloc), Some(caller));
                }
            }
        }
    }
}

impl Held<'_> {
    /// Changes who wants events and which; pools write what hits do, or do not from now on.
    pub fn rewire(&mut self, change: impl FnOnce(&Journal)) {
        self.gather_logs();
        change(&self.core.journal);
        let is_on = self.core.journal.is_on();
        self.pools.iter_mut().for_each(|pool| pool.log = is_on.then(Log::default));
        self.set_gates();
    }

    /// The history, oldest event first.
    pub fn history(&mut self) -> Vec<Event> {
        self.gather_logs();
        self.core.journal.export()
    }

    /// Takes the history out, oldest event first.
    pub fn take_history(&mut self) -> Vec<Event> {
        self.gather_logs();
        self.core.journal.take()
    }

    /// All pools hand in what they wrote.
    fn gather_logs(&mut self) {
        let journal = &self.core.journal;
        for pool in &mut self.pools {
            let key = pool.key;
            pool.log.iter_mut().for_each(|log| log.hand_in(journal, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::PoolId;
    use crate::size::SizeClass;
    use millpond_driver::{Device, Stream};

    #[test]
    fn a_line_stands_for_all_its_moments() {
        let key = PoolKey { memory_pool: PoolId(0, 2), class: SizeClass::Small, stream: Stream::new(Device(1), 9) };
        use Action::{Alloc, FreeCompleted, FreeRequested};
        for (free_first, moments, actions) in [
            (false, 1, &[Alloc] as &[_]),
            (true, 1, &[FreeRequested, FreeCompleted]),
            (false, 4, &[Alloc, FreeRequested, FreeCompleted, Alloc, FreeRequested, FreeCompleted]),
            (true, 3, &[FreeRequested, FreeCompleted, Alloc, FreeRequested, FreeCompleted]),
        ] {
            let line = Line { addr: 512, size: 7, time_us: 3, run: 1, moments, free_first };
            assert_eq!(line.len(), actions.len());
            let events: Vec<Event> = line.events(key).collect();
            assert_eq!(events.iter().map(|event| event.action).collect::<Vec<_>>(), actions);
            for event in events {
                assert_eq!((event.addr, event.size, event.time_us), (512, 7, 3));
                assert_eq!((event.stream, event.pool), (key.stream, key.memory_pool));
            }
        }
    }
}
