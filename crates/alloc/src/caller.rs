//! Who calls: the thread, its current stream, its stack.
//!
//! Whether a call happens in a capture is a property of the calling thread's current stream, not of the request (R5.22),
//! so every call takes its caller.

use std::sync::Arc;
use std::thread::ThreadId;

use millpond_driver::Stream;
use millpond_snapshot::Frame;

/// A recorded call stack, innermost frame first; shared by everything that was allocated there.
pub type Stack = Arc<[Frame]>;

/// Where stacks come from. Called before any lock is taken, and only while the history level asks for it (R2.2 step 0, C77).
pub trait StackSource {
    /// The calling thread's stack.
    fn capture(&self) -> Option<Stack>;
}

/// A thread, for routing by thread (R5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thread {
    /// A thread of this process.
    Os(ThreadId),
    /// A thread that a replay only speaks of.
    Named(u64),
}

impl Thread {
    /// The calling thread.
    pub fn current() -> Self {
        Thread::Os(std::thread::current().id())
    }
}

/// Who calls the allocator.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The calling thread's current stream on the device (R5.22).
    pub stream: Stream,
    /// The thread, where it is not the one that makes the call.
    pub thread: Option<Thread>,
    /// How to get the caller's stack.
    pub stack: Option<&'a dyn StackSource>,
    /// The thread's user metadata (R9.23).
    pub metadata: Option<&'a Arc<str>>,
    /// The enclosing compiled region (R9.22).
    pub compile_context: Option<&'a Arc<str>>,
}

impl Caller<'static> {
    /// The calling thread with `stream` as its current stream, and nothing else known.
    pub const fn on(stream: Stream) -> Self {
        Caller { stream, thread: None, stack: None, metadata: None, compile_context: None }
    }
}

impl Caller<'_> {
    /// Whether its events carry more than others.
    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        self.metadata.is_some() || self.compile_context.is_some()
    }

    pub(crate) fn thread(&self) -> Thread {
        self.thread.unwrap_or_else(Thread::current)
    }
}

impl std::fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("stream", &self.stream).field("thread", &self.thread).finish_non_exhaustive()
    }
}
