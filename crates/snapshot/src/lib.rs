//! PyTorch's CUDA memory snapshots: read, held, summed up, written.
#![forbid(unsafe_code)]

mod index;
mod model;
mod notes;
mod settings;
mod stacks;
mod trace;
mod values;

pub use model::{Annotation, Block, BlockState, Extra, PoolId, Segment, SegmentType, Snapshot};
pub use notes::{Notes, NotesId, NotesTable};
pub use settings::Settings;
pub use stacks::{Frame, FrameId, FxNode, StackId, Stacks};
pub use trace::{Action, TimeUs, TraceEntry};
pub use values::{Plain, ValueId, Values};
