//! Owned memory pools, scopes and captures: what PyTorch makes a silent mistake is an error or impossible here.

use std::marker::PhantomData;
use std::sync::Arc;

use millpond_driver::{CaptureMode, Graph, Stream};

use crate::allocator::Allocator;
use crate::caller::{Caller, Thread};
use crate::checkpoint::{Checkpoint, Restored};
use crate::custom::CustomAllocator;
use crate::error::Result;
use crate::host::{GraphPools, HostScopes};
use crate::private::PoolId;
use crate::routing::Filter;

/// Keeps a guard on its thread: a scope by thread means nothing on another one.
type NotSend = PhantomData<*const ()>;

/// A memory pool of one device. Dropping it gives its cached memory back (R5.12); live blocks keep theirs until they are
/// freed.
#[derive(Debug)]
pub struct MemPool {
    allocator: Allocator,
    id: PoolId,
}

/// How a [`MemPool`] behaves (R5.11).
#[derive(Clone, Debug, Default)]
pub struct MemPoolOptions {
    /// Where segments come from, if not from the driver.
    pub custom: Option<Arc<dyn CustomAllocator>>,
    /// Whether the default pools may borrow cached blocks before they fail. Blocks of expandable segments are not lent.
    pub use_on_oom: bool,
    /// Whether every request takes a whole block.
    pub no_split: bool,
}

impl MemPool {
    /// A pool of its own.
    ///
    /// # Errors
    /// None that a fresh id can cause.
    pub fn new(allocator: &Allocator, options: MemPoolOptions) -> Result<Self> {
        MemPool::with_id(allocator, allocator.world().user_pool_id(), options)
    }

    /// A pool for graphs, with an id as graphs make them (R5.1).
    ///
    /// # Errors
    /// None that a fresh id can cause.
    pub fn for_graphs(allocator: &Allocator) -> Result<Self> {
        MemPool::with_id(allocator, allocator.world().graph_pool_id(), MemPoolOptions::default())
    }

    fn with_id(allocator: &Allocator, id: PoolId, options: MemPoolOptions) -> Result<Self> {
        allocator.create_or_incref_pool(id, options.custom)?;
        let pool = MemPool { allocator: allocator.clone(), id };
        if options.use_on_oom {
            allocator.set_use_on_oom(id, true)?;
        }
        if options.no_split {
            allocator.set_no_split(id)?;
        }
        Ok(pool)
    }

    /// The pool's id.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Routes the calling thread's requests to the pool while the scope lives (R5.13).
    ///
    /// # Errors
    /// [`crate::Error::ScopeOpen`] when a scope for the pool is open.
    pub fn enter(&self) -> Result<Scope<'_>> {
        self.allocator.begin_allocate_to_pool(self.id, Filter::Thread(Thread::current()))?;
        Ok(Scope { pool: self, not_send: PhantomData })
    }

    /// Captures the work of `stream`, with the pool's memory, while the guard lives (R5.23). Pinned memory for it comes from
    /// the pool of the same id in every host cache of the world.
    ///
    /// # Errors
    /// The driver's, when the stream cannot capture; [`crate::Error::ScopeOpen`].
    pub fn capture(&self, stream: Stream, mode: CaptureMode) -> Result<Capture<'_>> {
        let host = self.allocator.begin_capture(stream, self.id, mode)?;
        Ok(Capture { pool: self, stream, host: Some(host), not_send: PhantomData })
    }

    /// Saves the pool's state (R5.38).
    ///
    /// # Errors
    /// As [`Allocator::checkpoint`].
    pub fn checkpoint(&self, caller: &Caller<'_>) -> Result<Checkpoint> {
        self.allocator.checkpoint(self.id, caller)
    }

    /// Brings the pool back to a saved state (R5.39).
    ///
    /// # Errors
    /// As [`Allocator::restore`].
    pub fn restore(&self, checkpoint: &Checkpoint, caller: &Caller<'_>) -> Result<Restored> {
        self.allocator.restore(checkpoint, caller)
    }
}

impl Drop for MemPool {
    fn drop(&mut self) {
        let caller = Caller::on(Stream::default_of(self.allocator.device()));
        let outcome = self
            .allocator
            .set_use_on_oom(self.id, false)
            .and_then(|()| self.allocator.release_pool(self.id))
            .and_then(|()| self.allocator.empty_pool_cache(self.id, &caller));
        self.allocator.note(outcome);
    }
}

/// The calling thread allocates from a pool while this lives.
#[derive(Debug)]
#[must_use = "the scope closes when it is dropped"]
pub struct Scope<'p> {
    pool: &'p MemPool,
    not_send: NotSend,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let MemPool { allocator, id } = self.pool;
        let outcome = allocator.end_allocate_to_pool(*id).and_then(|()| allocator.release_pool(*id));
        allocator.note(outcome);
    }
}

/// A capture under way. Dropped without [`Capture::end`] (by a panic, say) it ends the capture and throws the graph away.
#[derive(Debug)]
#[must_use = "end the capture to get its graph"]
pub struct Capture<'p> {
    pool: &'p MemPool,
    stream: Stream,
    /// Until it has ended.
    host: Option<HostScopes>,
    not_send: NotSend,
}

/// A captured graph and its reference to the pool; without it the pool's memory may go (R5.25).
#[derive(Debug)]
pub struct CapturedGraph {
    allocator: Allocator,
    pool: PoolId,
    graph: Graph,
    /// Dropped with the graph: its pinned memory is free then.
    _host: GraphPools,
}

impl Capture<'_> {
    /// The capturing stream.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// Ends the capture (R5.24).
    ///
    /// # Errors
    /// The driver's, when the capture was invalidated or streams have not joined. The pool is released all the same.
    pub fn end(mut self) -> Result<CapturedGraph> {
        let MemPool { allocator, id } = self.pool;
        let (graph, host) = self.finish()?;
        Ok(CapturedGraph { allocator: allocator.clone(), pool: *id, graph, _host: host })
    }

    /// The driver, the mark, the scopes, in PyTorch's order, whatever fails; the references go too when there is no graph.
    fn finish(&mut self) -> Result<(Graph, GraphPools)> {
        let host = self.host.take().expect("a capture ends once");
        let MemPool { allocator, id } = self.pool;
        let graph = allocator.told(allocator.driver().capture_end(self.stream));
        allocator.mark_capture_end();
        let scope = allocator.end_allocate_to_pool(*id);
        let host = host.close();
        match (graph, scope) {
            (Ok(graph), Ok(())) => Ok((graph, host)),
            (graph, scope) => {
                allocator.release_pool(*id)?;
                graph?;
                scope?;
                unreachable!("one of the two failed")
            }
        }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.host.is_none() {
            return;
        }
        let allocator = &self.pool.allocator;
        let outcome = self.finish().and_then(|(graph, _host)| {
            allocator.release_pool(self.pool.id)?;
            allocator.told(allocator.driver().graph_destroy(graph))
        });
        allocator.note(outcome);
    }
}

impl CapturedGraph {
    /// The driver's graph.
    pub fn graph(&self) -> Graph {
        self.graph
    }

    /// The pool its memory is in.
    pub fn pool(&self) -> PoolId {
        self.pool
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        let outcome = self.allocator.release_pool(self.pool);
        self.allocator.note(outcome);
        let outcome = self.allocator.told(self.allocator.driver().graph_destroy(self.graph));
        self.allocator.note(outcome);
    }
}
