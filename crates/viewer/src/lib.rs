//! A device's past, to look at: a page for a browser, and files for other tools.
//!
//! - [`timeline`] is the one form behind all of them: what was held and in use, and from which event to which. It is read
//!   from a snapshot's trace ([`timeline::recorded`]) or written by a replay ([`timeline::replayed`]).
//! - [`Page`] writes one self-contained HTML file, which asks no network for anything, or its columns alone. Its sources are
//!   in `web/`; what `ci/web.sh` builds from them lies in `assets/`, so that building this crate needs no Node.
//! - [`export`] writes tables, a Perfetto trace, and a pickle that PyTorch's own viewer reads.
//!
//! ```
//! use millpond_replay::{Machine, Op, Setup, Workload, WorkloadRun};
//! use millpond_viewer::timeline::{Origin, replayed};
//!
//! let workload = Workload { ops: vec![Op::Alloc { id: 0, size: 600, stream: 0, pool: None }, Op::Free { id: 0 }] };
//! let mut run = WorkloadRun::new(&workload, &Machine::new(&Setup::default())?);
//! let origin = |request| Some(Origin { at: request as u32, ..Origin::default() });
//! let timelines = replayed(&mut run, |_| Default::default(), origin)?;
//! assert_eq!(timelines[0].blocks[0].size, 1024);
//! assert_eq!(timelines[0].walk().map(|totals| totals.active).max(), Some(1024));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod export;
pub mod timeline;

mod page;

pub use page::{Counted, Kind, MAGIC, Mark, Page, PageError, Panel, Verdict};
