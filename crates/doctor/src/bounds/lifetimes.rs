//! When each block lives, and how large it is: all that an offline bound needs to know.

use millpond::size;
use millpond_replay::snapshot::{Recording, Request};
use millpond_replay::{Op, Workload};
use rustc_hash::FxHashMap;

use crate::trial::{Patient, Requests};

/// A block from its birth to its death, in requests. `death` is past the end for what is never freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The request that makes it.
    pub birth: u32,
    /// The first request at which it is gone.
    pub death: u32,
    /// Bytes, a multiple of 512: no setting hands out less.
    pub size: u64,
}

impl Lifetime {
    /// Requests from birth to death.
    pub fn length(&self) -> u64 {
        u64::from(self.death - self.birth)
    }
}

/// The lifetimes of all blocks that a program asks for, by birth.
#[derive(Default)]
struct Book {
    lives: Vec<Lifetime>,
    /// Where in `lives` an id's or address's present block is.
    open: FxHashMap<u64, usize>,
}

impl Book {
    fn born(&mut self, name: u64, bytes: u64, at: u32) {
        self.open.insert(name, self.lives.len());
        self.lives.push(Lifetime { birth: at, death: u32::MAX, size: size::round(bytes, 0) });
    }

    fn died(&mut self, name: u64, at: u32) {
        if let Some(life) = self.open.remove(&name) {
            self.lives[life].death = at;
        }
    }
}

/// When a request happens. No file has four thousand million of them.
fn time(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX - 1)
}

impl Patient<'_> {
    /// The lifetimes of all blocks of the first device, by birth.
    pub(super) fn lifetimes(&self) -> Vec<Lifetime> {
        match self.requests {
            Requests::Workload { workload, .. } => of_workload(workload),
            Requests::Snapshot { recording, .. } => of_recording(recording),
        }
    }
}

fn of_workload(workload: &Workload) -> Vec<Lifetime> {
    let mut book = Book::default();
    let mut here = true;
    for (index, op) in workload.ops.iter().enumerate() {
        match *op {
            Op::Device { device } => here = device == 0,
            // PyTorch hands out no block for nothing.
            Op::Alloc { id, size, .. } if here && size > 0 => book.born(id, size, time(index)),
            Op::Free { id } => book.died(id, time(index)),
            _ => {}
        }
    }
    book.lives
}

fn of_recording(recording: &Recording<'_>) -> Vec<Lifetime> {
    let mut book = Book::default();
    recording.start.in_use().for_each(|block| book.born(block.addr, block.requested, 0));
    for (index, recorded) in recording.requests.iter().enumerate() {
        let at = time(index + 1);
        match recorded.request {
            Request::Alloc { addr, size, .. } => book.born(addr, size, at),
            Request::Free { addr, .. } => book.died(addr, at),
            Request::Oom { size, .. } => {
                book.lives.push(Lifetime { birth: at, death: at + 1, size: size::round(size, 0) });
            }
            Request::Complete { .. } | Request::ReleasePool { .. } | Request::EmptyCache { .. } => {}
        }
    }
    book.lives
}
