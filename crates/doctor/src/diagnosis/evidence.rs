//! How far a recording can be trusted.

use millpond::TieOrder;
use millpond_replay::snapshot::{Recording, Trust};
use millpond_snapshot::{Action, StackId};
use serde::Serialize;

/// What speaks for and against what a recording says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Allocations and errors in the trace.
    pub decisions: u64,
    /// Those that a replay of the recorded settings makes just so: the same address, or an error.
    pub reproduced: u64,
    /// The order of ties among free blocks that reproduces more.
    #[serde(serialize_with = "by_name")]
    pub order: TieOrder,
    /// Whether entries of the trace were overwritten: blocks that were allocated while stacks were recorded have no entry.
    pub overflowed: bool,
    /// Whether memory was freed after the error and before the file was written: then the final state is not that of the
    /// error, and the account is the final state taken back to it.
    pub after_unwind: bool,
    /// Entries that do not fit the state that they should have led to.
    pub contradictions: u64,
    /// Blocks in use when the trace began.
    pub older_blocks: u64,
    /// Bytes that were held from the driver when the trace began.
    pub older_reserved: u64,
}

fn by_name<S: serde::Serializer>(order: &TieOrder, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match order {
        TieOrder::Registration => "registration",
        TieOrder::Address => "address",
    })
}

impl Evidence {
    /// That of a recording, with what its replay came to, if it was replayed.
    pub fn of(recording: &Recording<'_>, trust: Option<Trust>) -> Self {
        let trace = recording.snapshot.trace(recording.device);
        let after = recording.first_oom.map_or(&[][..], |oom| &trace[oom.entry + 1..]);
        let stacks = &recording.snapshot.stacks;
        let is_traced = |&stack: &StackId| stacks.frames(stack).next().is_some();
        Evidence {
            decisions: trust.map_or(0, |trust| trust.decisions),
            reproduced: trust.map_or(0, |trust| trust.reproduced),
            order: trust.map_or(TieOrder::Registration, |trust| trust.tie_order),
            overflowed: !trace.is_empty() && recording.start_stacks().values().any(is_traced),
            after_unwind: after.iter().any(|entry| entry.action == Action::FreeRequested),
            contradictions: recording.start.contradictions,
            older_blocks: recording.start.in_use().count() as u64,
            older_reserved: recording.start.reserved(),
        }
    }
}
