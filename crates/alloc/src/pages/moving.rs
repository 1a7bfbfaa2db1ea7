//! Carrying a move out: all of it, or nothing.

use millpond_driver::{Handle, Stream};

use super::Place;
use super::giving::Run;
use super::leaving::Guard;
use super::rest::Patience;
use crate::block::BlockId;
use crate::caller::Caller;
use crate::device::Held;
use crate::error::Result;
use crate::ladder::Request;
use crate::segment::Source;

/// The pages of a place, before they are there.
pub(super) struct Supply {
    moved: Vec<Run>,
    new: Vec<Handle>,
}

impl Held<'_> {
    /// Pages for a place: free ones, and new ones for the rest; `None` if there are not enough. Where the device is full and no
    /// page is free, there are no new ones to be had either. Below a limit there may be: what counted against it was a whole
    /// segment (R1.11), and a place may need less.
    pub(super) fn supply(&mut self, request: &Request<'_>, place: &Place, pressing: bool) -> Result<Option<Supply>> {
        let patience = if pressing { Patience::ENDLESS } else { self.patience(place.pages * place.page) };
        let moved = self.choose(request.pool, place, patience)?;
        let missing = place.pages - moved.iter().map(Run::len).sum::<u64>();
        let is_too_much = match self.limit() {
            Some(limit) => self.ladder.total_allocated + missing * place.page > limit,
            None => pressing && moved.is_empty(),
        };
        if is_too_much {
            return Ok(None);
        }
        Ok(self.create_pages(missing, place.page)?.map(|new| Supply { moved, new }))
    }

    /// Moves pages to their place and makes one free block of it, which is in no list. After a failure every page is at home
    /// and both ranges are as before.
    pub(super) fn move_pages(&mut self, request: &Request<'_>, place: &Place, supply: Supply) -> Result<BlockId> {
        let Supply { moved, new } = supply;
        let mut handles: Vec<Handle> = moved.iter().flat_map(|run| self.handles(run)).collect();
        handles.extend(&new);
        let guards = match self.order(&moved, request.key.stream) {
            Ok(guards) => guards,
            Err(error) => {
                self.release_pages(&new);
                return Err(error);
            }
        };
        if let Err(error) = self.map_place(request.pool, place, &handles) {
            self.release_pages(&new);
            self.ladder.leaving.give_up(guards);
            return Err(error);
        }
        self.ladder.rest.note_move(moved.iter().map(Run::len).sum::<u64>() * place.page);
        self.vacate(moved, guards, request.caller);
        let mut rest = handles.as_slice();
        let mut block = place.own.first().copied();
        for &(gap, pages) in &place.gaps {
            let (here, behind) = rest.split_at(pages as usize);
            let merged = self.book_pages(request.pool, gap, here, request.stack.as_ref(), request.caller);
            (rest, block) = (behind, Some(merged));
        }
        let Some(block) = block else { unreachable!("a place has blocks") };
        self.pools[request.pool as usize].remove_free(block);
        Ok(block)
    }

    /// Makes the stream of the request come after what the pages' old streams have queued, and records a guard on each: their
    /// mappings are in use up to there.
    fn order(&mut self, moved: &[Run], to: Stream) -> Result<Vec<Guard>> {
        let mut guards: Vec<Guard> = Vec::new();
        for run in moved {
            if guards.iter().any(|guard| guard.stream == run.stream) {
                continue;
            }
            let outcome = self.record_guard(run.stream).and_then(|guard| {
                let event = guard.event;
                guards.push(guard);
                if run.stream == to { Ok(()) } else { Ok(self.core.driver.stream_wait_event(to, event)?) }
            });
            if let Err(error) = outcome {
                self.ladder.leaving.give_up(guards);
                return Err(error);
            }
        }
        Ok(guards)
    }

    /// Maps the pages of all gaps, or none.
    fn map_place(&mut self, pool: u32, place: &Place, handles: &[Handle]) -> Result<()> {
        let core = self.core;
        if !core.driver.caps(core.device)?.map_beside_kernels {
            core.driver.device_synchronize(core.device)?;
        }
        let mut done: Vec<(u64, u64)> = Vec::new();
        let mut rest = handles;
        for &(gap, pages) in &place.gaps {
            let addr = self.pools[pool as usize].blocks[gap].addr;
            let (here, behind) = rest.split_at(pages as usize);
            if let Err(error) = self.map_pages(addr, place.page, here) {
                for (addr, pages) in done {
                    let _ = core.driver.mem_unmap(addr, pages * place.page);
                }
                return Err(error);
            }
            done.push((addr, pages));
            rest = behind;
        }
        Ok(())
    }

    /// The old homes are given up: their addresses wait for the guards.
    fn vacate(&mut self, mut moved: Vec<Run>, mut guards: Vec<Guard>, caller: &Caller<'_>) {
        // Of one block, from behind: what is before a run keeps the runs that are left.
        moved.sort_by_key(|run| (run.pool, run.block, run.pages.start));
        while let Some(Run { pool, block, pages: range, stream }) = moved.pop() {
            let held = &mut self.pools[pool as usize];
            let index = held.blocks[block].segment;
            let segment = held.segment_at_mut(index);
            let (base, stack) = (segment.base, segment.stack.clone());
            let Source::Expandable(pages) = &mut segment.source else {
                unreachable!("pages are in expandable segments")
            };
            for number in range.clone() {
                pages.depart(number);
            }
            let (start, bytes) = (base + range.start * pages.size, (range.end - range.start) * pages.size);
            if let Some(front) = held.carve(block, start, bytes) {
                let left = moved.iter_mut().rev().take_while(|run| (run.pool, run.block) == (pool, block));
                left.for_each(|run| run.block = front);
            }
            held.blocks[block].mapped = false;
            held.blocks[block].events = 1;
            if let Some(guard) = guards.iter_mut().find(|guard| guard.stream == stream) {
                guard.vacated.push((pool, block));
            }
            self.book_unmapping(pool, (start, bytes), bytes, stack, caller);
        }
        guards.into_iter().for_each(|guard| self.ladder.leaving.push(guard));
    }

    fn handles(&self, run: &Run) -> Vec<Handle> {
        match &self.pools[run.pool as usize].segment(run.block).source {
            Source::Expandable(pages) => run.pages.clone().filter_map(|number| pages.get(number)).collect(),
            _ => unreachable!("pages are in expandable segments"),
        }
    }
}
