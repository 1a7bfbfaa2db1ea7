//! Stacks in words.

use millpond_snapshot::{Frame, Snapshot, StackId};

/// A stack as lines `file:line function`, innermost first.
pub(crate) fn lines(snapshot: &Snapshot, stack: StackId) -> Vec<String> {
    let line = |frame: &Frame| format!("{}:{} {}", frame.filename, frame.line, frame.name);
    snapshot.stacks.frames(stack).map(line).collect()
}
