//! The timelines of a replay: what the allocators did, told by themselves.

use std::sync::{Arc, Mutex, PoisonError};

use millpond::{Action, Allocator, Event, Observer};
use millpond_replay::{Program, RunError};
use millpond_snapshot::StackId;

use super::Timeline;
use super::builder::{Builder, Told};
use super::recorded::class_of;

/// Where a request of a replay comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    /// Its number in the workload, or the index of its entry in the trace.
    pub at: u32,
    /// Where the program made it.
    pub stack: StackId,
}

/// Runs a program to its end, or until `wanted` says that the request that comes next (counted from 0) is one too many, and
/// writes a timeline for each device of its machine. `start_stack` names the stack of a block that is there before the first
/// request, by its address.
///
/// # Errors
/// A request that makes no sense.
pub fn replayed(
    program: &mut impl Program,
    start_stack: impl Fn(u64) -> StackId,
    wanted: impl Fn(u64) -> Option<Origin>,
) -> Result<Vec<Timeline>, RunError> {
    let machine = program.machine().clone();
    let mut devices: Vec<Watched> = Vec::new();
    for allocator in machine.allocators() {
        let mut builder = Builder::default();
        builder.start(&allocator.segments(), &start_stack);
        let heard = Arc::new(Heard::default());
        allocator.attach_observer(Arc::<Heard>::clone(&heard));
        devices.push(Watched { allocator, heard, builder });
    }
    let mut request = 0;
    while let Some(origin) = wanted(request)
        && program.next_request()?.is_some()
    {
        devices.iter_mut().for_each(|device| device.take(origin));
        request += 1;
    }
    Ok(devices.into_iter().map(|device| device.builder.finish()).collect())
}

/// What an allocator told and nobody has written down yet.
#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Observer for Heard {
    fn events(&self, events: &[Event]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(events);
    }
}

struct Watched<'m> {
    allocator: &'m Allocator,
    heard: Arc<Heard>,
    builder: Builder,
}

impl Watched<'_> {
    /// Writes down what came of one request.
    fn take(&mut self, origin: Origin) {
        let events = std::mem::take(&mut *self.heard.0.lock().unwrap_or_else(PoisonError::into_inner));
        // New memory is for the request, which is told last.
        let served = events.iter().rev().find(|event| matches!(event.action, Action::Alloc | Action::Oom));
        let served = served.map(|event| class_of(event.size));
        for event in &events {
            let is_new = matches!(event.action, Action::SegmentAlloc | Action::SegmentMap);
            let told = Told {
                at: origin.at,
                action: event.action,
                addr: event.addr,
                size: event.size,
                block_size: match event.action {
                    Action::Alloc => self.block_size(event),
                    _ => 0,
                },
                stream: event.stream.raw,
                pool: event.pool,
                class: served.filter(|_| is_new).unwrap_or_else(|| class_of(event.size)),
                stack: origin.stack,
                time_us: Some(event.time_us),
            };
            let allocator = self.allocator;
            self.builder.tell(told, |addr| reservation(allocator, event).unwrap_or((addr, event.size)));
        }
    }

    /// The block that was handed out; one that is gone again was at least what was asked for.
    fn block_size(&self, event: &Event) -> u64 {
        let rounded = || millpond::size::round_up(event.size.max(1), millpond::size::MIN_BLOCK);
        self.allocator.size_of(event.addr).map_or_else(rounded, |(_, size)| size)
    }
}

/// The expandable segment into which pages were just mapped. Asked for each new segment once, not for each mapping.
fn reservation(allocator: &Allocator, event: &Event) -> Option<(u64, u64)> {
    let segments = allocator.segments_of(event.pool);
    let around = |segment: &&millpond::SegmentState| {
        segment.expandable && segment.base <= event.addr && event.addr - segment.base < segment.size
    };
    segments.iter().find(around).map(|segment| (segment.base, segment.size))
}
