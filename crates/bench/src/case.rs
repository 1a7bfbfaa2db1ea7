//! The cases.

use std::fmt;
use std::str::FromStr;

/// What sizes a random loop asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// 64 B to 64 KiB, log-uniform.
    Small,
    /// 512 B to 1 MiB, log-uniform, with 1 in 16 of 1 to 4 MiB.
    Mixed,
}

/// A loop of pairs of an allocation and a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A block is allocated and freed, again and again.
    Cached {
        /// Bytes.
        size: u64,
    },
    /// The same with the history on, without stacks.
    History {
        /// Bytes.
        size: u64,
    },
    /// One of many live blocks, chosen at random, is freed, and one of a random size is allocated.
    Random {
        /// Their sizes.
        mix: Mix,
        /// How many live blocks.
        live: usize,
    },
    /// A block of 4 KiB is allocated and freed by several threads at once.
    Threads {
        /// How many threads.
        threads: usize,
        /// Whether each has a stream of its own.
        apart: bool,
    },
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Case {
    /// All of them, in the order of the tables.
    pub const ALL: [Case; 15] = [
        Case::Cached { size: 512 },
        Case::Cached { size: 4 * KIB },
        Case::Cached { size: MIB },
        Case::Cached { size: 20 * MIB },
        Case::Random { mix: Mix::Small, live: 1_000 },
        Case::Random { mix: Mix::Small, live: 10_000 },
        Case::Random { mix: Mix::Small, live: 100_000 },
        Case::Random { mix: Mix::Mixed, live: 1_000 },
        Case::Random { mix: Mix::Mixed, live: 10_000 },
        Case::Random { mix: Mix::Mixed, live: 100_000 },
        Case::Threads { threads: 1, apart: false },
        Case::Threads { threads: 2, apart: false },
        Case::Threads { threads: 1, apart: true },
        Case::Threads { threads: 2, apart: true },
        Case::History { size: 4 * KIB },
    ];

    /// How many threads it takes.
    pub fn threads(self) -> usize {
        match self {
            Case::Threads { threads, .. } => threads,
            _ => 1,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |size: u64| match size {
            _ if size.is_multiple_of(MIB) => format!("{}m", size / MIB),
            _ if size.is_multiple_of(KIB) => format!("{}k", size / KIB),
            _ => size.to_string(),
        };
        let live = |live: usize| match live {
            _ if live.is_multiple_of(1_000_000) => format!("{}m", live / 1_000_000),
            _ if live.is_multiple_of(1_000) => format!("{}k", live / 1_000),
            _ => live.to_string(),
        };
        match *self {
            Case::Cached { size: bytes } => write!(f, "cached_{}", size(bytes)),
            Case::History { size: bytes } => write!(f, "history_cached_{}", size(bytes)),
            Case::Random { mix: Mix::Small, live: blocks } => write!(f, "random_small_{}", live(blocks)),
            Case::Random { mix: Mix::Mixed, live: blocks } => write!(f, "random_mixed_{}", live(blocks)),
            Case::Threads { threads, apart: false } => write!(f, "threads_same_stream_{threads}"),
            Case::Threads { threads, apart: true } => write!(f, "threads_two_streams_{threads}"),
        }
    }
}

/// There is no such case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no case '{0}'")]
pub struct UnknownCase(pub String);

impl FromStr for Case {
    type Err = UnknownCase;

    /// One of [`Case::ALL`], or `random_small_1m` and `random_mixed_1m`, which take minutes.
    fn from_str(text: &str) -> Result<Self, UnknownCase> {
        let long = [Mix::Small, Mix::Mixed].map(|mix| Case::Random { mix, live: 1_000_000 });
        let mut cases = Case::ALL.into_iter().chain(long);
        cases.find(|case| case.to_string() == text).ok_or_else(|| UnknownCase(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_is_found_by_it() {
        for case in Case::ALL {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert_eq!("random_mixed_1m".parse(), Ok(Case::Random { mix: Mix::Mixed, live: 1_000_000 }));
        assert_eq!("cached_3".parse::<Case>(), Err(UnknownCase("cached_3".into())));
    }
}
