//! Which memory pool a request goes to: scopes and their filters (R1.7, R5.5–R5.7).

use std::sync::{Arc, OnceLock};

use millpond_driver::{CaptureStatus, Stream};

use crate::caller::{Caller, Thread};
use crate::device::{Core, Held};
use crate::error::{Error, Result};
use crate::private::PoolId;

/// Which requests a scope takes (R5.6).
#[derive(Clone)]
pub enum Filter {
    /// All of them.
    Any,
    /// Those of one thread.
    Thread(Thread),
    /// Those on one stream.
    Stream(Stream),
    /// Those on streams that take part in a capture; its id is set once it has begun, and before that nothing matches (R5.23).
    Capture(Arc<OnceLock<u64>>),
    /// Whatever the function accepts. Asked under none of the allocator's locks.
    Custom(Arc<dyn Fn(Stream) -> bool + Send + Sync>),
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Filter::Any => f.write_str("Any"),
            Filter::Thread(thread) => write!(f, "Thread({thread:?})"),
            Filter::Stream(stream) => write!(f, "Stream({stream:?})"),
            Filter::Capture(id) => write!(f, "Capture({:?})", id.get()),
            Filter::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// An open scope.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub pool: PoolId,
    pub filter: Filter,
}

/// The answers of custom filters about one stream, asked before any lock is taken.
#[derive(Debug, Default)]
pub(crate) struct Asked(Vec<(PoolId, bool)>);

impl Core {
    /// Asks the custom filters about a stream, outside of all locks.
    pub fn ask_filters(&self, stream: Stream) -> Asked {
        let custom: Vec<_> = {
            let held = self.hold_ladder();
            let custom = held.scopes.iter().filter_map(|scope| match &scope.filter {
                Filter::Custom(accepts) => Some((scope.pool, Arc::clone(accepts))),
                _ => None,
            });
            custom.collect()
        };
        Asked(custom.into_iter().map(|(pool, accepts)| (pool, accepts(stream))).collect())
    }
}

impl Held<'_> {
    /// The memory pool of a request: the newest scope that accepts its stream, else the default (R1.7).
    pub fn route(&self, stream: Stream, caller: &Caller<'_>, asked: &Asked) -> Result<PoolId> {
        let mut capture = None;
        for scope in self.ladder.scopes.iter().rev() {
            let accepts = match &scope.filter {
                Filter::Any => true,
                Filter::Thread(thread) => *thread == caller.thread(),
                Filter::Stream(only) => *only == stream,
                Filter::Custom(_) => asked.0.iter().any(|&(pool, accepts)| pool == scope.pool && accepts),
                Filter::Capture(id) => match id.get() {
                    None => false,
                    Some(id) => {
                        if capture.is_none() {
                            let info = self.core.driver.capture_info(stream)?;
                            capture = Some((info.status == CaptureStatus::Active).then_some(info.id));
                        }
                        capture == Some(Some(*id))
                    }
                },
            };
            if accepts {
                return Ok(scope.pool);
            }
        }
        Ok(PoolId::DEFAULT)
    }

    /// Opens a scope: one more reference to the pool, which is made if it is not there (R5.5).
    pub fn begin_allocate_to_pool(&mut self, pool: PoolId, filter: Filter) -> Result<()> {
        if self.ladder.scopes.iter().any(|scope| scope.pool == pool) {
            return Err(Error::ScopeOpen { pool });
        }
        self.create_or_incref_pool(pool, None)?;
        self.ladder.scopes.push(Scope { pool, filter });
        self.set_gates();
        Ok(())
    }

    /// Closes a scope; the reference stays (R5.7).
    pub fn end_allocate_to_pool(&mut self, pool: PoolId) -> Result<()> {
        if !self.ladder.scopes.iter().any(|scope| scope.pool == pool) {
            return Err(Error::ScopeNotOpen { pool });
        }
        self.end_reuse_in_pool(pool)?;
        self.ladder.scopes.retain(|scope| scope.pool != pool);
        self.set_gates();
        Ok(())
    }
}
