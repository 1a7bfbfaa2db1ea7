//! A memory pool's own source of segments: how it is asked, and what of its memory is refused.

use std::sync::{Arc, PoisonError};

use millpond_driver::Stream;

use crate::caller::Thread;
use crate::device::{Held, Return};
use crate::error::{Error, Result};
use crate::ladder::Request;
use crate::private::PoolId;
use crate::sync::{Mutex, MutexGuard};

/// A memory pool's own source of segments (R5.18). Called under none of the allocator's locks.
///
/// It may call the allocator, but what it gives must come from elsewhere: memory that the allocator holds already is refused, and
/// so is a request that would ask it again while it is being asked.
pub trait CustomAllocator: std::fmt::Debug + Send + Sync {
    /// `bytes` of device memory, usable on `stream`; `None` counts as out of memory.
    fn raw_alloc(&self, bytes: u64, stream: Stream) -> Option<u64>;

    /// Takes back what [`CustomAllocator::raw_alloc`] gave, with the same size.
    fn raw_delete(&self, addr: u64, bytes: u64, stream: Stream);
}

/// Which memory pools' allocators are being asked, and by whom: each thread's own requests nest.
#[derive(Debug, Default)]
pub(crate) struct BeingAsked(Mutex<Vec<Question>>);

#[derive(Debug)]
struct Question {
    thread: Thread,
    pool: PoolId,
    /// It led to a request for the same pool.
    came_round: bool,
}

/// A question that is under way; dropped, also by a panic, it is over.
struct Asking<'a> {
    all: &'a BeingAsked,
    thread: Thread,
    pool: PoolId,
}

impl BeingAsked {
    fn locked(&self) -> MutexGuard<'_, Vec<Question>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a question, unless it is the thread's own of before.
    fn begin(&self, thread: Thread, pool: PoolId) -> Result<Asking<'_>> {
        let mut questions = self.locked();
        if let Some(before) = questions.iter_mut().find(|question| (question.thread, question.pool) == (thread, pool)) {
            before.came_round = true;
            return Err(Error::CustomAsksItself { pool });
        }
        questions.push(Question { thread, pool, came_round: false });
        Ok(Asking { all: self, thread, pool })
    }
}

impl Asking<'_> {
    fn came_round(&self) -> bool {
        let questions = self.all.locked();
        questions.iter().any(|question| self.is(question) && question.came_round)
    }

    fn is(&self, question: &Question) -> bool {
        (question.thread, question.pool) == (self.thread, self.pool)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.all.locked().retain(|question| !self.is(question));
    }
}

impl<'a> Held<'a> {
    /// Memory from the pool's own allocator; `None` when it has none.
    pub fn ask_custom(
        self,
        custom: &Arc<dyn CustomAllocator>,
        request: &Request<'_>,
    ) -> Result<(Held<'a>, Option<u64>)> {
        let (pool, bytes, stream) = (request.key.memory_pool, request.alloc_size, request.caller.stream);
        let asking = self.core.being_asked.begin(request.caller.thread(), pool)?;
        let (held, base) = self.outside(|| custom.raw_alloc(bytes, stream));
        match base {
            None if asking.came_round() => Err(Error::CustomAsksItself { pool }),
            None => Ok((held, None)),
            Some(base) => Ok((held.check_custom(custom, request, base)?, Some(base))),
        }
    }

    /// Refuses memory that a custom allocator gave before and has not taken back (C37), and memory that is the allocator's own,
    /// which goes back at once.
    fn check_custom(mut self, custom: &Arc<dyn CustomAllocator>, request: &Request<'_>, base: u64) -> Result<Held<'a>> {
        let (pool, bytes) = (request.key.memory_pool, request.alloc_size);
        let end = base.saturating_add(bytes);
        let before = self.ladder.custom_ranges.range(..end).next_back();
        if before.is_some_and(|(_, &other)| other > base) {
            return Err(Error::CustomOverlap { pool, addr: base });
        }
        if self.core.index.overlaps(base, bytes) {
            let stream = request.caller.stream;
            self.ladder.returns.push(Return { to: Arc::clone(custom), addr: base, bytes, stream });
            return Err(Error::CustomOverlap { pool, addr: base });
        }
        self.ladder.custom_ranges.insert(base, end);
        Ok(self)
    }
}
