//! What was found, shown: tables for a terminal, JSON for programs.
//!
//! Nothing is computed here. Every function takes what another crate found and says it in one of two ways:
//!
//! - *for people*: a text, with colours where [`Paint`] is on. Sizes stand as `140MiB` beside their exact bytes.
//! - *for programs*: a value that serialises to an object with `"schema": 1` as its first key ([`Document`]). Sizes are
//!   bytes, addresses are numbers, times are microseconds.
//!
//! Texts that come from a file or an environment may hold anything; [`plain`] takes the teeth out of what would steer a
//! terminal.
//!
//! ```
//! use millpond_report::{Paint, stats};
//! use millpond_snapshot::{Block, Segment, Snapshot};
//!
//! let mut snapshot = Snapshot::default();
//! let block = Block { size: 2 << 20, ..Block::default() };
//! snapshot.segments.push(Segment { total_size: 2 << 20, blocks: vec![block], ..Segment::default() });
//! let summary = snapshot.summary();
//! assert!(stats::text(&summary, Paint::OFF).contains("2MiB"));
//! assert!(stats::json(&summary).starts_with("{\"schema\":1,"));
//! ```
#![forbid(unsafe_code)]

mod document;
mod grid;
mod paint;
mod words;

pub mod bench;
pub mod conf;
pub mod device;
pub mod diff;
pub mod doctor;
pub mod parity;
pub mod plan;
pub mod replay;
pub mod stats;
pub mod sweep;

pub use document::{Document, SCHEMA};
pub use grid::Grid;
pub use paint::Paint;
pub use words::{count, paragraph, plain};
