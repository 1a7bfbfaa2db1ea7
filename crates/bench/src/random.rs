//! Random numbers and sizes, the same in every run.

use crate::case::Mix;

/// A linear congruential generator: two instructions, so that it is not what is timed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// 32 bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    /// Less than `below`, which is less than 2³².
    #[inline]
    pub fn below(&mut self, below: u64) -> u64 {
        (self.next() * below) >> 32
    }

    fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let part = self.next() as f64 / (1u64 << 32) as f64;
        (low as f64 * (high as f64 / low as f64).powf(part)) as u64
    }
}

/// Sizes drawn once, so that the loop only looks them up.
#[derive(Debug)]
pub(crate) struct Sizes(Box<[u64; Sizes::DRAWN]>);

impl Sizes {
    const DRAWN: usize = 4096;

    pub fn new(mix: Mix) -> Self {
        let mut random = Random::new(1);
        let mut draw = || match mix {
            Mix::Small => random.log_uniform(64, 64 << 10),
            Mix::Mixed if random.below(16) == 0 => (1 << 20) + random.below(3 << 20),
            Mix::Mixed => random.log_uniform(512, 1 << 20),
        };
        Sizes(Box::new(std::array::from_fn(|_| draw())))
    }

    #[inline]
    pub fn pick(&self, random: u64) -> u64 {
        self.0[random as usize % Sizes::DRAWN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_mix() {
        let small = Sizes::new(Mix::Small);
        assert!(small.0.iter().all(|size| (64..=64 << 10).contains(size)));
        let mixed = Sizes::new(Mix::Mixed);
        assert!(mixed.0.iter().all(|size| (512..=4 << 20).contains(size)));
        let large = mixed.0.iter().filter(|&&size| size > 1 << 20).count();
        assert!((Sizes::DRAWN / 20..Sizes::DRAWN / 12).contains(&large), "one in sixteen: {large}");
        // The middle of a log-uniform draw is the geometric mean of its ends.
        let below = small.0.iter().filter(|&&size| size < 2 << 10).count();
        assert!((Sizes::DRAWN * 45 / 100..Sizes::DRAWN * 55 / 100).contains(&below), "half: {below}");
    }
}
