//! Saved states of a private pool (section 5.11 of the law).

use std::sync::Arc;

use millpond_driver::Stream;

use crate::allocator::Allocator;
use crate::block::BlockId;
use crate::caller::{Caller, Stack};
use crate::device::{Happened, Held};
use crate::error::{Error, Result};
use crate::event::Action;
use crate::private::PoolId;
use crate::size::SizeClass;
use crate::trace::Level;

/// The state of a private pool at one moment: which blocks each of its segments was cut into, and which were live.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pool: PoolId,
    segments: Vec<SavedSegment>,
    /// While somebody holds a checkpoint, the pages of its pool stay where they are.
    _held: Arc<()>,
}

#[derive(Clone, Debug)]
struct SavedSegment {
    class: SizeClass,
    stream: Stream,
    blocks: Vec<SavedBlock>,
}

#[derive(Clone, Debug)]
struct SavedBlock {
    addr: u64,
    size: u64,
    allocated: bool,
    mapped: bool,
    streams: Vec<Stream>,
}

/// What restoring a checkpoint did to live blocks (R5.40). An address can be in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Blocks that were live and were freed.
    pub freed: Vec<u64>,
    /// Blocks that are live now, as the checkpoint says; the caller owns them.
    pub live: Vec<u64>,
}

impl Checkpoint {
    /// The pool it was taken of.
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// The addresses that were live.
    pub fn live(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().flat_map(|segment| &segment.blocks).filter(|block| block.allocated).map(|block| block.addr)
    }
}

impl Allocator {
    /// Saves the state of a private pool (R5.38).
    ///
    /// # Errors
    /// [`Error::UnknownPool`]; [`Error::NoCheckpoint`] for a freeable pool or one with pending blocks.
    pub fn checkpoint(&self, id: PoolId, caller: &Caller<'_>) -> Result<Checkpoint> {
        self.core.enter(|held| held.checkpoint(id, caller))
    }

    /// Brings a private pool back to a saved state (R5.39–R5.41): its live blocks are freed, then those of the checkpoint
    /// are live again. Segments made since stay, free. Whether the state fits is checked before anything is changed.
    ///
    /// # Errors
    /// [`Error::StaleCheckpoint`] when a segment of the state is gone or has another shape; [`Error::UnknownPool`],
    /// [`Error::PoolAsleep`].
    pub fn restore(&self, checkpoint: &Checkpoint, caller: &Caller<'_>) -> Result<Restored> {
        // The blocks that come back are made here, whoever made them before.
        let made_by = self.core.stack(caller, Level::State);
        let call = made_by.clone().filter(|_| self.core.journal.level() >= Level::All);
        self.core.enter_with(call, |held| held.restore(checkpoint, made_by.as_ref(), caller))
    }
}

impl Held<'_> {
    fn checkpoint(&mut self, id: PoolId, caller: &Caller<'_>) -> Result<Checkpoint> {
        let held = self;
        held.free_deferred(Some(caller))?;
        let pool = held.memory_pool(id).filter(|_| id.is_private()).ok_or(Error::UnknownPool { pool: id })?;
        if pool.use_count == 0 {
            return Err(Error::NoCheckpoint { pool: id, why: "its last owner has released it" });
        }
        let indices: Vec<u32> = pool.pool_indices().collect();
        let checkpoints = Arc::clone(&pool.checkpoints);
        let mut segments = Vec::new();
        for index in indices {
            let pool = &held.pools[index as usize];
            for segment in pool.segments.iter().flatten() {
                let mut blocks = Vec::new();
                for (id_of_block, block) in pool.blocks_of(segment) {
                    if block.mapped && block.events > 0 {
                        return Err(Error::NoCheckpoint { pool: id, why: "a block of it waits for events" });
                    }
                    let streams = pool
                        .uses
                        .get(&id_of_block)
                        .map(|uses| uses.streams.keys().map(|named| named.stream).collect())
                        .unwrap_or_default();
                    let (addr, size) = (block.addr, block.size);
                    blocks.push(SavedBlock { addr, size, allocated: block.allocated, mapped: block.mapped, streams });
                }
                segments.push(SavedSegment { class: pool.key.class, stream: pool.key.stream, blocks });
            }
        }
        Ok(Checkpoint { pool: id, segments, _held: checkpoints })
    }

    fn restore(&mut self, checkpoint: &Checkpoint, made_by: Option<&Stack>, caller: &Caller<'_>) -> Result<Restored> {
        let held = self;
        let id = checkpoint.pool;
        held.free_deferred(Some(caller))?;
        let indices: Vec<u32> = held.memory_pool(id).ok_or(Error::UnknownPool { pool: id })?.pool_indices().collect();
        if held.is_asleep(id) {
            return Err(Error::PoolAsleep { pool: id });
        }
        held.check_fit(checkpoint, &indices)?;
        let mut restored = Restored::default();
        for &index in &indices {
            let mut live: Vec<(u64, BlockId)> =
                held.pools[index as usize].live().map(|(block, live)| (live.addr, block)).collect();
            live.sort_unstable();
            for (addr, block) in live {
                held.take_uses(index, block);
                held.emit_block(Action::FreeRequested, index, block, caller);
                held.pools[index as usize].retire(block);
                held.complete_free(index, block, Some(caller));
                restored.freed.push(addr);
            }
        }
        for segment in &checkpoint.segments {
            held.restore_segment((id, segment), made_by, caller, &mut restored.live)?;
        }
        Ok(restored)
    }

    fn emit_block(&self, action: Action, pool: u32, block: BlockId, caller: &Caller<'_>) {
        let held = &self.pools[pool as usize];
        let happened = Happened::new(action, held.blocks[block].addr, held.blocks[block].requested, held.key);
        let own = || held.stacks.get(&block).cloned();
        let stack = if action == Action::Alloc { own() } else { self.call.clone().or_else(own) };
        self.core.emit(happened.with(stack), Some(caller));
    }

    /// Checks that every saved segment is still there, with memory under every block that had some, and that nothing of
    /// the pool waits.
    fn check_fit(&self, checkpoint: &Checkpoint, indices: &[u32]) -> Result<()> {
        let stale = |why: String| Error::StaleCheckpoint { pool: checkpoint.pool, why };
        for &index in indices {
            if self.pools[index as usize].blocks.iter().any(|(_, block)| block.mapped && block.events > 0) {
                return Err(stale("a block of it waits for events".to_owned()));
            }
        }
        for saved in &checkpoint.segments {
            let Some(first) = saved.blocks.first() else { continue };
            let segment = indices
                .iter()
                .map(|&index| &self.pools[index as usize])
                .filter(|pool| pool.key.class == saved.class && pool.key.stream == saved.stream)
                .find_map(|pool| {
                    Some((pool, pool.segments.iter().flatten().find(|segment| segment.base == first.addr)?))
                });
            let Some((pool, segment)) = segment else {
                return Err(stale(format!("its segment at {:#x} is gone", first.addr)));
            };
            let end = saved.blocks.last().map_or(first.addr, |block| block.addr + block.size);
            if end != segment.base + segment.size {
                return Err(stale(format!("its segment at {:#x} has another size", first.addr)));
            }
            for block in saved.blocks.iter().filter(|block| block.mapped) {
                let mut under = pool
                    .blocks_of(segment)
                    .filter(|(_, now)| now.addr < block.addr + block.size && block.addr < now.end());
                if under.any(|(_, now)| !now.mapped) {
                    return Err(stale(format!(
                        "invalid expandable segment structure: memory that was mapped at {:#x} is not mapped now",
                        block.addr
                    )));
                }
            }
        }
        Ok(())
    }

    /// Cuts one segment, now free, into the saved blocks; those not live then are given back (R5.39).
    fn restore_segment(
        &mut self,
        (id, saved): (PoolId, &SavedSegment),
        made_by: Option<&Stack>,
        caller: &Caller<'_>,
        live: &mut Vec<u64>,
    ) -> Result<()> {
        let index = self.pool(crate::pool::PoolKey { memory_pool: id, class: saved.class, stream: saved.stream });
        let mut cut = Vec::new();
        let Some(base) = saved.blocks.first().map(|block| block.addr) else { return Ok(()) };
        let pool = &self.pools[index as usize];
        let Some(mut block) =
            pool.segments.iter().flatten().find(|segment| segment.base == base).map(|segment| segment.head)
        else {
            return Ok(());
        };
        for saved_block in saved.blocks.iter().filter(|block| block.mapped) {
            let pool = &mut self.pools[index as usize];
            while pool.blocks[block].end() <= saved_block.addr {
                block = pool.blocks[block].next;
            }
            // Addresses without memory then: what was mapped there since stays, free (R5.41).
            let gap = saved_block.addr - pool.blocks[block].addr;
            if gap > 0 {
                pool.remove_free(block);
                let front = pool.split_front(block, gap);
                pool.insert_free(front);
                pool.insert_free(block);
            }
            pool.remove_free(block);
            let split = pool.blocks[block].size > saved_block.size;
            // What was asked for is not saved: PyTorch asks for the whole block again.
            let (taken, _) = pool.hand_out_as(block, saved_block.size, saved_block.size, split);
            block = if split { pool.blocks[taken].next } else { taken };
            if let Some(stack) = made_by {
                pool.stacks.insert(taken, stack.clone());
            }
            self.emit_block(Action::Alloc, index, taken, caller);
            self.settle(index);
            for &stream in &saved_block.streams {
                self.record_stream(index, taken, stream, false);
            }
            cut.push((taken, saved_block.addr, saved_block.allocated));
        }
        for (taken, addr, allocated) in cut {
            if allocated {
                live.push(addr);
                continue;
            }
            self.take_uses(index, taken);
            self.emit_block(Action::FreeRequested, index, taken, caller);
            self.pools[index as usize].retire(taken);
            self.complete_free(index, taken, Some(caller));
        }
        Ok(())
    }
}
