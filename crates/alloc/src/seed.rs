//! A given state as the start: for replaying a program from the middle.

use crate::address_index::Place;
use crate::allocator::Allocator;
use crate::block::{BlockId, NONE};
use crate::caller::Caller;
use crate::device::Held;
use crate::error::{Error, Result};
use crate::pool::PoolKey;
use crate::private::PoolId;
use crate::segment::{Pages, Source};
use crate::stats::Metric;
use crate::view::{BlockUse, SegmentState};

impl Allocator {
    /// Takes up segments with their blocks as if they had been made in this order: memory for each is asked of the driver,
    /// which must give it at the segment's own address. Live and free blocks stand as given; a pending one counts as live.
    /// Private pools are made with one reference. Statistics start from this state.
    ///
    /// # Errors
    /// The driver's; [`Error::AddressNotFree`] when it gives another address. What was taken up before stays.
    pub fn seed(&self, segments: &[SegmentState]) -> Result<()> {
        let mut held = self.core.hold();
        for segment in segments {
            if segment.pool.is_private() && held.memory_pool(segment.pool).is_none() {
                held.create_or_incref_pool(segment.pool, None)?;
            }
            held.seed_segment(segment)?;
        }
        held.release();
        self.reset_peak_stats();
        self.reset_accumulated_stats();
        Ok(())
    }
}

impl Held<'_> {
    fn seed_segment(&mut self, segment: &SegmentState) -> Result<()> {
        let key = PoolKey { memory_pool: segment.pool, class: segment.class, stream: segment.stream };
        let index = self.pool(key);
        let (base, size) = (segment.base, segment.size);
        let expandable = segment.expandable;
        let driver = &self.core.driver;
        let got = if expandable {
            driver.mem_address_reserve(size, 0, base)?
        } else {
            driver.mem_alloc(self.core.device, size)?
        };
        if got != base {
            if expandable {
                driver.mem_address_free(got, size)?;
            } else {
                driver.mem_free(self.core.device, got)?;
            }
            return Err(Error::AddressNotFree { addr: base, size });
        }
        let counter = self.core.world.register();
        let source = if expandable { Source::Expandable(Pages::new(segment.page)) } else { Source::Driver };
        let head = self.pools[index as usize].add_segment(base, size, counter, source, segment.stack.clone());
        if expandable {
            self.core.world.expandable_made(size);
            self.pools[index as usize].unmapped.insert(base, head);
        } else {
            self.count_seeded(segment.pool);
            self.pools[index as usize].counters.raise(Metric::Segment, 1);
            self.core.index.insert(
                base,
                size,
                Place { pool: index, segment: self.pools[index as usize].blocks[head].segment },
            );
            self.hold_more(index, size);
            self.pools[index as usize].insert_free(head);
        }
        let runs = segment.blocks.chunk_by(|a, b| (a.state == BlockUse::Unmapped) == (b.state == BlockUse::Unmapped));
        for run in runs.filter(|run| run[0].state != BlockUse::Unmapped) {
            let addr = run[0].addr;
            if expandable {
                let bytes = run.iter().map(|block| block.size).sum();
                self.seed_range(index, base, addr, bytes)?;
                self.count_seeded(segment.pool);
            }
            self.seed_blocks(index, base, run);
        }
        Ok(())
    }

    fn count_seeded(&mut self, id: PoolId) {
        if let Some(pool) = self.memory_pool(id).filter(|_| id.is_private()) {
            pool.driver_allocations += 1;
        }
    }

    /// The block of a segment that holds an address.
    fn block_at(&self, index: u32, base: u64, addr: u64) -> BlockId {
        let pool = &self.pools[index as usize];
        let segment = pool.segments.iter().flatten().find(|segment| segment.base == base);
        let found = segment
            .and_then(|segment| pool.blocks_of(segment).find(|(_, block)| block.addr <= addr && addr < block.end()));
        found.map_or(NONE, |(id, _)| id)
    }

    /// Maps [addr, addr+bytes) of an expandable segment.
    fn seed_range(&mut self, index: u32, base: u64, addr: u64, bytes: u64) -> Result<()> {
        let gap = self.block_at(index, base, addr);
        let pool = &mut self.pools[index as usize];
        if gap == NONE || pool.blocks[gap].mapped || pool.blocks[gap].end() < addr + bytes {
            return Err(Error::AddressNotFree { addr, size: bytes });
        }
        let before = addr - pool.blocks[gap].addr;
        if before > 0 {
            pool.unmapped.remove(&(addr - before));
            let front = pool.split_front(gap, before);
            pool.unmapped.insert(addr - before, front);
            pool.unmapped.insert(addr, gap);
        }
        let caller = Caller::on(pool.key.stream);
        let mapped = self.map_block(index, gap, bytes, None, &caller)?;
        mapped.map(drop).ok_or(Error::AddressNotFree { addr, size: bytes })
    }

    /// Cuts a free range into the given blocks, which tile it.
    fn seed_blocks(&mut self, index: u32, base: u64, run: &[crate::view::BlockState]) {
        let mut block = self.block_at(index, base, run[0].addr);
        let mut idle = Vec::new();
        for given in run {
            let pool = &mut self.pools[index as usize];
            pool.remove_free(block);
            let split = pool.blocks[block].size > given.size;
            let (taken, _) = pool.hand_out_as(block, given.size, given.requested, split);
            match given.state {
                BlockUse::Live | BlockUse::Pending => {
                    if let Some(stack) = &given.stack {
                        pool.stacks.insert(taken, stack.clone());
                    }
                }
                BlockUse::Free | BlockUse::Unmapped => idle.push(taken),
            }
            block = if split { block } else { NONE };
            self.settle(index);
        }
        for taken in idle {
            let pool = &mut self.pools[index as usize];
            pool.retire(taken);
            pool.complete_free(taken);
            self.settle(index);
        }
    }
}
