//! PyTorch's CUDA caching allocator, as a library of its own.
#![forbid(unsafe_code)]

pub mod config;
pub mod size;

mod address_index;
mod allocator;
mod block;
mod caller;
mod capture;
mod device;
mod error;
mod event;
mod expandable;
mod free_list;
mod ladder;
mod oom;
mod order;
mod pending;
mod pool;
mod private;
mod reclaim;
mod routing;
mod segment;
mod stats;
mod trace;
mod world;

pub use allocator::{Allocator, ExpandableSegment};
pub use caller::{Caller, Stack, StackSource, Thread};
pub use device::FreeMemoryCallback;
pub use error::{Error, Result};
pub use event::{Action, Event, Observer};
pub use oom::{Hint, Oom, OomObserver};
pub use private::{CustomAllocator, PoolId};
pub use routing::Filter;
pub use stats::{Metric, Stat, Stats, memory_summary};
pub use trace::{HistoryOptions, Level};
pub use world::World;
