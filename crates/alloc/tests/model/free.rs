//! Freeing, events and merging (section 3 of the law), deferred frees (5.8, 5.10).

use super::state::{Block, Failure, Model, Segment, Use, Who};
use super::stats::What;
use super::table::{Key, stream_key};

impl Model {
    /// Section 3.1.
    pub fn free(&mut self, addr: u64, who: Who) -> Result<(), Failure> {
        if addr == 0 {
            return Ok(());
        }
        let live = self.blocks.iter().find(|block| block.used == Use::Live && block.addr == addr);
        let Some(&Block { id, size, requested, .. }) = live else { return Err(Failure::UnknownAddress) };
        let small = self.segment_of(id).small;
        self.block_mut(id).used = Use::Pending;
        self.stats.add(What::Allocation, small, -1);
        self.stats.add(What::AllocatedBytes, small, -(size as i64));
        self.tell("free_requested", addr, requested);
        if size >= self.conf.max_split {
            self.stats.add(What::OversizeAllocations, small, -1);
        }
        if self.block(id).streams.is_empty() {
            self.free_block(id);
        } else if self.in_capture(who) {
            self.deferred.push(id);
            self.reach("R5.29 deferred");
        } else {
            self.insert_events(id);
        }
        Ok(())
    }

    /// Section 3.2. Unknown addresses are ignored (R3.6).
    pub fn record_stream(&mut self, addr: u64, stream: u64, who: Who) {
        let in_capture = self.in_capture(who);
        let Some(&Block { id, .. }) = self.blocks.iter().find(|b| b.used == Use::Live && b.addr == addr) else {
            return;
        };
        if self.segment_of(id).stream == stream {
            return;
        }
        let block = self.block_mut(id);
        block.streams.insert(stream_key(stream));
        if in_capture && !block.captured.contains(&stream) {
            block.captured.push(stream);
        }
    }

    /// Section 3.3. Returns whether any event was recorded.
    fn insert_events(&mut self, id: u64) {
        let streams = std::mem::take(&mut self.block_mut(id).streams);
        for key in streams.keys() {
            let stream = key.1.0;
            if self.device.capture_of(stream).is_some() {
                self.undefined = Some("an event is recorded outside of a capture on a stream that captures");
            }
            let event = self.device.record(stream);
            self.block_mut(id).events += 1;
            self.queue_order.insert(key);
            match self.queues.iter_mut().find(|(s, _)| *s == stream) {
                Some((_, queue)) => queue.push((event, id)),
                None => self.queues.push((stream, vec![(event, id)])),
            }
        }
    }

    /// Sections 3.4 and 3.6.
    pub fn free_block(&mut self, id: u64) {
        let Block { addr, size, requested, .. } = *self.block(id);
        let Segment { pool, small, .. } = *self.segment_of(id);
        self.tell("free_completed", addr, requested);
        self.block_mut(id).used = Use::Free;
        let absorbed = self.merge(id);
        let mut count = -(absorbed.len() as i64);
        let mut bytes = -(absorbed.iter().sum::<u64>() as i64);
        if self.is_split(id) {
            count += 1;
            bytes += self.block(id).size as i64;
        }
        if !self.is_expandable(id) {
            self.stats.add(What::InactiveSplit, small, count);
            self.stats.add(What::InactiveSplitBytes, small, bytes);
        }
        self.stats.add(What::Active, small, -1);
        self.stats.add(What::ActiveBytes, small, -(size as i64));
        self.stats.add(What::RequestedBytes, small, -(requested as i64));
        let clock = *self.clock(pool, small);
        self.block_mut(id).born = clock;
    }

    /// R3.14: absorbs idle neighbours with the same kind of memory; their sizes.
    pub fn merge(&mut self, id: u64) -> Vec<u64> {
        let mut absorbed = Vec::new();
        for neighbour in [self.prev(id), self.next(id)].into_iter().flatten() {
            if self.block(neighbour).used == self.block(id).used {
                let Block { addr, size, .. } = *self.block(neighbour);
                self.blocks.retain(|block| block.id != neighbour);
                let block = self.block_mut(id);
                block.addr = block.addr.min(addr);
                block.size += size;
                absorbed.push(size);
            }
        }
        absorbed
    }

    /// Section 3.5.
    pub fn process_events(&mut self) {
        self.free_deferred();
        let mut slot = 0;
        while let Some(entry) = self.queue_order.slot(slot) {
            let Some(key) = entry else {
                slot += 1;
                continue;
            };
            while let Some(&(event, block)) = self.queue(key).first()
                && self.device.is_complete(event)
            {
                self.queue(key).remove(0);
                self.event_done(block);
            }
            // Erasing moves the next entry here (R3.16).
            if self.queue(key).is_empty() {
                self.queue_order.erase(key);
            } else {
                self.reach("R3.13 event not ready");
                slot += 1;
            }
        }
    }

    fn queue(&mut self, key: Key) -> &mut Vec<(u64, u64)> {
        let stream = key.1.0;
        &mut self.queues.iter_mut().find(|(s, _)| *s == stream).expect("a queue").1
    }

    fn event_done(&mut self, block: u64) {
        self.block_mut(block).events -= 1;
        if self.block(block).events == 0 {
            self.free_block(block);
        }
    }

    /// R2.31, R2.33: waits for every event, or for those of one pool's blocks.
    pub fn synchronize_and_free(&mut self, only: Option<super::state::Id>) {
        self.stats.syncs += 1;
        self.free_deferred();
        let mut slot = 0;
        while let Some(entry) = self.queue_order.slot(slot) {
            let Some(key) = entry else {
                slot += 1;
                continue;
            };
            for (event, block) in self.queue(key).clone() {
                if only.is_some_and(|pool| self.segment_of(block).pool != pool) {
                    self.reach("R2.33 only the pool's events");
                    continue;
                }
                self.device.wait_event(event);
                self.reach("R2.31 pending block freed");
                self.queue(key).retain(|&(e, _)| e != event);
                self.event_done(block);
            }
            if self.queue(key).is_empty() {
                self.queue_order.erase(key);
            } else {
                slot += 1;
            }
        }
    }

    /// R5.37.
    pub fn free_deferred(&mut self) {
        let deferred = std::mem::take(&mut self.deferred);
        self.unordered |= deferred.len() > 1;
        for id in deferred {
            let block = self.block_mut(id);
            let captured = std::mem::take(&mut block.captured);
            let streams = std::mem::take(&mut block.streams);
            for key in streams.keys().into_iter().filter(|&key| !captured.contains(&key.1.0)) {
                block.streams.insert(key);
            }
            if self.block(id).streams.is_empty() {
                self.free_block(id);
            } else {
                self.reach("R5.37 event after a capture");
                self.insert_events(id);
            }
        }
    }
}
