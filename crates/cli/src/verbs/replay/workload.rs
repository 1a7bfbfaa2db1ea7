//! A workload: requests, one a line.

use std::path::Path;

use millpond_driver::Bytes;
use millpond_replay::Op;
use millpond_report::replay::Kind;

use super::args::Events;
use super::requests::{Source, replay};
use super::{Answer, Args};
use crate::content::Whole;
use crate::failure::Stop;
use crate::opened;
use crate::shell::Shell;

/// A device of this memory, unless something else is said.
const CAPACITY: Bytes = Bytes(80 << 30);

/// Replays the requests of a file.
pub fn run(args: &Args, path: &Path, whole: Whole, shell: &mut Shell) -> Result<Answer, Stop> {
    let workload = opened::workload(path, whole, args.allow_expansion)?;
    let says = |op: &Op| matches!(op, Op::Advance { .. } | Op::Complete { .. });
    if args.events.is_none() && workload.ops.iter().any(says) {
        shell.note(
            "the workload says when events complete, but here they complete as soon as they are recorded; --events manual \
             leaves it to the workload, --events immediate leaves this note out",
        );
    }
    let source = Source {
        name: &path.display().to_string(),
        kind: Kind::Workload,
        seed: None,
        capacity: args.capacity.unwrap_or(CAPACITY),
        others: args.others.unwrap_or_default(),
        events: args.events.unwrap_or(Events::Immediate).mode(),
    };
    replay(args, &workload, &source, shell)
}
