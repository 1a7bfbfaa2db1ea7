//! Events of the program: those it names, and marks behind its frees, by which a `complete` finds what to wait for.

use millpond_driver::{Event, Order, Stream};
use rustc_hash::FxHashMap;

use super::{Outcome, Runner, Step, done};

#[derive(Debug, Default)]
pub(super) struct Waits {
    named: FxHashMap<u32, Event>,
    /// Whether frees are marked. A mark is an event like any other, so a workload without `complete` does without.
    tracked: bool,
    /// Streams that use a live allocation.
    uses: FxHashMap<u64, Vec<Stream>>,
    /// Behind what a freed allocation waits for.
    marks: FxHashMap<u64, Vec<Event>>,
}

impl Waits {
    pub fn are_tracked(&self) -> bool {
        self.tracked
    }

    pub fn named(&self, event: u32) -> Option<Event> {
        self.named.get(&event).copied()
    }

    pub fn name(&mut self, name: u32, event: Event) {
        self.named.insert(name, event);
    }

    pub fn used(&mut self, id: u64, stream: Stream) {
        let uses = self.uses.entry(id).or_default();
        if !uses.contains(&stream) {
            uses.push(stream);
        }
    }
}

impl Runner {
    /// Marks frees from now on, so that `complete` can be used. Call it before the first request.
    pub fn expect_completions(&mut self) {
        self.waits.tracked = true;
    }

    /// After a free: marks where the streams that use the allocation stand. A failure leaves no mark, and the allocation
    /// completes with the next synchronisation.
    pub(super) fn mark_free(&mut self, id: u64) {
        self.drop_marks(id);
        for stream in self.waits.uses.remove(&id).unwrap_or_default() {
            if self.is_capturing(stream) {
                continue;
            }
            let Ok(event) = self.sim().event_create(stream.device) else { continue };
            self.own.event_records += 1;
            if self.sim().event_record(event, stream).is_ok() {
                self.waits.marks.entry(id).or_default().push(event);
            }
        }
    }

    fn drop_marks(&mut self, id: u64) {
        for event in self.waits.marks.remove(&id).unwrap_or_default() {
            // An event that the driver does not know is gone as well.
            let _ = self.sim().event_destroy(event);
        }
    }

    /// What a freed allocation waits for is done: its events complete, and the allocator looks.
    pub(super) fn complete(&mut self, id: u64) -> Step {
        let Some(marks) = self.waits.marks.get(&id) else { return Ok(Outcome::Done) };
        self.own.event_syncs += marks.len() as u64;
        let waited = marks.iter().try_for_each(|&event| self.sim().event_synchronize(event));
        self.drop_marks(id);
        if let Err(error) = waited {
            return Ok(Outcome::Failed(error.into()));
        }
        Ok(done(self.owner(id).process_events(&self.caller())))
    }
}
