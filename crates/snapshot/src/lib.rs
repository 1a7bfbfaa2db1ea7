//! PyTorch's CUDA memory snapshots: read, held, summed up, written.
#![forbid(unsafe_code)]

mod convert;
mod equal;
mod index;
mod json;
mod load;
mod model;
mod notes;
mod packed;
pub mod pickle;
mod problem;
mod settings;
mod stacks;
mod summary;
mod trace;
mod values;
mod write;

pub use convert::ModelError;
pub use load::{LoadError, LoadOptions};
pub use model::{Annotation, Block, BlockState, Extra, PoolId, Segment, SegmentType, Snapshot};
pub use notes::{Notes, NotesId, NotesTable};
pub use packed::{EXPANSION, TooMuch, Unpacked};
pub use problem::Problem;
pub use settings::Settings;
pub use stacks::{Frame, FrameId, FxNode, StackId, Stacks};
pub use summary::{DeviceSummary, Summary};
pub use trace::{Action, TimeUs, TraceEntry};
pub use values::{Plain, ValueId, Values};
