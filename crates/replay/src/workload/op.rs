//! One request.

/// A request of a workload.
///
/// Streams, pools, graphs and events are named by small numbers that the workload chooses; stream 0 is the default stream.
/// An `id` names one allocation and may be used again after its free.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Allocate.
    Alloc {
        /// The allocation's name.
        id: u64,
        /// Bytes.
        size: u64,
        /// The stream, which is the caller's current one for this call.
        stream: u32,
        /// A memory pool that is active for this call alone.
        pool: Option<u32>,
    },
    /// Free; an allocation that failed is ignored.
    Free {
        /// The allocation.
        id: u64,
    },
    /// Another stream uses the allocation.
    RecordStream {
        /// The allocation.
        id: u64,
        /// The other stream.
        stream: u32,
    },
    /// What a freed allocation waits for is done, and the allocator notices.
    Complete {
        /// The allocation.
        id: u64,
    },
    /// The oldest pending events complete (event mode `manual`).
    Advance {
        /// How many.
        n: u64,
    },
    /// The device catches up with all work.
    Sync,
    /// The host waits for one stream.
    StreamSync {
        /// The stream.
        stream: u32,
    },
    /// Stream `b` waits for all work that stream `a` has so far.
    ForkJoin {
        /// Waited for.
        a: u32,
        /// Waits.
        b: u32,
    },
    /// A named event marks what a stream has so far.
    EventRecord {
        /// The event.
        event: u32,
        /// The stream.
        stream: u32,
    },
    /// A stream waits for a named event.
    EventWait {
        /// The event.
        event: u32,
        /// The stream.
        stream: u32,
    },
    /// A stream fills an allocation; in a capture that is a node.
    Work {
        /// The allocation.
        id: u64,
        /// The stream.
        stream: u32,
    },
    /// A kernel.
    Launch(Box<Launch>),
    /// Release cached memory.
    EmptyCache,
    /// Write the statistics.
    Checkpoint,
    /// Make a memory pool.
    PoolCreate {
        /// The pool.
        pool: u32,
        /// Whether it lends cached blocks before an out-of-memory error.
        use_on_oom: bool,
        /// Whether it hands out whole blocks only.
        no_split: bool,
    },
    /// The owner of a memory pool lets go (R5.12).
    PoolDestroy {
        /// The pool.
        pool: u32,
    },
    /// A memory pool is active for the requests that follow.
    PoolEnter {
        /// The pool.
        pool: u32,
    },
    /// It is active no longer.
    PoolLeave {
        /// The pool.
        pool: u32,
    },
    /// `set_per_process_memory_fraction`.
    SetFraction {
        /// 0 to 1.
        fraction: f64,
    },
    /// The settings change.
    SetConf {
        /// A settings string in PyTorch's dialect.
        conf: Box<str>,
    },
    /// A graph capture begins; its stream is current until it ends.
    CaptureBegin {
        /// The graph.
        graph: u32,
        /// The graph whose memory pool it uses; its own when equal.
        share: u32,
        /// The stream.
        stream: u32,
    },
    /// The capture ends.
    CaptureEnd {
        /// The graph.
        graph: u32,
    },
    /// A captured graph runs.
    Replay {
        /// The graph.
        graph: u32,
    },
    /// A graph is destroyed.
    GraphReset {
        /// The graph.
        graph: u32,
    },
    /// The requests that follow concern this device.
    Device {
        /// Its index.
        device: u32,
    },
}

/// A kernel: what it reads and writes, and how long it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// The stream.
    pub stream: u32,
    /// Microseconds.
    pub us: u64,
    /// Allocations that it reads.
    pub reads: Vec<u64>,
    /// Allocations that it writes.
    pub writes: Vec<u64>,
    /// What hazards call it; may be empty.
    pub label: Box<str>,
}
