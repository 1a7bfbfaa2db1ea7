//! What the program asked for, read from a trace: segment events are the allocator's answers, not requests.

use millpond::PoolId;
use millpond_snapshot::{Action, TraceEntry};
use rustc_hash::{FxHashMap, FxHashSet};

use super::state::pool_id;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// `size` bytes, which the recorded allocator placed at `addr`.
    Alloc {
        /// The recorded address.
        addr: u64,
        /// Bytes asked for.
        size: u64,
        /// Raw handle of the stream.
        stream: u64,
        /// The memory pool.
        pool: PoolId,
    },
    /// The program gave a block back. `completes`: it was free at once.
    Free {
        /// The recorded address.
        addr: u64,
        /// Whether the next entry completes it.
        completes: bool,
    },
    /// Other streams are done with a block given back before.
    Complete {
        /// The recorded address.
        addr: u64,
    },
    /// A request that failed.
    Oom {
        /// Rounded bytes.
        size: u64,
        /// Raw handle of the stream.
        stream: u64,
        /// The memory pool.
        pool: PoolId,
        /// Bytes free on the device.
        device_free: u64,
    },
    /// A private pool's last owner has let go: its memory is given back next, and nothing is allocated from it later.
    ReleasePool {
        /// The memory pool.
        pool: PoolId,
    },
    /// The program emptied the cache. `pressed`: a new segment followed at once, so it may have been the allocator itself,
    /// short of memory.
    EmptyCache {
        /// Whether a new segment followed at once.
        pressed: bool,
    },
}

/// A request with what was recorded around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recorded {
    /// The request.
    pub request: Request,
    /// The index of its entry in the trace.
    pub entry: usize,
    /// Where the recorded allocator got new memory for it, if it did.
    pub new_memory: Option<NewMemory>,
}

/// The first entry with new memory for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewMemory {
    /// Its first byte.
    pub addr: u64,
    /// Pages mapped into an expandable segment, not a segment of its own.
    pub mapped: bool,
}

/// For each private pool of a trace the index of its last allocation.
fn last_allocations(trace: &[TraceEntry]) -> FxHashMap<PoolId, usize> {
    let allocs = trace.iter().enumerate().filter(|(_, entry)| matches!(entry.action, Action::Alloc | Action::Oom));
    allocs.map(|(at, entry)| (pool_id(entry.pool), at)).filter(|(pool, _)| pool.is_private()).collect()
}

/// The requests of a trace, in order.
pub fn requests(trace: &[TraceEntry]) -> Vec<Recorded> {
    let completions = trace.iter().any(|entry| entry.action == Action::FreeCompleted);
    let last = last_allocations(trace);
    let mut gone = FxHashSet::default();
    let mut requests = Vec::with_capacity(trace.len());
    let mut new_memory = None;
    let mut at = 0;
    while let Some(entry) = trace.get(at) {
        let (addr, size, stream, pool) = (entry.addr, entry.size, entry.stream, pool_id(entry.pool));
        let mut next = at + 1;
        let request = match entry.action {
            Action::Alloc => Some(Request::Alloc { addr, size, stream, pool }),
            Action::FreeRequested => {
                let follows =
                    trace.get(next).is_some_and(|next| next.action == Action::FreeCompleted && next.addr == addr);
                next += usize::from(follows);
                // Some tools write no completions at all.
                Some(Request::Free { addr, completes: follows || !completions })
            }
            Action::FreeCompleted => Some(Request::Complete { addr }),
            Action::Oom => Some(Request::Oom { size, stream, pool, device_free: addr }),
            Action::SegmentAlloc | Action::SegmentMap => {
                new_memory.get_or_insert(NewMemory { addr, mapped: entry.action == Action::SegmentMap });
                None
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                let released = |entry: &TraceEntry| matches!(entry.action, Action::SegmentFree | Action::SegmentUnmap);
                next = (next..trace.len()).find(|&next| !released(&trace[next])).unwrap_or(trace.len());
                for pool in trace[at..next].iter().map(|entry| pool_id(entry.pool)).filter(|pool| pool.is_private()) {
                    let over = last.get(&pool).is_none_or(|&last| last < at);
                    if over && gone.insert(pool) {
                        requests.push(Recorded { request: Request::ReleasePool { pool }, entry: at, new_memory: None });
                    }
                }
                let after = trace.get(next).map(|entry| entry.action);
                let pressed = matches!(after, Some(Action::SegmentAlloc | Action::SegmentMap));
                // Before an OOM the allocator released what it could: the failing request does so again.
                (after != Some(Action::Oom)).then_some(Request::EmptyCache { pressed })
            }
            Action::Snapshot | Action::Annotate | Action::Other => None,
        };
        if let Some(request) = request {
            let mine = matches!(request, Request::Alloc { .. } | Request::Oom { .. });
            requests.push(Recorded { request, entry: at, new_memory: if mine { new_memory.take() } else { None } });
        }
        at = next;
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: Action, addr: u64) -> TraceEntry {
        TraceEntry { action, addr, size: 512, ..TraceEntry::default() }
    }

    #[test]
    fn segment_events_are_answers_and_runs_of_frees_an_emptied_cache() {
        use Action::*;
        let trace = [
            entry(SegmentAlloc, 0x1000),
            entry(Alloc, 0x1000),
            entry(FreeRequested, 0x1000),
            entry(FreeCompleted, 0x1000),
            entry(SegmentFree, 0x1000),
            entry(SegmentFree, 0x2000),
            entry(Alloc, 0x3000),
            entry(FreeRequested, 0x3000),
            entry(SegmentFree, 0x4000),
            entry(Oom, 77),
            entry(FreeCompleted, 0x3000),
        ];
        let pool = PoolId::DEFAULT;
        let expected = [
            (
                Request::Alloc { addr: 0x1000, size: 512, stream: 0, pool },
                1,
                Some(NewMemory { addr: 0x1000, mapped: false }),
            ),
            (Request::Free { addr: 0x1000, completes: true }, 2, None),
            (Request::EmptyCache { pressed: false }, 4, None),
            (Request::Alloc { addr: 0x3000, size: 512, stream: 0, pool }, 6, None),
            (Request::Free { addr: 0x3000, completes: false }, 7, None),
            (Request::Oom { size: 512, stream: 0, pool, device_free: 77 }, 9, None),
            (Request::Complete { addr: 0x3000 }, 10, None),
        ];
        let expected = expected.map(|(request, entry, new_memory)| Recorded { request, entry, new_memory });
        assert_eq!(requests(&trace), expected);
    }
}
