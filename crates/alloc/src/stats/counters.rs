//! The counters of one pool, and the leases that keep peaks exact without a shared counter.
//!
//! A pool counts for itself, under its own lock. A peak is over the sum of all pools; so that a hit need not look at the
//! others, each pool holds a *lease* on every peak: the sum of the leases never exceeds the peak, so a pool within its
//! leases cannot raise it. A pool that outgrows one settles with all the others under the ladder (`stats::Peaks`).

/// What is counted (R8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Metric {
    /// Live allocations.
    Allocation,
    /// Bytes of blocks that are live.
    AllocatedBytes,
    /// Bytes that callers asked for, of blocks that are live or waiting.
    RequestedBytes,
    /// Blocks that are live or wait for events.
    Active,
    /// Bytes of blocks that are live or wait for events.
    ActiveBytes,
    /// Free parts of split blocks; cudaMalloc segments only.
    InactiveSplit,
    /// Bytes of free parts of split blocks; cudaMalloc segments only.
    InactiveSplitBytes,
    /// cudaMalloc segments.
    Segment,
    /// Bytes held from the driver.
    ReservedBytes,
    /// Live allocations of `max_split_size` or more.
    OversizeAllocations,
    /// Segments of `max_split_size` or more.
    OversizeSegments,
}

impl Metric {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// All of them, in the order of their numbers.
    pub const ALL: [Metric; Metric::COUNT] = [
        Metric::Allocation,
        Metric::AllocatedBytes,
        Metric::RequestedBytes,
        Metric::Active,
        Metric::ActiveBytes,
        Metric::InactiveSplit,
        Metric::InactiveSplitBytes,
        Metric::Segment,
        Metric::ReservedBytes,
        Metric::OversizeAllocations,
        Metric::OversizeSegments,
    ];

    /// The key in `torch.cuda.memory_stats`.
    pub const fn key(self) -> &'static str {
        match self {
            Metric::Allocation => "allocation",
            Metric::AllocatedBytes => "allocated_bytes",
            Metric::RequestedBytes => "requested_bytes",
            Metric::Active => "active",
            Metric::ActiveBytes => "active_bytes",
            Metric::InactiveSplit => "inactive_split",
            Metric::InactiveSplitBytes => "inactive_split_bytes",
            Metric::Segment => "segment",
            Metric::ReservedBytes => "reserved_bytes",
            Metric::OversizeAllocations => "oversize_allocations",
            Metric::OversizeSegments => "oversize_segments",
        }
    }

    /// Whether PyTorch keeps the metric for both classes, or only one figure.
    pub const fn by_class(self) -> bool {
        !matches!(self, Metric::OversizeAllocations | Metric::OversizeSegments)
    }
}

/// The counters of one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// How far each figure may rise without a look at the other pools.
    lease: [i64; Metric::COUNT],
    /// What is left of the lease: the figure itself is `lease − room`. Signed: the oversize counters lose their balance when
    /// `max_split_size` changes meanwhile (R8.4, L18), and a figure above its lease has yet to be settled.
    room: [i64; Metric::COUNT],
    /// All increases ever; what was freed is `grown − current`.
    grown: [u64; Metric::COUNT],
    /// Some counter is above its lease: the peaks must be settled.
    pub unsettled: bool,
}

impl Counters {
    /// Raises a figure; what is left of its lease.
    #[inline]
    fn rise(&mut self, metric: Metric, by: u64) -> i64 {
        let m = metric as usize;
        self.room[m] -= by as i64;
        self.grown[m] = self.grown[m].wrapping_add(by);
        self.room[m]
    }

    #[inline]
    pub fn raise(&mut self, metric: Metric, by: u64) {
        self.unsettled |= self.rise(metric, by) < 0;
    }

    #[inline]
    pub fn lower(&mut self, metric: Metric, by: u64) {
        self.room[metric as usize] += by as i64;
    }

    /// A block of `size` bytes was handed out (R2.50).
    #[inline]
    pub fn hand_out(&mut self, size: u64, requested: u64) {
        let rooms = self.rise(Metric::Allocation, 1)
            | self.rise(Metric::AllocatedBytes, size)
            | self.rise(Metric::RequestedBytes, requested)
            | self.rise(Metric::Active, 1)
            | self.rise(Metric::ActiveBytes, size);
        // The sign of one is the sign of all.
        self.unsettled |= rooms < 0;
    }

    /// A rise or a fall, whichever the sign says (R8.1, R3.11).
    #[inline]
    pub fn change(&mut self, metric: Metric, by: i64) {
        let m = metric as usize;
        self.room[m] -= by;
        self.grown[m] = self.grown[m].wrapping_add(by.max(0) as u64);
        self.unsettled |= by > 0 && self.room[m] < 0;
    }

    /// A rise and a fall that leave the figure where it was, below its lease.
    pub fn cycle(&mut self, metric: Metric, by: u64) {
        self.grown[metric as usize] += by;
    }

    /// A rise by `new` in place of an earlier one by `old`.
    pub fn replace(&mut self, metric: Metric, old: u64, new: u64) {
        let m = metric as usize;
        self.room[m] -= new as i64 - old as i64;
        self.grown[m] = self.grown[m].wrapping_add(new).wrapping_sub(old);
        self.unsettled |= self.room[m] < 0;
    }

    pub fn current(&self, metric: Metric) -> i64 {
        self.lease[metric as usize] - self.room[metric as usize]
    }

    pub fn grown(&self, metric: Metric) -> u64 {
        self.grown[metric as usize]
    }

    pub fn lease(&self, metric: Metric) -> i64 {
        self.lease[metric as usize]
    }

    /// Which figures are above their leases: a bit a metric.
    #[inline]
    pub fn outgrown(&self) -> u32 {
        self.room.iter().enumerate().fold(0, |bits, (m, &room)| bits | u32::from(room < 0) << m)
    }

    pub fn set_lease(&mut self, metric: Metric, lease: i64) {
        let m = metric as usize;
        self.room[m] += lease - self.lease[m];
        self.lease[m] = lease;
    }
}
