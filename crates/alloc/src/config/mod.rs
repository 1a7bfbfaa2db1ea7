//! Settings: what can be set, the grammar it is written in, and what is wrong with a text that is not understood.

mod settings;

pub use settings::{Backend, PageReuse, Preset, Reserve, Settings};
