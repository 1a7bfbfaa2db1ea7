//! How costs grow with what an allocator holds.

use std::time::Instant;

use millpond::config::Settings;
use serde::Serialize;

use crate::case::{Case, Mix};
use crate::chase::chase;
use crate::cost::median;
use crate::run::Run;
use crate::subject::{Library, LibraryFailed, Subject};

/// How many blocks, segments or streams an allocator holds.
pub const POPULATIONS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// One of the live blocks is replaced: a pair.
    RandomSmall,
    /// The same with mixed sizes.
    RandomMixed,
    /// All blocks are freed, first every other one, then those between, each of which merges with both neighbours: a free.
    Merging,
    /// `empty_cache`, with as many segments of 20 MiB, all free: a segment.
    EmptyCache,
    /// A snapshot, with as many live blocks: a block.
    Snapshot,
    /// A cached pair on each of as many streams in turn: a pair.
    Streams,
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GrowthRow {
    /// What was done.
    pub what: Growth,
    /// To how many.
    pub population: usize,
    /// Nanoseconds of each, the median of the rounds.
    pub ns: f64,
    /// Nanoseconds of a step of a walk through as many records of 64 bytes in random order.
    pub chase_ns: f64,
}

impl Growth {
    /// All of them.
    pub const ALL: [Growth; 6] = [
        Growth::RandomSmall,
        Growth::RandomMixed,
        Growth::Merging,
        Growth::EmptyCache,
        Growth::Snapshot,
        Growth::Streams,
    ];

    /// What it is done to how many of.
    pub fn populations(self) -> &'static [usize] {
        match self {
            // A mixed million takes 265 GiB, which the simulated device has.
            Growth::RandomSmall | Growth::RandomMixed | Growth::Merging => &POPULATIONS,
            Growth::Snapshot => &POPULATIONS[..3],
            Growth::EmptyCache => &[100, 1_000, 10_000],
            Growth::Streams => &[1, 16, 256],
        }
    }

    /// The figure for a population.
    ///
    /// # Errors
    /// The allocator's.
    pub fn measure(self, population: usize, rounds: usize) -> Result<GrowthRow, LibraryFailed> {
        let mut library = Library::simulated(Settings::default())?;
        if self == Growth::Streams {
            library.have_streams(population)?;
        }
        let mut figures = match self {
            Growth::RandomSmall => random(&library, Mix::Small, population, rounds)?,
            Growth::RandomMixed => random(&library, Mix::Mixed, population, rounds)?,
            _ => (0..rounds).map(|_| self.once(&library, population)).collect::<Result<_, _>>()?,
        };
        let chase_ns = median(&mut (0..rounds).map(|_| chase(population, 500_000)).collect::<Vec<_>>());
        Ok(GrowthRow { what: self, population, ns: median(&mut figures), chase_ns })
    }

    fn once(self, library: &Library, population: usize) -> Result<f64, LibraryFailed> {
        let allocate = |size: u64| {
            (0..population).map(|_| library.alloc(size, library.stream(0))).collect::<Result<Vec<u64>, _>>()
        };
        let (took, times) = match self {
            Growth::RandomSmall | Growth::RandomMixed => unreachable!("they keep their blocks from round to round"),
            Growth::Merging => {
                let blocks = allocate(4096)?;
                let start = Instant::now();
                for first in [0, 1] {
                    blocks.iter().skip(first).step_by(2).try_for_each(|&addr| library.free(addr))?;
                }
                (start.elapsed(), population)
            }
            Growth::EmptyCache => {
                for addr in allocate(20 << 20)? {
                    library.free(addr)?;
                }
                let start = Instant::now();
                library.empty_cache()?;
                (start.elapsed(), population)
            }
            Growth::Snapshot => {
                let blocks = allocate(4096)?;
                let start = Instant::now();
                let snapshot = library.allocator.snapshot(None, false);
                let took = start.elapsed();
                drop(snapshot);
                blocks.iter().try_for_each(|&addr| library.free(addr))?;
                (took, population)
            }
            Growth::Streams => {
                let turns = 100_000_usize.div_ceil(population);
                let turn = || {
                    (0..population).try_for_each(|stream| {
                        let addr = library.alloc(4096, library.stream(stream))?;
                        library.free(addr)
                    })
                };
                turn()?;
                let start = Instant::now();
                (0..turns).try_for_each(|_| turn())?;
                (start.elapsed(), turns * population)
            }
        };
        library.empty_cache()?;
        Ok(took.as_nanos() as f64 / times as f64)
    }
}

fn random(library: &Library, mix: Mix, live: usize, rounds: usize) -> Result<Vec<f64>, LibraryFailed> {
    const PAIRS: u64 = 200_000;
    let mut run = Run::prepare(library, Case::Random { mix, live })?;
    run.pairs(PAIRS)?;
    let figures = (0..rounds).map(|_| Ok(run.pairs(PAIRS)?.as_nanos() as f64 / PAIRS as f64)).collect();
    run.finish()?;
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured() {
        for what in Growth::ALL {
            let row = what.measure(what.populations()[0], 1).unwrap();
            assert!(row.ns > 0.0 && row.chase_ns > 0.0, "{row:?}");
        }
    }
}
