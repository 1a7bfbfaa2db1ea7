//! Figures: rounds in turn, medians, a yardstick between them.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// What one of several takes, and the yardstick of the same run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Nanoseconds a pair, the median of the rounds.
    pub ns: f64,
    /// Nanoseconds of the yardstick, the median of as many rounds.
    pub yardstick_ns: f64,
}

impl Times {
    /// In yardsticks.
    pub fn ratio(&self) -> f64 {
        self.ns / self.yardstick_ns
    }
}

/// The middle one; of an even number the mean of the two in the middle. 0 of none.
pub fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures {
        [] => 0.0,
        _ => (figures[(figures.len() - 1) / 2] + figures[figures.len() / 2]) / 2.0,
    }
}

/// Nanoseconds of a pair of `malloc` and `free` of 4 KiB, over as many pairs.
pub fn yardstick(pairs: u64) -> f64 {
    let start = Instant::now();
    for _ in 0..pairs {
        black_box(Box::<[u8; 4096]>::new_uninit());
    }
    per(start.elapsed(), pairs)
}

fn per(took: Duration, pairs: u64) -> f64 {
    took.as_nanos() as f64 / pairs.max(1) as f64
}

/// Takes `rounds` rounds of `pairs` pairs of each of several loops in turn, each round after one of the yardstick, so that
/// whatever else the machine does meets all of them alike. A round of a tenth goes before and does not count.
///
/// # Errors
/// What a loop says.
pub fn in_turn<E>(
    loops: &mut [&mut dyn FnMut(u64) -> Result<Duration, E>],
    rounds: usize,
    pairs: u64,
) -> Result<Vec<Times>, E> {
    for body in loops.iter_mut() {
        body((pairs / 10).max(1))?;
    }
    let mut taken = vec![Vec::with_capacity(rounds); loops.len()];
    let mut yardsticks = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        yardsticks.push(yardstick(pairs));
        for (body, taken) in loops.iter_mut().zip(&mut taken) {
            taken.push(per(body(pairs)?, pairs));
        }
    }
    let yardstick_ns = median(&mut yardsticks);
    Ok(taken.iter_mut().map(|taken| Times { ns: median(taken), yardstick_ns }).collect())
}

/// [`in_turn`] of one.
///
/// # Errors
/// What the loop says.
pub fn cost<E>(mut body: impl FnMut(u64) -> Result<Duration, E>, rounds: usize, pairs: u64) -> Result<Times, E> {
    let times = in_turn(&mut [&mut body], rounds, pairs)?;
    Ok(times[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn rounds_are_taken_in_turn_and_the_warm_up_does_not_count() {
        let order = std::cell::RefCell::new(Vec::new());
        let took = |name, ns: u64| {
            let order = &order;
            move |pairs: u64| {
                order.borrow_mut().push((name, pairs));
                Ok::<_, ()>(Duration::from_nanos(ns * pairs))
            }
        };
        let (mut one, mut two) = (took("one", 5), took("two", 7));
        let times = in_turn(&mut [&mut one, &mut two], 2, 100).unwrap();
        assert_eq!(times.iter().map(|times| times.ns).collect::<Vec<_>>(), [5.0, 7.0]);
        let expected = [("one", 10), ("two", 10), ("one", 100), ("two", 100), ("one", 100), ("two", 100)];
        assert_eq!(*order.borrow(), expected);
    }

    #[test]
    fn a_loop_that_fails_ends_it() {
        assert_eq!(cost(|_| Err::<Duration, _>("no"), 3, 10), Err("no"));
    }
}
