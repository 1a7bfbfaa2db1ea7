//! Blocks that wait: recorded streams, events, deferred frees (section 3 of the law).

use std::collections::VecDeque;

use millpond_driver::{Event as DriverEvent, Node, Stream};

use crate::block::BlockId;
use crate::caller::Caller;
use crate::device::{Happened, Held};
use crate::error::Result;
use crate::event::Action;
use crate::order::{NamedStream, TorchSet};
use crate::pool::Uses;
use crate::private::PoolId;

/// Events of one stream in the order of recording, each with the block that waits for it.
pub(crate) type Queue = VecDeque<Waiting>;

/// A block that waits for an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub event: DriverEvent,
    pub pool: u32,
    pub block: BlockId,
}

/// A block freed in a capture while other streams use it (R5.29).
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub pool: u32,
    pub block: BlockId,
    /// The nodes after which the block is free; none: it waits for the end of the capture.
    pub markers: Vec<Node>,
}

impl Held<'_> {
    /// Records that another stream uses a live block (R3.7).
    pub fn record_stream(&mut self, pool: u32, block: BlockId, stream: Stream, in_capture: bool) {
        let pool = &mut self.pools[pool as usize];
        if stream == pool.key.stream {
            return;
        }
        let named = self.core.world.named(stream);
        let uses = pool.uses.entry(block).or_default();
        uses.streams.insert(named);
        if in_capture && !uses.in_capture.contains(&named) {
            uses.in_capture.push(named);
        }
        pool.blocks[block].used = true;
    }

    /// After a failure: a retired block that nothing waits for yet waits with the deferred frees, so that it is not lost.
    pub fn keep_waiting(&mut self, pool: u32, block: BlockId) {
        let waits = self.ladder.deferred.iter().any(|deferred| deferred.pool == pool && deferred.block == block);
        if !waits && self.pools[pool as usize].blocks[block].used {
            self.ladder.deferred.push(Deferred { pool, block, markers: Vec::new() });
            self.set_gates();
        }
    }

    /// Takes the recorded streams off a block.
    pub fn take_uses(&mut self, pool: u32, block: BlockId) -> Uses {
        let pool = &mut self.pools[pool as usize];
        pool.blocks[block].used = false;
        pool.uses.remove(&block).unwrap_or_default()
    }

    /// Returns a block that waits for nothing to its pool (R3.9).
    pub fn complete_free(&mut self, pool: u32, block: BlockId, caller: Option<&Caller<'_>>) {
        let held = &mut self.pools[pool as usize];
        let freed = &held.blocks[block];
        let happened = Happened::new(Action::FreeCompleted, freed.addr, freed.requested, held.key);
        let stack = self.call.clone().or_else(|| held.stacks.get(&block).cloned());
        self.core.emit(happened.with(stack), caller);
        self.pools[pool as usize].complete_free(block);
        self.settle(pool);
    }

    /// Records an event on each stream of the set; the block is free when all have completed (R3.8).
    fn insert_events(&mut self, pool: u32, block: BlockId, streams: &TorchSet<NamedStream>) -> Result<()> {
        let streams: Vec<NamedStream> = streams.keys().collect();
        for (done, &stream) in streams.iter().enumerate() {
            if let Err(error) = self.insert_event(pool, block, stream) {
                // What could not be recorded now is tried again with the deferred frees: no block is lost.
                for named in &streams[done..] {
                    self.record_stream(pool, block, named.stream, false);
                }
                self.ladder.deferred.push(Deferred { pool, block, markers: Vec::new() });
                self.set_gates();
                return Err(error);
            }
        }
        self.set_gates();
        Ok(())
    }

    fn insert_event(&mut self, pool: u32, block: BlockId, on: NamedStream) -> Result<()> {
        let event = match self.ladder.spare_events.pop() {
            Some(event) => event,
            None => self.core.driver.event_create(on.stream.device)?,
        };
        if let Err(error) = self.core.driver.event_record(event, on.stream) {
            self.ladder.spare_events.push(event);
            return Err(error.into());
        }
        self.pools[pool as usize].blocks[block].events += 1;
        self.ladder.queues.entry(on, Queue::new).push_back(Waiting { event, pool, block });
        Ok(())
    }

    /// Frees a block with recorded streams: now if none is left, else when their work so far is done.
    pub fn free_after(
        &mut self,
        pool: u32,
        block: BlockId,
        streams: &TorchSet<NamedStream>,
        caller: Option<&Caller<'_>>,
    ) -> Result<()> {
        self.insert_events(pool, block, streams)?;
        if self.pools[pool as usize].blocks[block].is_idle() {
            self.complete_free(pool, block, caller);
        }
        Ok(())
    }

    /// One of a block's events has completed.
    fn event_done(&mut self, waiting: Waiting, caller: Option<&Caller<'_>>) {
        self.ladder.spare_events.push(waiting.event);
        let block = &mut self.pools[waiting.pool as usize].blocks[waiting.block];
        block.events -= 1;
        if block.is_idle() {
            self.complete_free(waiting.pool, waiting.block, caller);
        }
    }

    /// Frees what has completed: per stream in order, up to the first event that has not (R3.13).
    pub fn process_events(&mut self, caller: Option<&Caller<'_>>) -> Result<()> {
        self.free_deferred(caller)?;
        let mut from = 0;
        while let Some(place) = self.ladder.queues.next_place(from) {
            while let Some((_, queue)) = self.ladder.queues.at(place) {
                let Some(&waiting) = queue.front() else {
                    // The next queue may move to this very place.
                    self.ladder.queues.remove_at(place);
                    from = place;
                    break;
                };
                if !self.core.driver.event_query(waiting.event)? {
                    from = place + 1;
                    break;
                }
                queue.pop_front();
                self.event_done(waiting, caller);
            }
        }
        self.set_gates();
        Ok(())
    }

    /// Waits for every event, or for those of one memory pool's blocks, and frees what waited (R2.31, R2.33).
    pub fn synchronise_and_free(&mut self, only: Option<PoolId>, caller: Option<&Caller<'_>>) -> Result<()> {
        self.ladder.counts.syncs += 1;
        self.free_deferred(caller)?;
        let mut from = 0;
        while let Some(place) = self.ladder.queues.next_place(from) {
            from = place + 1;
            let mut left = Queue::new();
            while let Some(waiting) = self.ladder.queues.at(place).and_then(|(_, queue)| queue.pop_front()) {
                if only.is_some_and(|id| self.pools[waiting.pool as usize].key.memory_pool != id) {
                    left.push_back(waiting);
                    continue;
                }
                if let Err(error) = self.core.driver.event_synchronize(waiting.event) {
                    // Nothing is lost: the block goes on waiting.
                    if let Some((_, queue)) = self.ladder.queues.at(place) {
                        queue.push_front(waiting);
                        left.into_iter().rev().for_each(|waiting| queue.push_front(waiting));
                    }
                    return Err(error.into());
                }
                self.event_done(waiting, caller);
            }
            if let Some((_, queue)) = self.ladder.queues.at(place) {
                *queue = left;
            }
        }
        if only.is_none() {
            self.ladder.queues.clear();
        } else {
            let mut from = 0;
            while let Some(place) = self.ladder.queues.next_place(from) {
                let empty = self.ladder.queues.at(place).is_some_and(|(_, queue)| queue.is_empty());
                from = if empty {
                    self.ladder.queues.remove_at(place);
                    place
                } else {
                    place + 1
                };
            }
        }
        self.set_gates();
        Ok(())
    }

    /// No capture is in the way any more: deferred blocks wait for the streams recorded outside of one (R5.37).
    pub fn free_deferred(&mut self, caller: Option<&Caller<'_>>) -> Result<()> {
        let mut deferred = std::mem::take(&mut self.ladder.deferred).into_iter();
        while let Some(next) = deferred.next() {
            if let Err(error) = self.free_deferred_block(next.pool, next.block, caller) {
                self.ladder.deferred.extend(deferred);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Drops the streams recorded in a capture from a deferred block; it waits for the rest.
    pub fn free_deferred_block(&mut self, pool: u32, block: BlockId, caller: Option<&Caller<'_>>) -> Result<()> {
        let mut uses = self.take_uses(pool, block);
        for stream in uses.in_capture {
            uses.streams.remove(stream);
        }
        self.free_after(pool, block, &uses.streams, caller)
    }
}
