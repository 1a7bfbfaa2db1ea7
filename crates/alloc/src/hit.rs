//! The short way: a request that finds a free block, and the free of a block that nothing waits for. One pool's lock, no
//! allocation, no driver call; `ci/instructions.sh` counts what it costs.

use millpond_driver::Stream;

use crate::block::BlockId;
use crate::caller::{Caller, Stack};
use crate::device::{Core, Happened, Held};
use crate::error::Result;
use crate::event::Action;
use crate::log::Moment;
use crate::size::SizeClass;
use crate::trace::Level;

/// What the short way gave.
pub(crate) enum Hit {
    /// An address.
    Found(u64),
    /// Nothing. `searched`: the pool was looked into, and its collection clock has ticked.
    Miss { searched: bool },
}

impl Core {
    /// A hit that nobody watches. The pool may have a history without stacks to write.
    #[inline]
    pub fn hit(&self, size: u64, stream: Stream, caller: &Caller<'_>) -> Hit {
        let rounded = self.rounding.round(size);
        let Some(index) = self.routes.get(stream.raw, SizeClass::of(rounded)) else {
            return Hit::Miss { searched: false };
        };
        let mut pool = self.pools[index as usize].lock();
        let fit = pool.fit(size, rounded);
        let found = pool.take_recent(fit).or_else(|| pool.hit(fit));
        let Some((_, addr)) = found else { return Hit::Miss { searched: true } };
        if pool.log.is_some() {
            self.record(&mut pool, Moment { addr, size, is_free: false }, caller);
        }
        if pool.counters.unsettled {
            drop(pool);
            self.settle(index);
        }
        Hit::Found(addr)
    }

    /// A hit that is written into the history; else the stack back, and whether the pool was searched.
    pub fn watched_hit(
        &self,
        size: u64,
        stream: Stream,
        stack: Option<Stack>,
        caller: &Caller<'_>,
    ) -> std::result::Result<u64, (Option<Stack>, bool)> {
        let rounded = self.rounding.round(size);
        let Some(index) = self.routes.get(stream.raw, SizeClass::of(rounded)) else { return Err((stack, false)) };
        let mut pool = self.pools[index as usize].lock();
        let fit = pool.fit(size, rounded);
        let Some((live, addr)) = pool.hit(fit) else { return Err((stack, true)) };
        self.emit(Happened::new(Action::Alloc, addr, size, pool.key).with(stack.clone()), Some(caller));
        if let Some(stack) = stack {
            pool.stacks.insert(live, stack);
        }
        let unsettled = pool.counters.unsettled;
        drop(pool);
        if unsettled {
            self.settle(index);
        }
        self.journal.deliver();
        Ok(addr)
    }

    /// The same of a free; `None` if no live block starts at `addr`.
    #[inline]
    pub fn free(&self, addr: u64, caller: &Caller<'_>) -> Option<Result<()>> {
        let place = self.index.find(addr)?;
        let mut pool = self.pools[place.pool as usize].lock();
        if pool.put_off(addr) {
            if pool.log.is_some() {
                let size = pool.recent.requested();
                self.record(&mut pool, Moment { addr, size, is_free: true }, caller);
            }
            return Some(Ok(()));
        }
        let block = pool.live_at(place.segment, addr)?;
        if pool.blocks[block].used {
            drop(pool);
            return self.free_used(addr, None, caller);
        }
        if pool.log.is_some() {
            let size = pool.blocks[block].requested;
            self.record(&mut pool, Moment { addr, size, is_free: true }, caller);
        }
        pool.give_back(block);
        if pool.counters.unsettled {
            drop(pool);
            self.settle(place.pool);
        }
        Some(Ok(()))
    }

    /// A free that is written into the history.
    pub fn watched_free(&self, addr: u64, caller: &Caller<'_>) -> Option<Result<()>> {
        let stack = self.stack(caller, Level::All);
        let place = self.index.find(addr)?;
        let mut pool = self.pools[place.pool as usize].lock();
        let block = pool.live_at(place.segment, addr)?;
        if pool.blocks[block].used {
            drop(pool);
            return self.free_used(addr, stack, caller);
        }
        let requested = pool.blocks[block].requested;
        let made_by = pool.stacks.get(&block).cloned();
        let asked = Happened::new(Action::FreeRequested, addr, requested, pool.key);
        let stack = stack.or(made_by);
        let asked = asked.with(stack.clone());
        let done = Happened::new(Action::FreeCompleted, addr, requested, pool.key).with(stack);
        self.emit_both([asked, done], Some(caller));
        if !pool.put_off(addr) {
            pool.give_back(block);
        }
        let unsettled = pool.counters.unsettled;
        drop(pool);
        if unsettled {
            self.settle(place.pool);
        }
        self.journal.deliver();
        Some(Ok(()))
    }

    /// The free of a live block that other streams use (R3.4), if it still lives. It is retired and put where it waits with the
    /// device standing still, so that nobody sees it between the two.
    #[cold]
    fn free_used(&self, addr: u64, stack: Option<Stack>, caller: &Caller<'_>) -> Option<Result<()>> {
        let mut lives = true;
        let outcome = self.enter_with(stack.clone(), |held| {
            let Some((pool, block)) = held.live_at(addr) else {
                lives = false;
                return Ok(());
            };
            held.retire_used(pool, block, stack, caller);
            let outcome = match held.in_capture(caller) {
                Ok(true) => held.defer_free(pool, block),
                Ok(false) => {
                    let uses = held.take_uses(pool, block);
                    held.free_after(pool, block, &uses.streams, Some(caller))
                }
                Err(error) => Err(error),
            };
            if outcome.is_err() {
                held.keep_waiting(pool, block);
            }
            outcome
        });
        lives.then_some(outcome)
    }
}

impl Held<'_> {
    /// The owner gives a block back that cannot be free yet.
    fn retire_used(&mut self, pool: u32, block: BlockId, stack: Option<Stack>, caller: &Caller<'_>) {
        let held = &mut self.pools[pool as usize];
        let (addr, requested) = (held.blocks[block].addr, held.blocks[block].requested);
        let stack = stack.or_else(|| held.stacks.get(&block).cloned());
        let happened = Happened::new(Action::FreeRequested, addr, requested, held.key).with(stack);
        held.retire(block);
        self.emit(happened, Some(caller));
    }
}
