//! Readings of a clock that many moments share.

/// What somebody who reads a clock many times a microsecond keeps from one reading to the next
/// ([`Status::now_us_again`](crate::Status::now_us_again)).
///
/// A reading may cost as much as a cached allocation, for a processor finishes everything else before it reads its counter.
/// So moments that follow each other closely share one: [`Reading::SHARED`] of them, if as many came within
/// [`Reading::CLOSE_US`] just before. A tick that costs next to nothing ends the sharing when time jumps.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The last reading, microseconds.
    us: u64,
    /// The tick at that reading.
    tick: u64,
    /// How many more moments may share it, and how many were allowed to.
    left: u32,
    allowed: u32,
    /// Moments since it was last looked how closely they come, and when that was.
    seen: u32,
    since_us: u64,
}

impl Reading {
    /// How many moments share a reading.
    pub const SHARED: u32 = 32;
    /// So many moments within as many microseconds follow each other closely.
    pub const CLOSE_US: u64 = 4;

    /// A reading for this moment alone, in microseconds.
    #[inline]
    pub fn alone(&mut self, us: u64) -> u64 {
        *self = Reading { us, since_us: us, ..Reading::default() };
        us
    }

    /// The time of this moment: what `read` says, in microseconds, or the reading before while moments follow each other
    /// closely and the tick stays.
    #[inline]
    pub fn shared(&mut self, tick: u64, read: impl FnOnce() -> u64) -> u64 {
        if self.left > 0 && self.tick == tick {
            self.left -= 1;
            return self.us;
        }
        let us = read();
        self.renew(tick, us)
    }

    fn renew(&mut self, tick: u64, us: u64) -> u64 {
        self.seen += 1 + self.allowed - self.left;
        self.allowed = 0;
        if self.seen >= Self::SHARED {
            if us.saturating_sub(self.since_us) <= Self::CLOSE_US {
                self.allowed = Self::SHARED - 1;
            }
            (self.seen, self.since_us) = (0, us);
        }
        (self.us, self.tick, self.left) = (us, tick, self.allowed);
        us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times that moments get, and how often the clock was read for them.
    fn told(reading: &mut Reading, moments: impl IntoIterator<Item = (u64, u64)>) -> (Vec<u64>, u32) {
        let mut read = 0;
        let mut tell = |(tick, ns): (u64, u64)| {
            reading.shared(tick, || {
                read += 1;
                ns / 1000
            })
        };
        (moments.into_iter().map(&mut tell).collect(), read)
    }

    #[test]
    fn moments_far_apart_have_readings_of_their_own() {
        let moments = (0..100).map(|n| (0, n * 200));
        let (times, read) = told(&mut Reading::default(), moments.clone());
        assert_eq!(times, moments.map(|(_, ns)| ns / 1000).collect::<Vec<_>>());
        assert_eq!(read, 100);
    }

    #[test]
    fn moments_close_to_each_other_share_readings_and_are_hardly_off() {
        let moments: Vec<_> = (0..1600).map(|n| (0, n * 30)).collect();
        let (times, read) = told(&mut Reading::default(), moments.iter().copied());
        assert!(read <= 2 * Reading::SHARED + 100, "{read} readings");
        for (time, (_, ns)) in times.iter().zip(&moments) {
            let right = ns / 1000;
            assert!(*time <= right && right - time <= Reading::CLOSE_US, "{time} for {right}");
        }
        assert!(times.is_sorted());
    }

    #[test]
    fn a_jump_is_seen_by_the_tick_and_a_slower_pace_by_the_next_reading() {
        let mut reading = Reading::default();
        told(&mut reading, (0..100).map(|n| (0, n * 30)));
        assert_eq!(told(&mut reading, [(1, 9_000_000), (1, 9_500_000)]).0, [9_000, 9_500]);
        told(&mut reading, (0..100).map(|n| (1, 10_000_000 + n * 30)));
        let (times, _) = told(&mut reading, (0..100).map(|n| (1, 11_000_000 + n * 10_000)));
        let off = times.iter().zip(0..).filter(|&(&time, n)| time != 11_000 + n * 10).count();
        assert!(off < Reading::SHARED as usize, "{times:?}");
    }

    #[test]
    fn a_moment_alone_ends_the_sharing() {
        let mut reading = Reading::default();
        told(&mut reading, (0..100).map(|n| (0, n * 30)));
        assert_eq!(reading.alone(7_000), 7_000);
        assert_eq!(told(&mut reading, [(0, 7_001_000)]), (vec![7_001], 1));
    }
}
