//! Random numbers that are the same everywhere: splitmix64, and no floating point beyond what IEEE 754 fixes.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        // The bias is below 2^-40 for the small ranges that scenarios use.
        low + self.next() % (high - low + 1)
    }

    /// A number from `low` to `high` of which small ones are likelier: each doubling is as likely as the last.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high / low.max(1)).ilog2());
        let top = (low << self.between(0, doublings)).min(high);
        self.between((top / 2).max(low), top)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}
