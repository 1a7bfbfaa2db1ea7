//! Moving pages into other memory under the same addresses.
//!
//! ```text
//! addresses   [ old page ]   →   [ old page ]   →   [ unmapped ]   →   [ new page ]
//! staging     [ unmapped ]   →   [ new page ]   →   [ new page ]   →   [ unmapped ]
//!                 copy the contents on a stream, wait, then swap
//! ```

use std::ops::Range;
use std::sync::Arc;

use millpond_driver::{Access, Handle, Location, Stream};

use crate::error::{At, Result, Step};
use crate::space::{Page, Space};
use crate::undo::{Done, Undo};

/// Moves the pages of a range that do not lie at `to` yet, all or nothing.
pub(crate) fn relocate(space: &mut Space, range: Range<usize>, to: Location, stream: Stream) -> Result<()> {
    let elsewhere = space.pages.range(range).filter(|(_, page)| page.location != to);
    let pages: Vec<usize> = elsewhere.map(|(&number, _)| number).collect();
    if pages.is_empty() {
        return Ok(());
    }
    space.wait()?;
    space.clear_leftovers();
    let driver = Arc::clone(&space.driver);
    let (page, bytes) = (space.page, pages.len() as u64 * space.page);

    // New memory, reachable by the device at a place of its own.
    let mut new = Undo::new(&*driver);
    let mut staged = Undo::new(&*driver);
    let staging = driver.mem_address_reserve(bytes, 0, 0).at(Step::Reserve)?;
    staged.push(Done::Reserved(staging, bytes));
    let mut handles: Vec<Handle> = Vec::with_capacity(pages.len());
    for _ in &pages {
        let handle = space.choice.create(&*driver, space.device, page, to)?;
        new.push(Done::Created(handle));
        handles.push(handle);
    }
    for (place, &handle) in (staging..).step_by(page as usize).zip(&handles) {
        driver.mem_map(place, page, 0, handle).at(Step::Map)?;
        staged.push(Done::Mapped(place, page));
    }
    let owner = Location::Device(space.device);
    driver.mem_set_access(staging, bytes, owner, Access::ReadWrite).at(Step::SetAccess)?;

    // The contents.
    let runs = runs(&pages);
    for run in &runs {
        let (from, to) = (space.addr(pages[run.start]), staging + run.start as u64 * page);
        driver.memcpy_async(to, from, run.len() as u64 * page, stream).at(Step::Copy)?;
    }
    driver.stream_synchronize(stream).at(Step::Wait)?;

    // The swap.
    for (done, run) in runs.iter().enumerate() {
        if let Err(error) = swap(space, pages[run.start], &handles[run.clone()], to) {
            for run in &runs[..done] {
                let _ = swap_back(space, pages[run.start], run.len());
            }
            return Err(error);
        }
    }

    // From here on the move has happened. Old memory that does not go now goes later.
    new.keep();
    let mut leftovers = staged.finish();
    for (number, handle) in pages.into_iter().zip(handles) {
        let moved = Page { handle, location: to, exported: None };
        if let Some(old) = space.pages.insert(number, moved)
            && driver.mem_release(old.handle).is_err()
        {
            leftovers.push(Done::Created(old.handle));
        }
    }
    space.leftovers.append(&mut leftovers);
    Ok(())
}

/// The runs of consecutive numbers in a list, as ranges of positions in it.
fn runs(pages: &[usize]) -> Vec<Range<usize>> {
    let consecutive = pages.chunk_by(|before, after| before + 1 == *after);
    let mut end = 0;
    consecutive
        .map(|run| {
            end += run.len();
            end - run.len()..end
        })
        .collect()
}

/// Maps new memory in the place of a run of pages; the old memory is kept. After a failure the old memory is mapped again.
fn swap(space: &Space, first: usize, handles: &[Handle], to: Location) -> Result<()> {
    let bytes = handles.len() as u64 * space.page;
    space.driver.mem_unmap(space.addr(first), bytes).at(Step::Unmap)?;
    let swapped = {
        let mut undo = Undo::new(&*space.driver);
        let mapped = handles.iter().enumerate().try_for_each(|(i, &handle)| space.map(first + i, handle, &mut undo));
        let granted = mapped.and_then(|()| space.grant(first..first + handles.len(), to));
        if granted.is_ok() {
            undo.keep();
        }
        granted
    };
    swapped.inspect_err(|_| drop(map_old(space, first, handles.len())))
}

/// Takes a swap back.
fn swap_back(space: &Space, first: usize, count: usize) -> Result<()> {
    space.driver.mem_unmap(space.addr(first), count as u64 * space.page).at(Step::Unmap)?;
    map_old(space, first, count)
}

fn map_old(space: &Space, first: usize, count: usize) -> Result<()> {
    for number in first..first + count {
        let Some(old) = space.pages.get(&number) else { continue };
        space.driver.mem_map(space.addr(number), space.page, 0, old.handle).at(Step::Map)?;
        space.grant(number..number + 1, old.location)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_are_positions_of_consecutive_pages() {
        assert_eq!(super::runs(&[2, 3, 4, 7, 9, 10]), [0..3, 3..4, 4..6]);
        assert_eq!(super::runs(&[]), []);
    }
}
