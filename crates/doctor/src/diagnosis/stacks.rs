//! Where in a program blocks come from.

use millpond_replay::snapshot::Recording;
use millpond_snapshot::{Action, StackId};
use rustc_hash::FxHashMap;

use crate::frames::lines;

/// Where the blocks that were live at a moment were allocated.
pub struct Origins<'s> {
    recording: &'s Recording<'s>,
    /// The last allocation at an address, before the moment.
    made: FxHashMap<u64, usize>,
    /// Of blocks that are older than the trace.
    before: FxHashMap<u64, StackId>,
    now: usize,
}

/// Where a block comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Trace entries since it was allocated; `None` if it is older than the trace.
    pub age: Option<u64>,
    /// Microseconds since it was allocated, where entries have times.
    pub age_us: Option<u64>,
    /// Where it was allocated, innermost first.
    pub stack: Vec<String>,
}

impl<'s> Origins<'s> {
    /// Those at the moment after an entry; without one, what the file says of its blocks.
    pub fn at(recording: &'s Recording<'s>, entry: Option<usize>) -> Self {
        let trace = recording.snapshot.trace(recording.device);
        let now = entry.unwrap_or(0);
        let until = entry.map_or(0, |entry| entry + 1);
        let allocs = trace[..until].iter().enumerate().filter(|(_, entry)| entry.action == Action::Alloc);
        let made = allocs.map(|(index, entry)| (entry.addr, index)).collect();
        Origins { recording, made, before: recording.start_stacks(), now }
    }

    /// That of the block at an address.
    pub fn of(&self, address: u64) -> Origin {
        let snapshot = self.recording.snapshot;
        let trace = snapshot.trace(self.recording.device);
        let Some(&index) = self.made.get(&address) else {
            let stack = self.before.get(&address);
            return Origin { stack: stack.map_or(Vec::new(), |&stack| lines(snapshot, stack)), ..Origin::default() };
        };
        let time = |index: usize| trace[index].time_us.map(|time| time.get());
        Origin {
            age: Some((self.now - index) as u64),
            age_us: time(self.now).and_then(|now| Some(now.saturating_sub(time(index)?))),
            stack: trace[index].stack.map_or(Vec::new(), |stack| lines(snapshot, stack)),
        }
    }
}
