//! Graphs take pinned memory too: a capture opens the pool of its id in every cache of the world (R5.23–R5.25).

use super::HostCache;
use crate::error::Result;
use crate::private::PoolId;
use crate::routing::Filter;
use crate::world::World;

/// References to the pools of pinned memory of one graph, one in each cache. They go when this is dropped (R5.25); the caches
/// live as long, since the graph's copies name their memory.
#[derive(Debug)]
pub(crate) struct GraphPools {
    pool: PoolId,
    caches: Vec<HostCache>,
}

/// The same with the scopes open: a capture under way.
#[derive(Debug)]
pub(crate) struct HostScopes(GraphPools);

impl HostScopes {
    /// Opens the scopes, all or none.
    ///
    /// # Errors
    /// [`crate::Error::ScopeOpen`].
    pub fn open(world: &World, pool: PoolId, filter: &Filter) -> Result<Self> {
        let mut scopes = HostScopes(GraphPools { pool, caches: Vec::new() });
        for cache in world.host_caches() {
            // What was opened before closes again if this one cannot.
            cache.core.lock().open_scope(pool, filter.clone())?;
            scopes.0.caches.push(cache);
        }
        Ok(scopes)
    }

    /// Closes the scopes; the references stay.
    pub fn close(mut self) -> GraphPools {
        self.end();
        let pool = self.0.pool;
        std::mem::replace(&mut self.0, GraphPools { pool, caches: Vec::new() })
    }

    fn end(&mut self) {
        for cache in &self.0.caches {
            // Whoever closed the scope by hand already has had what he wanted.
            let _ = cache.end_allocate_to_pool(self.0.pool);
        }
    }
}

impl Drop for HostScopes {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for GraphPools {
    fn drop(&mut self) {
        for cache in &self.caches {
            // Nor is it an error when the last reference was dropped by hand.
            let _ = cache.release_pool(self.pool);
        }
    }
}
