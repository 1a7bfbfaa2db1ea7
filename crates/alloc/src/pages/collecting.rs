//! Garbage collection of pages (`garbage_collection_threshold`): PyTorch's spares expandable segments (R2.19).

use crate::caller::Caller;
use crate::config::PageReuse;
use crate::device::Held;
use crate::error::Result;
use crate::private::PoolId;
use crate::size::SizeClass;

impl Held<'_> {
    /// Gives free pages of the default large pools back, those of the oldest blocks first, until `target` bytes have gone.
    pub fn collect_pages(&mut self, target: u64, caller: &Caller<'_>) -> Result<()> {
        if target == 0 || self.ladder.settings.page_reuse == PageReuse::Off || !self.gives(PoolId::DEFAULT) {
            return Ok(());
        }
        let mut candidates = Vec::new();
        for pool in self.family(PoolId::DEFAULT, SizeClass::Large) {
            let held = &self.pools[pool as usize];
            for entry in held.free.iter(&held.blocks) {
                let block = &held.blocks[entry.block];
                if block.expandable && !self.ladder.pins.hold(block.addr, block.size) {
                    let age = (block.born, held.segment(entry.block).counter, block.addr);
                    candidates.push((age, pool, entry.block));
                }
            }
        }
        candidates.sort_unstable();
        let goal = self.ladder.total_allocated.saturating_sub(target);
        for (_, pool, block) in candidates {
            if self.ladder.total_allocated <= goal {
                break;
            }
            self.unmap_block(pool, block, caller)?;
        }
        Ok(())
    }
}
