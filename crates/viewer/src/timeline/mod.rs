//! What a device held, and when: segments, held memory and blocks, each with the events at which its life begins and ends.
//!
//! A moment is a *cursor*: how many events have happened. Something is there at cursor `c` when `born <= c < died`; what the
//! device began with is born at 0. So the state at any moment is read off the lives, forwards or backwards, and nobody has
//! to undo an event.

mod builder;
mod recorded;
mod replayed;
mod state;
mod totals;

use millpond::{Action, PoolId};
use millpond_snapshot::StackId;

pub use recorded::recorded;
pub use replayed::{Origin, replayed};
pub use state::{Holds, Range, SegmentAt};
pub use totals::{Totals, Walk};

/// The end of what is still there in the end.
pub const NEVER: u32 = u32::MAX;

/// No index.
pub const NONE: u32 = u32::MAX;

/// From when to when something is there, as cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The first cursor at which it is there.
    pub born: u32,
    /// The first cursor at which it is there no more, or [`NEVER`].
    pub died: u32,
}

impl Life {
    /// Whether it is there at a cursor.
    pub fn contains(self, cursor: u32) -> bool {
        self.born <= cursor && cursor < self.died
    }
}

/// The unit that holds free blocks: stream, size class, memory pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Raw handle of the stream.
    pub stream: u64,
    /// `small` or `large`.
    pub class: &'static str,
    /// The memory pool.
    pub id: PoolId,
}

/// A driver allocation or an expandable reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub base: u64,
    /// Bytes of memory, or of an expandable one the bytes set aside.
    pub size: u64,
    /// Index of its pool.
    pub pool: u32,
    /// Whether pages are mapped into it.
    pub expandable: bool,
    /// When it is there.
    pub life: Life,
}

/// Memory that a segment holds from the driver: all of it, or a mapped range. Neighbours may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Index of its segment.
    pub segment: u32,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// When it is there.
    pub life: Life,
}

/// A block in use: live, and from `freed` on waiting for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of its segment; [`NONE`] where the recording does not show it.
    pub segment: u32,
    /// First byte.
    pub addr: u64,
    /// Bytes of the block.
    pub size: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Where it was allocated.
    pub stack: StackId,
    /// When it is there, live or pending.
    pub life: Life,
    /// The first cursor at which the program has given it back, or [`NEVER`].
    pub freed: u32,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Index of a block.
    Block(u32),
    /// A range of memory, or figures of another kind: see [`millpond::Event`].
    Range {
        /// First byte; of an out-of-memory error the bytes free on the device.
        addr: u64,
        /// Bytes.
        size: u64,
    },
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The request that it came with: its number in the workload, the index of its entry in the trace. Never falls.
    pub at: u32,
    /// What happened.
    pub action: Action,
    /// To what.
    pub subject: Subject,
    /// Index of the pool.
    pub pool: u32,
    /// Where in the program.
    pub stack: StackId,
    /// Microseconds; 0 where nobody wrote them down.
    pub time_us: u64,
}

/// A device's past.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The pools that segments and events belong to.
    pub pools: Vec<Pool>,
    /// In order of birth.
    pub segments: Vec<Segment>,
    /// In order of birth.
    pub held: Vec<Held>,
    /// In order of birth.
    pub blocks: Vec<Block>,
    /// In order.
    pub events: Vec<Event>,
    /// Whether events have times.
    pub has_times: bool,
    /// Events that do not fit what was there: frees of unknown blocks, memory that was never held.
    pub contradictions: u64,
}

impl Timeline {
    /// The cursor after request `at`: everything that came with it and with those before has happened.
    pub fn cursor_after(&self, at: u64) -> u32 {
        self.events.partition_point(|event| u64::from(event.at) <= at) as u32
    }

    /// Forgets what happened after request `at`, as if it had never come to that.
    pub fn cut(&mut self, at: u64) {
        let end = self.cursor_after(at);
        let outlives = |moment: &mut u32| *moment = if *moment > end { NEVER } else { *moment };
        self.events.truncate(end as usize);
        // All of them stand in order of birth, so indices stay what they are.
        self.segments.truncate(self.segments.partition_point(|segment| segment.life.born <= end));
        self.held.truncate(self.held.partition_point(|held| held.life.born <= end));
        self.blocks.truncate(self.blocks.partition_point(|block| block.life.born <= end));
        self.segments.iter_mut().for_each(|segment| outlives(&mut segment.life.died));
        self.held.iter_mut().for_each(|held| outlives(&mut held.life.died));
        for block in &mut self.blocks {
            outlives(&mut block.life.died);
            outlives(&mut block.freed);
        }
    }

    /// The last cursor: everything has happened.
    pub fn end(&self) -> u32 {
        self.events.len() as u32
    }

    /// The first byte of anything.
    pub fn lowest_address(&self) -> u64 {
        let segments = self.segments.iter().map(|segment| segment.base);
        segments.chain(self.blocks.iter().map(|block| block.addr)).min().unwrap_or(0)
    }
}
