//! Allocation at an exact address (R2.52–R2.55).

use millpond_driver::Stream;

use crate::allocator::Allocator;
use crate::block::Block;
use crate::caller::{Caller, Stack};
use crate::device::{Happened, Held, gates};
use crate::error::{Error, Result};
use crate::event::Action;
use crate::pool::PoolKey;
use crate::routing::Asked;
use crate::size::{MIN_BLOCK, SizeClass, TOO_LARGE};
use crate::trace::Level;

/// What the trace entries of the whole operation carry (R2.54).
const INTERNAL: Option<&str> = Some("mallocWithAddress");

impl Allocator {
    /// `size` bytes at `addr`, which must lie in a free block of the pool that would serve the request. Asks nothing of the
    /// driver and maps nothing (R2.53).
    ///
    /// # Errors
    /// [`Error::MisalignedAddress`], [`Error::AddressNotFree`], [`Error::CachingDisabled`], [`Error::PoolAsleep`]; those of [`Allocator::alloc`].
    pub fn alloc_at(&self, addr: u64, size: u64, stream: Stream, caller: &Caller<'_>) -> Result<u64> {
        let core = &*self.core;
        if !addr.is_multiple_of(MIN_BLOCK) {
            return Err(Error::MisalignedAddress { addr });
        }
        if stream.device != core.device {
            return Err(Error::WrongDevice { stream, device: core.device });
        }
        if size >= TOO_LARGE {
            return Err(Error::TooLarge { requested: size });
        }
        if core.gates.load(std::sync::atomic::Ordering::Acquire) & gates::UNCACHED != 0 {
            return Err(Error::CachingDisabled { what: "an allocation at an exact address" });
        }
        let stack = core.stack(caller, Level::State);
        let asked = core.ask_filters(stream);
        core.enter(|held| held.alloc_at(addr, size, stream, caller, stack, &asked))
    }
}

impl Held<'_> {
    fn alloc_at(
        &mut self,
        addr: u64,
        size: u64,
        stream: Stream,
        caller: &Caller<'_>,
        stack: Option<Stack>,
        asked: &Asked,
    ) -> Result<u64> {
        let core = self.core;
        let held = self;
        let in_capture = held.in_capture(caller)?;
        if !in_capture {
            held.process_events(Some(caller))?;
        } else if held.ladder.settings.graph_capture_record_stream_reuse {
            held.free_safe_in_capture(stream, caller, asked)?;
        }
        let rounded = core.rounding.round(size);
        let memory_pool = held.route(stream, caller, asked)?;
        if held.is_asleep(memory_pool) {
            return Err(Error::PoolAsleep { pool: memory_pool });
        }
        let index = held.pool(PoolKey { memory_pool, class: SizeClass::of(rounded), stream });
        let pool = &held.pools[index as usize];
        let end = addr.checked_add(rounded);
        let holds = |block: &Block| block.addr <= addr && end.is_some_and(|end| end <= block.end());
        let found = pool.free.iter(&pool.blocks).find(|entry| holds(&pool.blocks[entry.block]));
        let Some(entry) = found else { return Err(Error::AddressNotFree { addr, size: rounded }) };
        let start = pool.blocks[entry.block].addr;
        let key = pool.key;
        let emit = |action, addr, size, stack| {
            core.emit(
                Happened { internal: INTERNAL, ..Happened::new(action, addr, size, key).with(stack) },
                Some(caller),
            );
        };
        if in_capture {
            held.mark_captured(index);
        }
        let pool = &mut held.pools[index as usize];
        pool.remove_free(entry.block);
        // What lies before is handed out and given back once the wanted block is carved.
        let before = (addr > start).then(|| {
            let bytes = addr - start;
            emit(Action::Alloc, start, bytes, None);
            let (front, _) = pool.hand_out_as(entry.block, bytes, bytes, true);
            pool.remove_free(entry.block);
            front
        });
        held.settle(index);
        let pool = &mut held.pools[index as usize];
        let fit = pool.fit(size, rounded);
        let live = pool.hand_out(entry.block, fit);
        if let Some(stack) = &stack {
            pool.stacks.insert(live, stack.clone());
        }
        emit(Action::Alloc, addr, size, stack);
        held.settle(index);
        if let Some(front) = before {
            let pool = &mut held.pools[index as usize];
            let bytes = addr - start;
            emit(Action::FreeRequested, start, bytes, None);
            pool.retire(front);
            emit(Action::FreeCompleted, start, bytes, None);
            pool.complete_free(front);
            held.settle(index);
        }
        Ok(addr)
    }
}
