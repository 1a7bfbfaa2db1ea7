//! Old mappings of pages that have moved: they go when the stream that used them last has passed.
//!
//! A vacated range is a block without memory that is not idle: nothing merges with it and nothing is placed there. Once it is
//! unmapped it is like any unmapped addresses. The page itself lives on at its new home, so nothing is released here.

use std::collections::VecDeque;

use millpond_driver::{Event as DriverEvent, Stream};

use crate::block::BlockId;
use crate::device::Held;
use crate::error::Result;

/// Vacated ranges, oldest first, by the guards that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    guards: VecDeque<Guard>,
    /// Guards not in use.
    spare: Vec<DriverEvent>,
}

/// An event of the allocator's own, behind everything that a stream had queued when pages of its left.
#[derive(Debug)]
pub(super) struct Guard {
    pub event: DriverEvent,
    pub stream: Stream,
    /// What waits for it: pool and block.
    pub vacated: Vec<(u32, BlockId)>,
}

impl Leaving {
    /// Whether no old mapping is left.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// The blocks that wait, one by one.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, BlockId)> + '_ {
        self.guards.iter().flat_map(|guard| guard.vacated.iter().copied())
    }

    /// The guards that are not in use: the allocator goes.
    pub fn take_spare(&mut self) -> Vec<DriverEvent> {
        std::mem::take(&mut self.spare)
    }

    pub(super) fn push(&mut self, guard: Guard) {
        self.guards.push_back(guard);
    }

    pub(super) fn give_up(&mut self, guards: Vec<Guard>) {
        self.spare.extend(guards.into_iter().map(|guard| guard.event));
    }
}

impl Held<'_> {
    /// Records a guard behind what `stream` has queued.
    pub(super) fn record_guard(&mut self, stream: Stream) -> Result<Guard> {
        let event = match self.ladder.leaving.spare.pop() {
            Some(event) => event,
            None => self.core.driver.guard_create(stream.device)?,
        };
        if let Err(error) = self.core.driver.event_record(event, stream) {
            self.ladder.leaving.spare.push(event);
            return Err(error.into());
        }
        Ok(Guard { event, stream, vacated: Vec::new() })
    }

    /// Unmaps what has been passed: of each stream, up to the first guard that has not.
    pub fn unmap_passed(&mut self) -> Result<()> {
        let mut busy: Vec<Stream> = Vec::new();
        let mut index = 0;
        while let Some(guard) = self.ladder.leaving.guards.get(index) {
            if busy.contains(&guard.stream) {
                index += 1;
            } else if self.core.driver.event_query(guard.event)? {
                self.unmap_behind(index)?;
            } else {
                busy.push(guard.stream);
                index += 1;
            }
        }
        Ok(())
    }

    /// Waits for every guard and unmaps everything.
    pub fn unmap_all(&mut self) -> Result<()> {
        while let Some(guard) = self.ladder.leaving.guards.front() {
            self.core.driver.event_synchronize(guard.event)?;
            self.unmap_behind(0)?;
        }
        Ok(())
    }

    /// Gives up the segments of a pool that pages have left and in which nothing is mapped any more.
    pub fn give_up_left(&mut self, pool: u32) -> Result<()> {
        let held = &self.pools[pool as usize];
        let is_left = |&block: &BlockId| !held.blocks[block].is_split() && held.segment(block).has_been_left();
        let left: Vec<BlockId> = held.unmapped.values().copied().filter(is_left).collect();
        left.into_iter().try_for_each(|block| self.give_up_segment(pool, block))
    }

    /// Unmaps what waited for a guard that has completed. What cannot be unmapped goes on waiting.
    fn unmap_behind(&mut self, index: usize) -> Result<()> {
        while let Some(&(pool, block)) = self.ladder.leaving.guards[index].vacated.last() {
            let held = &mut self.pools[pool as usize];
            let (addr, size) = (held.blocks[block].addr, held.blocks[block].size);
            self.core.driver.mem_unmap(addr, size)?;
            self.ladder.leaving.guards[index].vacated.pop();
            held.blocks[block].events = 0;
            // A segment that has lost all pages stays for those that come back; it goes when the cache is emptied.
            let _ = held.join_unmapped(block);
        }
        if let Some(guard) = self.ladder.leaving.guards.remove(index) {
            self.ladder.leaving.spare.push(guard.event);
        }
        Ok(())
    }
}
