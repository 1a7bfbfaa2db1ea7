//! PyTorch's CUDA caching allocator, as a library of its own.
#![forbid(unsafe_code)]

pub mod config;
pub mod size;

mod address_index;
mod allocator;
mod block;
mod buffer;
mod caller;
mod capture;
mod checkpoint;
mod device;
mod error;
mod event;
mod exact;
mod expandable;
mod free_list;
mod host;
mod ladder;
mod live;
mod mem_pool;
mod oom;
mod order;
mod pending;
mod pool;
mod private;
mod reclaim;
mod routing;
mod seed;
mod segment;
mod snapshot;
mod stats;
mod stream_ordered;
mod trace;
mod verify;
mod view;
mod world;

pub use allocator::{Allocator, ExpandableSegment};
pub use buffer::{Buffer, OnStream, StreamUse};
pub use caller::{Caller, Stack, StackSource, Thread};
pub use checkpoint::{Checkpoint, Restored};
pub use device::FreeMemoryCallback;
pub use error::{Error, Result};
pub use event::{Action, Event, Observer};
pub use host::{HostCache, HostStats, PinnedBuffer, PinnedUse, TimeStat};
pub use mem_pool::{Capture, CapturedGraph, MemPool, MemPoolOptions, Scope};
pub use oom::{Hint, Oom, OomObserver};
pub use private::{CustomAllocator, PoolId};
pub use routing::Filter;
pub use stats::{Metric, Stat, Stats, memory_summary};
pub use stream_ordered::{DriverPoolError, Operation, PoolOom, StreamOrdered};
pub use trace::{HistoryOptions, Level};
pub use verify::Violation;
pub use view::{BlockState, BlockUse, SegmentState};
pub use world::{TieOrder, World};
