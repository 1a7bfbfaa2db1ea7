//! `libmillpond.so`: the caching allocator behind a C interface.
//!
//! The header `include/millpond.h` is made from these files, so their comments are its documentation. A [`mp_world`] holds
//! the driver, the settings and one [`mp_allocator`] for each device; everything else is asked of one of the two. Each file
//! below is one family of functions. Panics do not leave (`status::caught`), pointers are judged in one place (`pointer`).
#![allow(non_camel_case_types, reason = "the names are those of the header")]
#![allow(clippy::missing_safety_doc, reason = "the header says it once: a pointer is null only where that is said")]

mod allocator;
mod caller;
mod checkpoint;
mod dump;
mod event;
mod history;
mod observers;
mod oom;
mod pages;
mod pluggable;
mod pointer;
mod pools;
mod process;
mod segments;
mod settings;
mod snapshot;
mod stacks;
mod stats;
mod status;
mod text;
mod world;

pub use allocator::*;
pub use caller::*;
pub use checkpoint::*;
pub use dump::*;
pub use event::*;
pub use history::*;
pub use observers::*;
pub use oom::*;
pub use pages::*;
pub use pluggable::*;
pub use pools::*;
pub use process::*;
pub use segments::*;
pub use settings::*;
pub use snapshot::*;
pub use stacks::*;
pub use stats::*;
pub use status::*;
pub use text::*;
pub use world::*;
