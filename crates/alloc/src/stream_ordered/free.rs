//! Freeing in the order of streams, and around captures (R6.4, R6.6).

use std::sync::atomic::Ordering::Relaxed;

use millpond_driver::Stream;

use super::state::{Allocation, State};
use super::{DriverPoolError, StreamOrdered};
use crate::error::{Error, Result};

impl StreamOrdered {
    /// Frees a live allocation; 0 is fine and does nothing. The memory is free for work that comes after the present work of
    /// every stream that used it. Memory from before a capture that is freed in it is freed at the first allocation after it.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`]; the driver's, and then the allocation is still live.
    pub fn free(&self, addr: u64) -> Result<()> {
        if addr == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        let state = &mut *state;
        let Some(allocation) = state.live.get(&addr) else { return Err(Error::UnknownAddress { addr }) };
        if state.capturing && !allocation.captured {
            if !self.warned_deferred.swap(true, Relaxed) {
                tracing::warn!(
                    "{addr:#x}, allocated before the capture, is freed in it: it is freed afterwards; said once"
                );
            }
            state.deferred.extend(state.live.remove(&addr).map(|allocation| (addr, allocation)));
            return Ok(());
        }
        if !state.capturing && allocation.captured {
            tracing::warn!("{addr:#x}, allocated in a capture, is freed outside of it: the graph must not run again");
        }
        self.free_now(state, addr)
    }

    /// Frees what had to wait for the end of the capture.
    pub(super) fn free_deferred(&self, state: &mut State) -> Result<()> {
        while let Some((addr, allocation)) = state.deferred.pop() {
            state.live.insert(addr, allocation);
            self.free_now(state, addr).inspect_err(|_| {
                // It waits for the next time.
                state.deferred.extend(state.live.remove(&addr).map(|allocation| (addr, allocation)));
            })?;
        }
        Ok(())
    }

    fn free_now(&self, state: &mut State, addr: u64) -> Result<()> {
        let Some(Allocation { size, stream, recorded, .. }) = state.live.get(&addr).cloned() else { return Ok(()) };
        let device = state.device(&*self.driver, stream.device)?;
        let on = if recorded.is_empty() {
            stream
        } else {
            // The unifier comes after every stream that used the memory.
            let unifier = device.unifier;
            for used in std::iter::once(stream).chain(recorded) {
                self.join(used, unifier)?;
            }
            unifier
        };
        self.driver.mem_free_async(addr, on)?;
        device.used -= size;
        state.live.remove(&addr);
        if state.capturing {
            state.freed_on.insert(on);
        }
        Ok(())
    }

    /// Makes later work of `later` wait for the present work of `earlier`.
    fn join(&self, earlier: Stream, later: Stream) -> Result<()> {
        if earlier == later {
            return Ok(());
        }
        let event = self.driver.event_create(earlier.device)?;
        let joined =
            self.driver.event_record(event, earlier).and_then(|()| self.driver.stream_wait_event(later, event));
        // An event that somebody waits for lives on in the driver.
        let destroyed = self.driver.event_destroy(event);
        Ok(joined.and(destroyed)?)
    }

    /// Tells that a capture begins (`beginAllocateToPool`). Pool ids and filters have no meaning here; there is one flag for
    /// the process (R6.6).
    ///
    /// # Errors
    /// [`DriverPoolError::OneCapture`].
    pub fn begin_allocate_to_pool(&self) -> Result<()> {
        let mut state = self.lock();
        if state.capturing {
            return Err(DriverPoolError::OneCapture.into());
        }
        state.capturing = true;
        Ok(())
    }

    /// Tells that the capture on `capturing` ends (`endAllocateToPool`): every stream on which memory was freed in it joins it
    /// (R6.6). Call it before the driver ends the capture: a stream that has not joined would invalidate it.
    ///
    /// # Errors
    /// [`DriverPoolError::NoCapture`]; the driver's, and then the flag is down all the same.
    pub fn end_allocate_to_pool(&self, capturing: Stream) -> Result<()> {
        let mut state = self.lock();
        if !state.capturing {
            return Err(DriverPoolError::NoCapture.into());
        }
        state.capturing = false;
        let mut outcome = Ok(());
        for stream in std::mem::take(&mut state.freed_on) {
            outcome = outcome.and(self.join(stream, capturing));
        }
        outcome
    }

    /// Does nothing (R6.6).
    pub fn release_pool(&self) {}
}
