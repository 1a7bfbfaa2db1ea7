//! Pages move to where they are needed (`page_reuse`).
//!
//! A page is one physical handle. It has one *home*: the place in an expandable segment where the allocator may use it. A page
//! is free when no live or pending block touches it, and a free page can change its home: it is mapped where a request needs
//! it, and its old addresses are given up. Nothing is copied and nothing waits on the host. On one stream the order of work
//! makes it safe; another stream is made to wait for what the page's old stream had queued. The old mapping stays until that
//! has passed ([`leaving`]); until then nobody gets those addresses.
//!
//! [`giving`] says which pages may go and which go first, [`moving`] carries a move out, all of it or nothing, [`rest`] keeps
//! pages that are needed in two places by turns from moving for ever, and [`pin`] holds pages fast by hand.

mod collecting;
mod giving;
mod leaving;
mod moving;
mod pin;
mod rest;

use crate::block::{BlockId, NONE};
use crate::config::PageReuse;
use crate::device::Held;
use crate::error::Result;
use crate::ladder::Request;

pub(crate) use leaving::Leaving;
pub use pin::PinnedPages;
pub(crate) use pin::Pins;
pub(crate) use rest::Rest;

/// Where a request's memory is to be: free blocks and unmapped ones by turns, in address order (R4.11).
#[derive(Clone, Debug)]
struct Place {
    /// The pool's free blocks in it. Their pages are at home here.
    own: Vec<BlockId>,
    /// Its unmapped blocks, and how many pages each needs.
    gaps: Vec<(BlockId, u64)>,
    /// Pages that it needs in all.
    pages: u64,
    /// Bytes of a page.
    page: u64,
}

impl Held<'_> {
    /// Memory for a request under `page_reuse:always`, before any other is made: free pages as far as there are any, new ones
    /// for the rest. The block is in no list.
    pub fn reuse_first(&mut self, request: &Request<'_>) -> Result<Option<BlockId>> {
        match self.ladder.settings.page_reuse {
            PageReuse::Always => self.expand_by_moving(request, false),
            PageReuse::Off | PageReuse::Pressure => Ok(None),
        }
    }

    /// The same when the device or the limit is exhausted.
    pub fn reuse_under_pressure(&mut self, request: &Request<'_>) -> Result<Option<BlockId>> {
        match self.ladder.settings.page_reuse {
            PageReuse::Off => Ok(None),
            PageReuse::Pressure | PageReuse::Always => self.expand_by_moving(request, true),
        }
    }

    fn expand_by_moving(&mut self, request: &Request<'_>, pressing: bool) -> Result<Option<BlockId>> {
        let (pool, size) = (request.pool, request.fit.rounded);
        if !request.fit.expandable || request.in_capture || self.is_capturing(request.key.stream)? {
            return Ok(None);
        }
        self.unmap_passed()?;
        let Some(start) = self.place_to_expand(pool, size)? else { return Ok(None) };
        let mut place = self.place(pool, start, size);
        let mut supply = self.supply(request, &place, pressing)?;
        if supply.is_none() && pressing {
            // The lowest place needs too much; one that has more of its own may do.
            let places = self.places_to_expand(pool, size).map(|start| self.place(pool, start, size));
            let Some(least) = places.min_by_key(|place| place.pages) else { return Ok(None) };
            supply = self.supply(request, &least, pressing)?;
            place = least;
        }
        match supply {
            Some(supply) => self.move_pages(request, &place, supply).map(Some),
            None => Ok(None),
        }
    }

    /// The blocks of a place that has room.
    fn place(&self, pool: u32, start: BlockId, size: u64) -> Place {
        let page = self.page_of(pool, start);
        let blocks = &self.pools[pool as usize].blocks;
        let mut place = Place { own: Vec::new(), gaps: Vec::new(), pages: 0, page };
        let (mut bytes, mut next) = (0, start);
        while bytes < size && next != NONE {
            let block = &blocks[next];
            if block.mapped {
                place.own.push(next);
                bytes += block.size;
            } else {
                let pages = block.size.min(size - bytes).div_ceil(page);
                place.gaps.push((next, pages));
                place.pages += pages;
                bytes += pages * page;
            }
            next = block.next;
        }
        place
    }

    /// What may be held in all, bytes: the limit, or the fraction beyond which requests are rejected.
    fn limit(&self) -> Option<u64> {
        let settings = &self.ladder.settings;
        let fraction = (settings.per_process_memory_fraction * self.core.total as f64) as u64;
        let allowed = settings.throw_on_cudamalloc_oom.then_some(fraction);
        self.ladder.limit.into_iter().chain(allowed).min()
    }
}
