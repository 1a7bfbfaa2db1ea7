//! Graph capture: who is in one, and which blocks freed in it may be used again before it ends (sections 5.5, 5.8, 5.9).

use std::collections::{BTreeMap, BTreeSet};

use millpond_driver::{CaptureInfo, CaptureStatus, Node, Stream};

use crate::block::BlockId;
use crate::caller::Caller;
use crate::device::Held;
use crate::error::{Error, Result};
use crate::pending::Deferred;
use crate::private::PoolId;
use crate::routing::Asked;

/// What is known of one capture in which blocks are used again (R5.31, R5.32).
#[derive(Debug)]
pub(crate) struct Reuse {
    capture: u64,
    pool: PoolId,
    /// For each stream, the nodes reachable backwards from where it stands.
    visited: BTreeMap<Stream, BTreeSet<Node>>,
}

impl Held<'_> {
    /// Whether the calling thread's current stream is capturing (R5.22).
    pub fn in_capture(&self, caller: &Caller<'_>) -> Result<bool> {
        if self.ladder.captures == 0 {
            return Ok(false);
        }
        match self.core.driver.capture_status(caller.stream)? {
            CaptureStatus::None => Ok(false),
            CaptureStatus::Active => Ok(true),
            CaptureStatus::Invalidated => Err(Error::CaptureInvalidated { stream: caller.stream }),
        }
    }

    /// A capture has begun on the device (R5.21).
    pub fn capture_began(&mut self) {
        self.ladder.captures += 1;
        self.set_gates();
    }

    /// A capture has ended on the device (R5.21).
    pub fn capture_ended(&mut self) {
        self.ladder.captures = self.ladder.captures.saturating_sub(1);
        self.set_gates();
    }

    /// A capture gets memory of a pool: its graph will use the addresses whenever it is launched.
    pub fn mark_captured(&mut self, pool: u32) {
        let id = self.pools[pool as usize].key.memory_pool;
        if let Some(memory_pool) = self.memory_pool(id) {
            memory_pool.captured = true;
        }
    }

    /// Defers the free of a block that other streams use (R5.29).
    pub fn defer_free(&mut self, pool: u32, block: BlockId) -> Result<()> {
        let markers = if self.ladder.settings.graph_capture_record_stream_reuse {
            self.free_markers(pool, block)?
        } else {
            Vec::new()
        };
        self.ladder.deferred.push(Deferred { pool, block, markers });
        self.set_gates();
        Ok(())
    }

    /// The nodes after which a block freed now is no longer used: where all of its streams stand (R5.30).
    fn free_markers(&self, pool: u32, block: BlockId) -> Result<Vec<Node>> {
        let held = &self.pools[pool as usize];
        let used = held.uses.get(&block).into_iter().flat_map(|uses| uses.streams.keys()).map(|named| named.stream);
        let (mut markers, mut graph) = (BTreeSet::new(), None);
        for stream in std::iter::once(held.key.stream).chain(used) {
            let info = self.core.driver.capture_info(stream)?;
            if info.status != CaptureStatus::Active {
                return Ok(Vec::new());
            }
            if *graph.get_or_insert(info.graph) != info.graph {
                return Err(Error::CaptureMismatch);
            }
            markers.extend(info.terminals);
        }
        Ok(markers.into_iter().collect())
    }

    /// Frees the deferred blocks of a stream behind whose users the stream has come by now (R5.31–R5.33).
    pub fn free_safe_in_capture(&mut self, stream: Stream, caller: &Caller<'_>, asked: &Asked) -> Result<()> {
        let info = self.core.driver.capture_info(stream)?;
        if info.status != CaptureStatus::Active || info.terminals.is_empty() {
            return Ok(());
        }
        let context = match self.ladder.reuse.iter().position(|reuse| reuse.capture == info.id) {
            Some(context) => context,
            None => {
                let pool = self.route(stream, caller, asked)?;
                if !pool.is_private() {
                    return Err(Error::CaptureScope { stream });
                }
                self.ladder.reuse.push(Reuse { capture: info.id, pool, visited: BTreeMap::new() });
                self.ladder.reuse.len() - 1
            }
        };
        self.visit(context, stream, info)?;
        let ladder = &mut *self.ladder;
        let visited = &ladder.reuse[context].visited[&stream];
        let pools = &self.pools;
        let safe = |deferred: &Deferred| {
            pools[deferred.pool as usize].key.stream == stream
                && !deferred.markers.is_empty()
                && deferred.markers.iter().all(|marker| visited.contains(marker))
        };
        let (free, wait): (Vec<_>, Vec<_>) = std::mem::take(&mut ladder.deferred).into_iter().partition(safe);
        ladder.deferred = wait;
        for Deferred { pool, block, .. } in free {
            self.take_uses(pool, block);
            self.complete_free(pool, block, Some(caller));
        }
        self.set_gates();
        Ok(())
    }

    /// Adds what can be reached backwards from where a stream stands to what was reached before.
    fn visit(&mut self, context: usize, stream: Stream, info: CaptureInfo) -> Result<()> {
        let driver = &self.core.driver;
        let visited = self.ladder.reuse[context].visited.entry(stream).or_default();
        let mut ahead = info.terminals;
        while let Some(node) = ahead.pop() {
            if visited.insert(node) {
                ahead.extend(driver.node_dependencies(node)?);
            }
        }
        Ok(())
    }

    /// The end of a capture's scope: what was deferred in its pool waits only for streams recorded outside (R5.34).
    pub fn end_reuse_in_pool(&mut self, id: PoolId) -> Result<()> {
        if !self.ladder.settings.graph_capture_record_stream_reuse {
            return Ok(());
        }
        for reuse in self.ladder.reuse.iter().filter(|reuse| reuse.pool == id) {
            for &stream in reuse.visited.keys() {
                if self.core.driver.capture_info(stream)?.status == CaptureStatus::Active {
                    return Err(Error::CaptureScope { stream });
                }
            }
        }
        self.ladder.reuse.retain(|reuse| reuse.pool != id);
        let pools = &self.pools;
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ladder.deferred)
            .into_iter()
            .partition(|deferred| pools[deferred.pool as usize].key.memory_pool == id);
        self.ladder.deferred = others;
        let mut mine = mine.into_iter();
        while let Some(Deferred { pool, block, .. }) = mine.next() {
            if let Err(error) = self.free_deferred_block(pool, block, None) {
                self.ladder.deferred.extend(mine);
                return Err(error);
            }
        }
        self.set_gates();
        Ok(())
    }
}
