//! Segments: where the memory of a pool comes from.

use std::sync::Arc;

use millpond_driver::Handle;

use crate::block::BlockId;
use crate::caller::Stack;
use crate::live::Live;
use crate::size::round_up;

/// One driver allocation or one expandable reservation.
///
/// Every block split from it carries its registration counter by belonging to it (R1.18).
#[derive(Debug)]
pub(crate) struct Segment {
    pub base: u64,
    /// Bytes: of memory, or for an expandable segment of address space.
    pub size: u64,
    /// Registration counter: the age of the segment among all of the process (R1.18).
    pub counter: u64,
    /// The block at `base`.
    pub head: BlockId,
    pub source: Source,
    /// Where its live blocks start.
    pub live: Live,
    /// Who asked for the segment, while stacks are recorded.
    pub stack: Option<Stack>,
}

impl Segment {
    /// Bytes held from the driver: for an expandable segment, those of its pages.
    pub fn held_bytes(&self) -> u64 {
        match &self.source {
            Source::Expandable(pages) => pages.mapped_bytes(),
            _ => self.size,
        }
    }

    /// Whether a page has ever moved away from it.
    pub fn has_been_left(&self) -> bool {
        matches!(&self.source, Source::Expandable(pages) if !pages.departures.is_empty())
    }
}

/// How the memory was obtained, and so how it goes back.
#[derive(Debug)]
pub(crate) enum Source {
    /// `cuMemAlloc`.
    Driver,
    /// A memory pool's own allocator.
    Custom(Arc<dyn crate::custom::CustomAllocator>),
    /// Reserved addresses in which pages are mapped.
    Expandable(Pages),
}

/// The pages of an expandable segment: physical handles by position.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Bytes of a page (R4.1).
    pub size: u64,
    /// Handles by page number; shorter than the segment while its end was never mapped.
    handles: Vec<Option<Handle>>,
    /// By page number, how often a page has moved away from there.
    departures: Vec<u8>,
    mapped: u64,
}

impl Pages {
    pub fn new(size: u64) -> Self {
        Pages { size, handles: Vec::new(), departures: Vec::new(), mapped: 0 }
    }

    /// Bytes mapped.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped * self.size
    }

    /// The page numbers that a range of offsets touches: begins down, ends up (R4.9).
    pub fn touching(&self, offset: u64, bytes: u64) -> std::ops::Range<u64> {
        offset / self.size..(offset + bytes).div_ceil(self.size)
    }

    /// The page numbers that lie wholly inside a range of offsets: begins up, ends down (R4.19).
    pub fn inside(&self, offset: u64, bytes: u64) -> std::ops::Range<u64> {
        round_up(offset, self.size) / self.size..(offset + bytes) / self.size
    }

    pub fn get(&self, page: u64) -> Option<Handle> {
        self.handles.get(page as usize).copied().flatten()
    }

    pub fn put(&mut self, page: u64, handle: Handle) {
        let page = page as usize;
        if self.handles.len() <= page {
            self.handles.resize(page + 1, None);
        }
        if self.handles[page].replace(handle).is_none() {
            self.mapped += 1;
        }
    }

    pub fn take(&mut self, page: u64) -> Option<Handle> {
        let handle = self.handles.get_mut(page as usize)?.take();
        self.mapped -= u64::from(handle.is_some());
        handle
    }

    /// Takes a page that moves away.
    pub fn depart(&mut self, page: u64) -> Option<Handle> {
        let number = page as usize;
        if self.departures.len() <= number {
            self.departures.resize(number + 1, 0);
        }
        self.departures[number] = self.departures[number].saturating_add(1);
        self.take(page)
    }

    /// How often a page has moved away from there.
    pub fn departures(&self, page: u64) -> u8 {
        self.departures.get(page as usize).copied().unwrap_or(0)
    }

    /// The maximal runs of mapped pages, by page number.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        let runs = self.handles.chunk_by(|a, b| a.is_some() == b.is_some());
        let runs = runs.scan(0, |at, run| {
            let start = *at;
            *at += run.len() as u64;
            Some((start..*at, run[0].is_some()))
        });
        runs.filter(|(_, mapped)| *mapped).map(|(range, _)| range)
    }
}
