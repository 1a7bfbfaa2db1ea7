//! Freed blocks that wait for the streams that used them (R7.14–R7.18).

use std::sync::atomic::Ordering::Relaxed;

use millpond_driver::{Device, Event, Stream};

use super::HostCore;
use super::block::{Block, Source};
use super::state::State;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::event::Action;
use crate::private::PoolId;
use crate::trace::Level;

/// A block that waits for an event of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub event: Event,
    pub device: Device,
    pub addr: u64,
}

impl HostCore {
    /// Takes a live block back (R7.15): cached at once if no stream used it, else when their work so far is done.
    pub fn free(&self, addr: u64, caller: &Caller<'_>) -> Result<()> {
        let stack = self.stack(caller, Level::All);
        let (streams, pool) = {
            let mut state = self.lock();
            let unknown = Error::UnknownAddress { addr };
            let Some(block) = state.blocks.get_mut(&addr).filter(|block| block.allocated) else { return Err(unknown) };
            self.emit(Action::FreeRequested, block, stack, Some(caller));
            block.allocated = false;
            let streams = std::mem::take(&mut block.streams);
            // The count is up before the lock is gone, so that nobody takes the block meanwhile.
            block.events += streams.len() as u64;
            if block.in_capture && !streams.is_empty() {
                // A graph uses the block at every launch: it is never used again (R7.16).
                return Ok(());
            }
            if streams.is_empty() {
                let doomed = self.cache(&mut state, addr);
                drop(state);
                return self.destroy(doomed.into_iter().collect());
            }
            (streams, block.pool)
        };
        for stream in streams {
            match self.record(stream) {
                Ok(event) => {
                    let waiting = Waiting { event, device: stream.device, addr };
                    if let Some(pool) = self.lock().pools.get_mut(&pool) {
                        pool.events.push_front(waiting);
                    }
                }
                Err(error) if !self.warned_not_recorded.swap(true, Relaxed) => {
                    tracing::warn!(
                        "pinned block {addr:#x} is never used again: no event on {stream}: {error}; said once"
                    );
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Records an event on a stream. One recorded in a capture would never complete, so there it is an error.
    fn record(&self, stream: Stream) -> Result<Event> {
        if self.is_capturing(stream)? {
            return Err(Error::CaptureScope { stream });
        }
        let spare = self.lock().spare_events.get_mut(&stream.device).and_then(Vec::pop);
        let event = match spare {
            Some(event) => event,
            None => self.driver.event_create(stream.device)?,
        };
        match self.driver.event_record(event, stream) {
            Ok(()) => Ok(event),
            Err(error) => {
                self.lock().spare_events.entry(stream.device).or_default().push(event);
                Err(error.into())
            }
        }
    }

    /// Caches what has completed: the oldest events first, up to the first that has not (R7.17). Returns the blocks that are
    /// too large to be cached; the caller destroys them when the lock is gone.
    pub fn process_events(&self, state: &mut State, pool: PoolId) -> Result<Vec<Block>> {
        let mut doomed = Vec::new();
        while let Some(held) = state.pools.get_mut(&pool)
            && let Some(&waiting) = held.events.back()
            && self.driver.event_query(waiting.event)?
        {
            held.events.pop_back();
            doomed.extend(self.completed(state, waiting));
        }
        Ok(doomed)
    }

    /// One of a block's events has completed.
    pub fn completed(&self, state: &mut State, waiting: Waiting) -> Option<Block> {
        let Waiting { event, device, addr } = waiting;
        state.spare_events.entry(device).or_default().push(event);
        let block = state.blocks.get_mut(&addr)?;
        block.events -= 1;
        if block.is_active() { None } else { self.cache(state, addr) }
    }

    /// A block that nobody uses any more: into its bin, unless it is larger than what may be cached (R7.18) or goes back to
    /// a reserve segment that takes it. Those are returned for destruction.
    fn cache(&self, state: &mut State, addr: u64) -> Option<Block> {
        let block = state.blocks.remove(&addr)?;
        self.emit(Action::FreeCompleted, &block, block.held_by.clone(), None);
        if let Some(pool) = state.pools.get_mut(&block.pool) {
            pool.bins.deactivate(block.bin, block.size);
        }
        let limit = self.world.settings().pinned_max_cached_size;
        let goes_back = block.source == Source::Reserve && self.classes.splits_reserve();
        let block = Block { held_by: None, ..block };
        if block.size > limit || goes_back {
            return Some(block);
        }
        state.put_cached(block);
        None
    }
}
