//! Expandable segments (section 4 of the law).

use super::MIB;
use super::malloc::Request;
use super::state::{Kind, Model, Segment, Use};

impl Model {
    /// Section 4.4: maps pages until a free block is large enough. `None`: out of memory; what was mapped stays.
    pub fn alloc_expandable(&mut self, request: &Request) -> Option<u64> {
        let need = request.rounded;
        let mut block = match self.find_spot(request) {
            Some(block) => {
                if self.next(block).is_some_and(|next| self.next(next).is_some()) {
                    self.reach("R4.11 gap first");
                }
                block
            }
            None => self.new_expandable(request)?,
        };
        if self.block(block).used == Use::Unmapped {
            let bytes = need.min(self.block(block).size);
            block = self.map_block(block, bytes)?;
        }
        while self.block(block).size < need {
            let next = self.next(block).expect("room behind");
            let bytes = (need - self.block(block).size).min(self.block(next).size);
            let Some(grown) = self.map_block(next, bytes) else {
                self.reach("R4.14 mapping failed half-way");
                return None;
            };
            block = grown;
        }
        Some(block)
    }

    /// R4.11.
    fn find_spot(&self, request: &Request) -> Option<u64> {
        let mut unmapped: Vec<_> = self
            .blocks
            .iter()
            .filter(|block| block.used == Use::Unmapped)
            .filter(|block| {
                let segment = self.segment_of(block.id);
                segment.pool == request.pool && segment.small == request.small && segment.stream == request.stream
            })
            .map(|block| (block.addr, block.id))
            .collect();
        unmapped.sort_unstable();
        let is_idle = |id: u64| matches!(self.block(id).used, Use::Free | Use::Unmapped);
        unmapped.into_iter().find_map(|(_, id)| {
            let start = self.prev(id).filter(|&prev| is_idle(prev)).unwrap_or(id);
            let (mut bytes, mut at) = (0, Some(start));
            while let Some(here) = at.filter(|&here| is_idle(here))
                && bytes < request.rounded
            {
                bytes += self.block(here).size;
                at = self.next(here);
            }
            (bytes >= request.rounded).then_some(start)
        })
    }

    /// R4.1–R4.3, R4.12, R4.13.
    fn new_expandable(&mut self, request: &Request) -> Option<u64> {
        let page = if request.small { 2 * MIB } else { self.conf.large_segment };
        let size = self.conf.reserve_bytes(self.device.capacity).div_ceil(page) * page;
        if size < request.rounded {
            self.reach("R4.12 reserve too small");
            return None;
        }
        let base = self.device.reserve(size);
        let counter = self.register();
        let Request { stream, pool, small, .. } = *request;
        let kind = Kind::Expandable { page };
        Some(self.add_segment(Segment { base, size, stream, pool, small, kind, counter }, Use::Unmapped))
    }

    /// R4.9, R4.15: maps the pages of the first `bytes` of an unmapped block; the free block that results.
    fn map_block(&mut self, block: u64, bytes: u64) -> Option<u64> {
        let Segment { kind, pool, small, .. } = *self.segment_of(block);
        let Kind::Expandable { page } = kind else { unreachable!("an unmapped block is expandable") };
        let bytes = bytes.div_ceil(page) * page;
        if !self.device.create(bytes) {
            return None;
        }
        let whole = self.block(block).size;
        let (segment, addr) = (self.block(block).segment, self.block(block).addr);
        if bytes < whole {
            self.add_block(segment, addr + bytes, whole - bytes, Use::Unmapped);
        }
        self.block_mut(block).size = bytes;
        self.block_mut(block).used = Use::Free;
        self.reserved(pool, small, bytes as i64);
        self.stats.device_allocs += 1;
        self.tell("segment_map", addr, bytes);
        self.merge(block);
        let clock = *self.clock(pool, small);
        self.block_mut(block).born = clock;
        Some(block)
    }

    /// R4.19–R4.22: gives the whole pages of a free block back.
    pub fn unmap_block(&mut self, block: u64) {
        let Segment { base, kind, pool, small, stream, .. } = *self.segment_of(block);
        let Kind::Expandable { page } = kind else { unreachable!("only expandable blocks are unmapped") };
        let (segment, addr, size) = (self.block(block).segment, self.block(block).addr, self.block(block).size);
        let start = base + (addr - base).div_ceil(page) * page;
        let end = base + (addr + size - base) / page * page;
        if start >= end {
            return;
        }
        self.device.wait_stream(stream);
        let clock = *self.clock(pool, small);
        for (from, to) in [(addr, start), (end, addr + size)] {
            if from < to {
                self.reach("R4.19 edges stay");
                let rest = self.add_block(segment, from, to - from, Use::Free);
                self.block_mut(rest).born = clock;
                self.block_mut(rest).requested = self.block(block).requested;
            }
        }
        let middle = self.block_mut(block);
        (middle.addr, middle.size, middle.used) = (start, end - start, Use::Unmapped);
        self.device.release(end - start);
        self.reserved(pool, small, -((end - start) as i64));
        self.stats.device_frees += 1;
        self.pool_mut(pool).expect("a pool").driver_count -= 1;
        self.tell("segment_unmap", start, end - start);
        self.merge(block);
        if !self.is_split(block) {
            self.reach("R4.22 segment destroyed");
            self.device.unreserve(base);
            self.blocks.retain(|b| b.segment != segment);
            self.segments.retain(|s| s.counter != segment);
        }
    }
}
