//! Requests that failed, and requests that make no sense.

use millpond::config::ConfigError;
use millpond_driver::DriverError;

/// Why a request could not be carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The allocator's error.
    #[error(transparent)]
    Allocator(#[from] millpond::Error),
    /// The driver's error, from a call of the program itself.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Settings that were not understood.
    #[error(transparent)]
    Settings(#[from] ConfigError),
}

impl Failure {
    /// Whether it is an out-of-memory error of the allocator.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Failure::Allocator(error) if error.is_out_of_memory())
    }
}

/// A workload that cannot be run beyond a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {request}: {why}")]
pub struct RunError {
    /// The request's number, counted from 0.
    pub request: u64,
    /// What makes no sense.
    #[source]
    pub why: Nonsense,
}

/// What makes no sense about a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// An id that was never allocated.
    #[error("allocation {id} was never made")]
    UnknownId {
        /// The id.
        id: u64,
    },
    /// An id that was freed.
    #[error("allocation {id} was freed before")]
    FreedId {
        /// The id.
        id: u64,
    },
    /// A second allocation under one id.
    #[error("allocation {id} is still live; free it before its id is used again")]
    IdInUse {
        /// The id.
        id: u64,
    },
    /// A pool that was not made, or is gone.
    #[error("there is no pool {pool}; 'pool_create' makes one")]
    UnknownPool {
        /// The pool.
        pool: u32,
    },
    /// A second pool under one number.
    #[error("pool {pool} exists already; 'pool_destroy' it before its number is used again")]
    PoolInUse {
        /// The pool.
        pool: u32,
    },
    /// A graph that was never captured.
    #[error("there is no graph {graph}; 'capture_begin' makes one")]
    UnknownGraph {
        /// The graph.
        graph: u32,
    },
    /// A capture into a graph that exists.
    #[error("graph {graph} was captured already; 'graph_reset' it before its number is used again")]
    GraphInUse {
        /// The graph.
        graph: u32,
    },
    /// An end of a capture that is not under way.
    #[error("no capture into graph {graph} is under way")]
    NotCapturing {
        /// The graph.
        graph: u32,
    },
    /// An event that was never recorded.
    #[error("event {event} was never recorded")]
    UnknownEvent {
        /// The event.
        event: u32,
    },
    /// A device that the machine does not have.
    #[error("there is no device {device}")]
    UnknownDevice {
        /// The device.
        device: u32,
    },
}
