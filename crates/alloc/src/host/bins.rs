//! Size classes of pinned memory, and the bins of cached blocks (R7.2, R7.6, R7.7).

use crate::config::Settings;
use crate::stats::Stat;

/// Which sizes pinned blocks have. Chosen once, when the cache is made: a block keeps its bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    /// Powers of two, as PyTorch: a request of 20.4 GiB takes 32.
    PowersOfTwo,
    /// Eighths of a power of two (`pinned_size_classes`): at most 12.5 % of a request is wasted; 20.4 GiB take 22.
    Eighths,
}

impl Classes {
    pub fn of(settings: &Settings) -> Self {
        if settings.pinned_size_classes { Classes::Eighths } else { Classes::PowersOfTwo }
    }

    /// How many bins there are.
    pub const fn bins(self) -> usize {
        match self {
            Classes::PowersOfTwo => 64,
            Classes::Eighths => 512,
        }
    }

    /// Whether blocks of the reserve segment go back into it and merge there, instead of into bins.
    pub fn splits_reserve(self) -> bool {
        self == Classes::Eighths
    }

    /// The bin of a size: for powers of two ceil(log2(size)) (R7.2).
    pub fn bin(self, size: u64) -> usize {
        match self {
            Classes::PowersOfTwo => (size.max(1) - 1).checked_ilog2().map_or(0, |log| log as usize + 1).min(63),
            Classes::Eighths => match Eighth::of(size) {
                None => size as usize,
                Some(Eighth { shift, eighths }) => 8 * (shift as usize + 1) + (eighths as usize - 8),
            },
        }
    }

    /// The smallest size of a class that holds `size` bytes; `size` itself where there is none.
    pub fn round(self, size: u64) -> u64 {
        let class = match self {
            Classes::PowersOfTwo => size.checked_next_power_of_two(),
            Classes::Eighths => {
                Eighth::of(size).map_or(Some(size), |Eighth { shift, eighths }| eighths.checked_mul(1 << shift))
            }
        };
        class.unwrap_or(size)
    }
}

/// A size class above 8 bytes: `eighths` × 2^`shift`, with 9 to 16 eighths.
struct Eighth {
    shift: u32,
    eighths: u64,
}

impl Eighth {
    fn of(size: u64) -> Option<Eighth> {
        let shift = size.checked_sub(1)?.checked_ilog2()?.checked_sub(3)?;
        Some(Eighth { shift, eighths: size.div_ceil(1 << shift) })
    }
}

/// The cached blocks of one pool by size class, and what is counted by class.
#[derive(Debug)]
pub(crate) struct Bins(Vec<Bin>);

#[derive(Clone, Debug, Default)]
struct Bin {
    /// (address, bytes), the most recently freed last.
    cached: Vec<(u64, u64)>,
    requests: Stat,
    bytes: Stat,
}

impl Bins {
    pub fn new(classes: Classes) -> Self {
        Bins(vec![Bin::default(); classes.bins()])
    }

    /// Takes the most recently freed block of the bin that has `size` bytes (R7.7). A bin holds mixed sizes where rounding is
    /// limited; larger bins are not searched.
    pub fn take(&mut self, bin: usize, size: u64) -> Option<u64> {
        let cached = &mut self.0[bin].cached;
        let place = cached.iter().rposition(|&(_, bytes)| bytes >= size)?;
        Some(cached.remove(place).0)
    }

    pub fn put(&mut self, bin: usize, addr: u64, size: u64) {
        self.0[bin].cached.push((addr, size));
    }

    /// Takes all cached blocks out.
    pub fn drain(&mut self) -> Vec<u64> {
        self.0.iter_mut().flat_map(|bin| std::mem::take(&mut bin.cached)).map(|(addr, _)| addr).collect()
    }

    /// A block of `size` bytes is in use.
    pub fn activate(&mut self, bin: usize, size: u64) {
        self.0[bin].requests.raise(1);
        self.0[bin].bytes.raise(size);
    }

    /// A block of `size` bytes is no longer in use.
    pub fn deactivate(&mut self, bin: usize, size: u64) {
        self.0[bin].requests.lower(1);
        self.0[bin].bytes.lower(size);
    }

    /// Takes over what another pool counted (R7.20).
    pub fn inherit(&mut self, other: &Bins) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            add(&mut mine.requests, &theirs.requests);
            add(&mut mine.bytes, &theirs.bytes);
        }
    }

    /// Adds the bins' figures to (requests, bytes); a sum of peaks is an upper bound (R7.23).
    pub fn add_to(&self, requests: &mut Stat, bytes: &mut Stat) {
        for bin in &self.0 {
            add(requests, &bin.requests);
            add(bytes, &bin.bytes);
        }
    }

    pub fn reset_peaks(&mut self) {
        self.stats().for_each(Stat::reset_peak);
    }

    pub fn reset_accumulated(&mut self) {
        self.stats().for_each(|stat| (stat.allocated, stat.freed) = (0, 0));
    }

    fn stats(&mut self) -> impl Iterator<Item = &mut Stat> {
        self.0.iter_mut().flat_map(|bin| [&mut bin.requests, &mut bin.bytes])
    }
}

fn add(to: &mut Stat, from: &Stat) {
    to.current += from.current;
    to.peak += from.peak;
    to.allocated += from.allocated;
    to.freed += from.freed;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn r7_2_the_bin_of_a_power_of_two_is_its_logarithm_rounded_up() {
        let bins: Vec<usize> =
            [1, 2, 3, 4, 5, 1 << 20, (1 << 20) + 1, u64::MAX].map(|size| Classes::PowersOfTwo.bin(size)).into();
        assert_eq!(bins, [0, 1, 2, 2, 3, 20, 21, 63]);
    }

    #[test]
    fn r7_6_sizes_round_to_the_next_power_of_two() {
        for (size, class) in [(1, 1), (3, 4), (4096, 4096), (4097, 8192), (u64::MAX, u64::MAX)] {
            assert_eq!(Classes::PowersOfTwo.round(size), class);
        }
    }

    #[test]
    fn eighths_take_22_gib_for_20_4() {
        let size = (20.4 * GIB as f64) as u64;
        assert_eq!(Classes::PowersOfTwo.round(size), 32 * GIB);
        assert_eq!(Classes::Eighths.round(size), 22 * GIB);
        assert_eq!(Classes::Eighths.round(16 * GIB), 16 * GIB);
        assert_eq!(Classes::Eighths.round(16 * GIB + 1), 18 * GIB);
        assert_eq!(Classes::Eighths.round(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn eighths_waste_at_most_an_eighth_and_have_bins_of_their_own(size in 1u64..1 << 62, other in 1u64..1 << 62) {
            let class = Classes::Eighths.round(size);
            prop_assert!(class >= size && class - size <= size / 8);
            prop_assert_eq!(Classes::Eighths.round(class), class);
            prop_assert_eq!(Classes::Eighths.bin(class), Classes::Eighths.bin(size));
            prop_assert!(Classes::Eighths.bin(size) < Classes::Eighths.bins());
            let same_class = Classes::Eighths.round(other) == class;
            prop_assert_eq!(Classes::Eighths.bin(other) == Classes::Eighths.bin(size), same_class);
        }
    }

    #[test]
    fn r7_7_the_most_recently_freed_block_that_fits_comes_first() {
        let mut bins = Bins::new(Classes::PowersOfTwo);
        for (addr, size) in [(1, 900), (2, 1000), (3, 700)] {
            bins.put(10, addr, size);
        }
        assert_eq!(bins.take(10, 800), Some(2));
        assert_eq!(bins.take(10, 800), Some(1));
        assert_eq!(bins.take(10, 800), None);
        assert_eq!(bins.take(11, 100), None, "larger bins are not searched");
        assert_eq!(bins.drain(), [3]);
    }
}
