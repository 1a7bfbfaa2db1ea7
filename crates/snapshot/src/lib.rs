//! PyTorch's CUDA memory snapshots: read, held, summed up, written.
//!
//! `torch.cuda.memory._dump_snapshot` writes a pickle: the segments of every device with their
//! blocks, and a trace of what happened to them. The file comes from somebody else's machine, may
//! be cut off or made to do harm, and is nearly all call stacks, which many entries share. So:
//!
//! - [`pickle`] reads with a machine of its own that only builds plain data. It never calls
//!   anything, never recurses, and takes less than 16 times the size of the file and 64 MiB.
//! - While it reads, each trace entry becomes a [`TraceEntry`] of 64 bytes and each list of frames
//!   a [`StackId`]. What is shared in the file is one row of a table here ([`Stacks`],
//!   [`NotesTable`], [`Values`]) and is written once again.
//! - [`Snapshot`] is what all versions of the form come to: a dict or a bare list, the block
//!   histories of 2023, missing keys. Unknown keys are kept and written back.
//! - [`Snapshot::summary`] gives the figures of a state and says what does not add up.
//!
//! ```
//! use millpond_snapshot::{Block, BlockState, Frame, Segment, Snapshot};
//!
//! let mut snapshot = Snapshot::default();
//! let stack = snapshot.stacks.intern(&[Frame::new("forward", "model.py", 12)]);
//! let block = Block { size: 512, requested_size: 500, state: BlockState::ActiveAllocated, stack, ..Block::default() };
//! snapshot.segments.push(Segment { total_size: 512, blocks: vec![block], ..Segment::default() });
//!
//! let mut file = Vec::new();
//! snapshot.write_pickle(&mut file)?;
//! let again = Snapshot::from_bytes(&file)?;
//! assert_eq!(again, snapshot);
//! assert_eq!(again.summary().devices[0].allocated, 512);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rules named `R9.…` are those of the project's description of PyTorch's behaviour.

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
mod zstd;

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
