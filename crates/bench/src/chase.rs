//! The yardstick of growth: a walk through as many records of 64 bytes in random order, each step waiting for the one before.

use std::hint::black_box;
use std::time::Instant;

use crate::random::Random;

#[derive(Clone)]
#[repr(align(64))]
struct Record {
    next: u32,
}

/// Nanoseconds of a step, over as many steps.
pub(crate) fn chase(records: usize, steps: u64) -> f64 {
    // One cycle through all: each record is swapped with one before it only (Sattolo).
    let mut order: Vec<u32> = (0..records as u32).collect();
    let mut random = Random::new(3);
    for last in (1..records).rev() {
        order.swap(last, random.below(last as u64) as usize);
    }
    let mut cycle = vec![Record { next: 0 }; records];
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        cycle[*from as usize].next = *to;
    }
    let mut at = 0;
    let start = Instant::now();
    for _ in 0..steps {
        at = cycle[at as usize].next;
    }
    black_box(at);
    start.elapsed().as_nanos() as f64 / steps.max(1) as f64
}
