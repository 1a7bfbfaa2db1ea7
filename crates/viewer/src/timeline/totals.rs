//! The sums over what is there, event by event.

use serde::Serialize;

use millpond::Action;

use super::{Block, NEVER, Subject, Timeline};

/// What is there at a moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// In live blocks.
    pub allocated: u64,
    /// In blocks that are live or wait for events.
    pub active: u64,
    /// Asked for by callers, of the active blocks.
    pub requested: u64,
    /// Held from the driver.
    pub reserved: u64,
}

/// The totals after each event, in order.
#[derive(Clone, Debug)]
pub struct Walk<'t> {
    timeline: &'t Timeline,
    totals: Totals,
    cursor: u32,
    /// How many of the timeline's held ranges were born.
    held: usize,
    /// Indices of held ranges by death.
    deaths: std::iter::Peekable<std::vec::IntoIter<u32>>,
}

impl Timeline {
    /// What is there before the first event.
    pub fn start_totals(&self) -> Totals {
        let mut totals = Totals::default();
        for block in self.blocks.iter().take_while(|block| block.life.born == 0) {
            totals.begin(block);
            if block.freed == 0 {
                totals.allocated = totals.allocated.saturating_sub(block.size);
            }
        }
        for held in self.held.iter().take_while(|held| held.life.born == 0) {
            totals.reserved = totals.reserved.saturating_add(held.size);
        }
        totals
    }

    /// The totals after each event.
    pub fn walk(&self) -> Walk<'_> {
        let mut deaths: Vec<u32> =
            (0..self.held.len() as u32).filter(|&held| self.held[held as usize].life.died != NEVER).collect();
        deaths.sort_by_key(|&held| self.held[held as usize].life.died);
        Walk {
            timeline: self,
            totals: self.start_totals(),
            cursor: 0,
            held: self.held.partition_point(|held| held.life.born == 0),
            deaths: deaths.into_iter().peekable(),
        }
    }
}

impl Totals {
    fn begin(&mut self, block: &Block) {
        self.allocated = self.allocated.saturating_add(block.size);
        self.active = self.active.saturating_add(block.size);
        self.requested = self.requested.saturating_add(block.requested);
    }

    fn end(&mut self, block: &Block) {
        self.active = self.active.saturating_sub(block.size);
        self.requested = self.requested.saturating_sub(block.requested);
    }
}

impl Iterator for Walk<'_> {
    type Item = Totals;

    fn next(&mut self) -> Option<Totals> {
        let timeline = self.timeline;
        let event = timeline.events.get(self.cursor as usize)?;
        self.cursor += 1;
        if let Subject::Block(index) = event.subject {
            let block = &timeline.blocks[index as usize];
            if event.action == Action::Alloc {
                self.totals.begin(block);
            }
            if block.freed == self.cursor {
                self.totals.allocated = self.totals.allocated.saturating_sub(block.size);
            }
            if block.life.died == self.cursor {
                self.totals.end(block);
            }
        }
        while let Some(held) = timeline.held.get(self.held).filter(|held| held.life.born == self.cursor) {
            self.totals.reserved = self.totals.reserved.saturating_add(held.size);
            self.held += 1;
        }
        while let Some(dead) = self.deaths.next_if(|&dead| timeline.held[dead as usize].life.died == self.cursor) {
            self.totals.reserved = self.totals.reserved.saturating_sub(timeline.held[dead as usize].size);
        }
        Some(self.totals)
    }
}
