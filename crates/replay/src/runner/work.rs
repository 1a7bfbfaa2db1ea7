//! Work on streams and the order between them.

use millpond_driver::{Memory, Order, Result};

use super::{Nonsense, Outcome, Runner, Step, done};
use crate::workload::Launch;

impl Runner {
    /// Stream `b` waits for what stream `a` has so far. The event is the program's own and gone at once, as a program's
    /// temporary is; the wait stays.
    pub(super) fn fork_join(&mut self, a: u32, b: u32) -> Result<()> {
        let (a, b) = (self.stream(a), self.stream(b));
        self.own.event_records += 1;
        self.own.stream_waits += 1;
        let sim = self.sim();
        let event = sim.event_create(self.device)?;
        let ordered = sim.event_record(event, a).and_then(|()| sim.stream_wait_event(b, event));
        sim.event_destroy(event)?;
        ordered
    }

    pub(super) fn event_record(&mut self, event: u32, stream: u32) -> Result<()> {
        let stream = self.stream(stream);
        let event = match self.waits.named(event) {
            Some(event) => event,
            None => {
                let made = self.sim().event_create(self.device)?;
                self.waits.name(event, made);
                made
            }
        };
        self.own.event_records += 1;
        self.sim().event_record(event, stream)
    }

    pub(super) fn event_wait(&mut self, event: u32, stream: u32) -> Step {
        let event = self.waits.named(event).ok_or(Nonsense::UnknownEvent { event })?;
        self.own.stream_waits += 1;
        Ok(done(self.sim().stream_wait_event(self.stream(stream), event)))
    }

    /// A fill of a whole allocation.
    pub(super) fn work(&mut self, id: u64, stream: u32) -> Step {
        let Some((addr, bytes)) = self.range(id)? else { return Ok(Outcome::Done) };
        Ok(done(self.sim().memset_async(addr, 0, bytes, self.stream(stream))))
    }

    pub(super) fn launch(&mut self, launch: &Launch) -> Step {
        let reads = self.ranges(&launch.reads)?;
        let writes = self.ranges(&launch.writes)?;
        let stream = self.stream(launch.stream);
        let label = self.name_of_work(&launch.label);
        Ok(done(self.sim().launch_as(&label, stream, launch.us, &reads, &writes)))
    }

    /// (address, bytes) of an allocation; `None` if there is no memory behind it.
    fn range(&self, id: u64) -> std::result::Result<Option<(u64, u64)>, Nonsense> {
        let Some(addr) = self.address(id)?.filter(|&addr| addr != 0) else { return Ok(None) };
        Ok(self.owner(id).size_of(addr).map(|(requested, _)| (addr, requested)))
    }

    fn ranges(&self, ids: &[u64]) -> std::result::Result<Vec<(u64, u64)>, Nonsense> {
        ids.iter().filter_map(|&id| self.range(id).transpose()).collect()
    }
}
