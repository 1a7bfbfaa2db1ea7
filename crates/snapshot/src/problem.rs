//! What does not add up in a snapshot: reported, never asserted.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::model::{Block, Segment, Snapshot};

/// Something in a snapshot that contradicts something else in it. Its sentence is what `Display`
/// and JSON say. Addresses and sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A block does not begin where the one before it ends, or the first not where its segment
    /// does.
    BlockOutOfPlace {
        /// Device index.
        device: i32,
        /// The segment's first byte.
        segment: u64,
        /// Position of the block in it.
        block: usize,
        /// Where it should begin.
        expected: u64,
        /// Where it begins.
        found: u64,
    },
    /// The blocks of a segment are not as long as it is.
    BlocksDoNotFill {
        /// Device index.
        device: i32,
        /// The segment's first byte.
        segment: u64,
        /// The segment's size.
        total_size: u64,
        /// The sum of its blocks' sizes.
        blocks: u64,
    },
    /// A figure of a segment is not the sum over its blocks.
    WrongTotal {
        /// Device index.
        device: i32,
        /// The segment's first byte.
        segment: u64,
        /// The key.
        key: &'static str,
        /// What the segment states.
        stated: u64,
        /// What its blocks add up to.
        counted: u64,
    },
    /// Two segments of a device overlap.
    Overlap {
        /// Device index.
        device: i32,
        /// First byte of the lower one.
        first: u64,
        /// First byte of the other.
        second: u64,
    },
    /// A live block is smaller than what was asked for.
    RequestedMoreThanBlock {
        /// Device index.
        device: i32,
        /// The block's first byte.
        block: u64,
        /// Its size.
        size: u64,
        /// What was asked for.
        requested: u64,
    },
    /// There are more problems than are listed.
    More {
        /// How many more.
        count: usize,
    },
}

/// How many problems are listed one by one.
const MOST_LISTED: usize = 100;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockOutOfPlace { device, segment, block, expected, found } => write!(
                f,
                "device {device}: block {block} of the segment at {segment:#x} begins at \
                 {found:#x}, but the blocks before it end at {expected:#x}"
            ),
            Self::BlocksDoNotFill { device, segment, total_size, blocks } => write!(
                f,
                "device {device}: the blocks of the segment at {segment:#x} add up to {blocks} \
                 bytes, but the segment has {total_size}"
            ),
            Self::WrongTotal { device, segment, key, stated, counted } => write!(
                f,
                "device {device}: the segment at {segment:#x} states {key} {stated}, but its \
                 blocks add up to {counted} bytes"
            ),
            Self::Overlap { device, first, second } => {
                write!(f, "device {device}: the segments at {first:#x} and {second:#x} overlap")
            }
            Self::RequestedMoreThanBlock { device, block, size, requested } => write!(
                f,
                "device {device}: the live block at {block:#x} has {size} bytes, but {requested} \
                 were asked for"
            ),
            Self::More { count } => write!(f, "and {count} more"),
        }
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Problems, of which the first hundred are kept.
#[derive(Default)]
struct Problems {
    listed: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: Problem) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(problem);
        } else {
            self.more += 1;
        }
    }
}

impl Snapshot {
    /// What does not add up; at most a hundred problems and how many more there are.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        for segments in [&self.segments, &self.host_segments] {
            for segment in segments {
                check_blocks(segment, &mut problems);
                check_totals(segment, &mut problems);
            }
            check_overlap(segments, &mut problems);
        }
        if problems.more > 0 {
            let count = problems.more;
            problems.listed.push(Problem::More { count });
        }
        problems.listed
    }
}

fn check_blocks(segment: &Segment, problems: &mut Problems) {
    let mut expected = segment.address;
    for (index, block) in segment.blocks.iter().enumerate() {
        if block.address != expected {
            problems.add(Problem::BlockOutOfPlace {
                device: segment.device,
                segment: segment.address,
                block: index,
                expected,
                found: block.address,
            });
        }
        // From where the block says it is, so that one gap is one problem.
        expected = block.address.saturating_add(block.size);
        if block.state.is_active() && block.requested_size > block.size {
            problems.add(Problem::RequestedMoreThanBlock {
                device: segment.device,
                block: block.address,
                size: block.size,
                requested: block.requested_size,
            });
        }
    }
}

fn check_totals(segment: &Segment, problems: &mut Problems) {
    let sum = |size: fn(&Block) -> u64| {
        let sizes = segment.blocks.iter().map(size);
        sizes.fold(0, u64::saturating_add)
    };
    let blocks = sum(|block| block.size);
    if blocks != segment.total_size {
        problems.add(Problem::BlocksDoNotFill {
            device: segment.device,
            segment: segment.address,
            total_size: segment.total_size,
            blocks,
        });
    }
    for (key, stated, counted) in [
        ("allocated_size", segment.allocated_size, sum(Block::allocated)),
        ("active_size", segment.active_size, sum(Block::active)),
        ("requested_size", segment.requested_size, sum(Block::requested)),
    ] {
        if stated != counted {
            problems.add(Problem::WrongTotal {
                device: segment.device,
                segment: segment.address,
                key,
                stated,
                counted,
            });
        }
    }
}

fn check_overlap(segments: &[Segment], problems: &mut Problems) {
    let mut ranges: Vec<(i32, u64, u64)> = segments
        .iter()
        .filter(|segment| segment.total_size > 0)
        .map(|segment| (segment.device, segment.address, segment.total_size))
        .collect();
    ranges.sort_unstable();
    // The range that reaches furthest so far, of the device at hand.
    let mut furthest: Option<(i32, u64, u64)> = None;
    for (device, address, size) in ranges {
        let end = address.saturating_add(size);
        match furthest {
            Some((known, first, reach)) if known == device => {
                if address < reach {
                    problems.add(Problem::Overlap { device, first, second: address });
                }
                if end > reach {
                    furthest = Some((device, address, end));
                }
            }
            _ => furthest = Some((device, address, end)),
        }
    }
}
