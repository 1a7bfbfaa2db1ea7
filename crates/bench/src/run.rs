//! One case on one subject.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::case::{Case, Mix};
use crate::random::{Random, Sizes};
use crate::subject::Subject;

const BLOCK: u64 = 4 << 10;

/// A case whose live blocks are there, to be run again and again.
pub struct Run<'a, S: Subject> {
    subject: &'a S,
    case: Case,
    live: Vec<u64>,
    sizes: Sizes,
    random: Random,
}

impl<'a, S: Subject> Run<'a, S> {
    /// Allocates the blocks that the case wants alive.
    ///
    /// # Errors
    /// The subject's.
    pub fn prepare(subject: &'a S, case: Case) -> Result<Self, S::Error> {
        let (mix, blocks) = match case {
            Case::Random { mix, live } => (mix, live),
            _ => (Mix::Small, 0),
        };
        let mut run =
            Run { subject, case, live: Vec::with_capacity(blocks), sizes: Sizes::new(mix), random: Random::new(7) };
        for _ in 0..blocks {
            let size = run.sizes.pick(run.random.next());
            run.live.push(subject.alloc(size, subject.stream(0))?);
        }
        Ok(run)
    }

    /// Makes as many pairs, by all threads together, and says how long they took.
    ///
    /// # Errors
    /// The subject's.
    pub fn pairs(&mut self, pairs: u64) -> Result<Duration, S::Error> {
        let subject = self.subject;
        match self.case {
            Case::Cached { size } => cached(subject, size, subject.stream(0), pairs),
            Case::History { size } => {
                subject.history(true)?;
                let took = cached(subject, size, subject.stream(0), pairs);
                subject.history(false)?;
                took
            }
            Case::Random { .. } => self.replace(pairs),
            Case::Threads { threads, apart } => {
                let begin = Barrier::new(threads);
                let each = pairs / threads as u64;
                let begin = &begin;
                let work = |stream: S::Stream| {
                    // The first block of a stream is no hit.
                    let warm = cached(subject, BLOCK, stream, 100);
                    begin.wait();
                    let start = Instant::now();
                    warm.and_then(|_| cached(subject, BLOCK, stream, each)).map(|_| (start, Instant::now()))
                };
                let took = std::thread::scope(|scope| {
                    let hands: Vec<_> = (0..threads)
                        .map(|number| subject.stream(if apart { number } else { 0 }))
                        .map(|stream| scope.spawn(move || work(stream)))
                        .collect();
                    hands
                        .into_iter()
                        .map(|hand| hand.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)))
                        .collect::<Vec<_>>()
                });
                // From the first start to the last end: threads that did not meet have not been faster for it.
                let took = took.into_iter().collect::<Result<Vec<_>, _>>()?;
                let first = took.iter().map(|(start, _)| *start).min();
                let last = took.iter().map(|(_, end)| *end).max();
                Ok(first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first))
            }
        }
    }

    /// Frees a random live block and allocates one of a random size in its stead.
    fn replace(&mut self, pairs: u64) -> Result<Duration, S::Error> {
        let (blocks, stream) = (self.live.len() as u64, self.subject.stream(0));
        let start = Instant::now();
        for _ in 0..pairs {
            let place = &mut self.live[self.random.below(blocks) as usize];
            self.subject.free(*place)?;
            *place = self.subject.alloc(self.sizes.pick(self.random.next()), stream)?;
        }
        Ok(start.elapsed())
    }

    /// Frees the live blocks and gives the cache back.
    ///
    /// # Errors
    /// The subject's.
    pub fn finish(self) -> Result<(), S::Error> {
        self.live.iter().try_for_each(|&addr| self.subject.free(addr))?;
        self.subject.empty_cache()
    }
}

fn cached<S: Subject>(subject: &S, size: u64, stream: S::Stream, pairs: u64) -> Result<Duration, S::Error> {
    let start = Instant::now();
    for _ in 0..pairs {
        let addr = subject.alloc(black_box(size), stream)?;
        subject.free(black_box(addr))?;
    }
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Library;
    use millpond::Metric;
    use millpond::config::Settings;

    #[test]
    fn every_case_runs_and_leaves_nothing_behind() {
        for case in Case::ALL {
            let library = Library::simulated(Settings::default()).unwrap();
            let live = match case {
                Case::Random { live, .. } => live,
                _ => 0,
            };
            if live > 10_000 {
                continue;
            }
            let mut run = Run::prepare(&library, case).unwrap();
            run.pairs(1000).unwrap();
            library.allocator.verify().unwrap();
            let millpond::Stat { current, allocated, .. } = library.allocator.stats().all(Metric::Allocation);
            assert_eq!(current, live as i64, "{case}");
            assert!(allocated >= live as u64 + 1000, "{case}: {allocated}");
            run.finish().unwrap();
            library.allocator.verify().unwrap();
            assert_eq!(library.allocator.stats().all(Metric::ReservedBytes).current, 0, "{case}");
        }
    }
}
