//! Where pinned memory comes from and how it goes back (R7.9–R7.13).

use millpond_driver::{CaptureMode, Code, Driver, DriverError, HostFlags};

use super::HostCore;
use super::block::{Block, Source};
use super::reserve::{Region, Reserve};
use crate::config::Settings;
use crate::error::Result;
use crate::event::Action;

/// The host's pages.
const PAGE: u64 = 4096;

impl HostCore {
    /// Pinned memory for a new block: from the reserve segment if it has room, else from the driver (R7.9).
    pub fn make(&self, size: u64, settings: &Settings) -> Result<(u64, Source)> {
        match self.cut_reserve(size, settings)? {
            Some(addr) => Ok((addr, Source::Reserve)),
            None => self.lock_pages(size, settings),
        }
    }

    /// A part of the reserve segment, which is made at the first call (R7.13).
    fn cut_reserve(&self, size: u64, settings: &Settings) -> Result<Option<u64>> {
        // Made under the lock: nobody else shall make a second one meanwhile.
        let mut reserve = self.reserve.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Reserve::Unread = *reserve {
            *reserve = match settings.pinned_reserve_segment_size {
                0 => Reserve::Off,
                bytes => Reserve::Region(Region::new(self.lock_pages(bytes, settings)?, bytes, self.classes)),
            };
        }
        Ok(match &mut *reserve {
            Reserve::Region(region) => region.cut(size),
            _ => None,
        })
    }

    /// The slow path: the driver page-locks memory of its own, or memory that is made and touched before (R7.10).
    fn lock_pages(&self, size: u64, settings: &Settings) -> Result<(u64, Source)> {
        let start = self.driver.now_us();
        let made = self.relaxed(|driver| {
            if settings.pinned_use_cuda_host_register {
                Ok((registered(driver, size, settings.pinned_num_register_threads)?, Source::Registered))
            } else {
                Ok((driver.host_alloc(size, HostFlags::default())?, Source::Allocated))
            }
        });
        if made.is_err() {
            // Whoever checks the device after the next launch shall not find this error (C71).
            let _ = self.driver.take_last_error();
        }
        let made = made?;
        let took = self.driver.now_us().saturating_sub(start);
        self.lock().counts.host_alloc_time.add(took);
        Ok(made)
    }

    /// Gives blocks back that were taken out of the books. A block that the driver does not take stays cached.
    pub fn destroy(&self, blocks: Vec<Block>) -> Result<()> {
        let mut outcome = Ok(());
        for block in blocks {
            let given_back = match block.source {
                Source::Reserve => {
                    self.put_back_in_reserve(&block);
                    Ok(())
                }
                source => self.unlock_pages(block.addr, source),
            };
            let mut state = self.lock();
            match given_back {
                Ok(()) => {
                    state.counts.allocations.lower(1);
                    state.counts.allocated_bytes.lower(block.size);
                    self.emit(Action::SegmentFree, &block, block.made_by.clone(), None);
                }
                Err(error) => {
                    state.put_cached(block);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        outcome
    }

    fn put_back_in_reserve(&self, block: &Block) {
        let mut reserve = self.reserve.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Reserve::Region(region) = &mut *reserve {
            region.put_back(block.addr, block.size);
        }
    }

    /// Ends page-locking by the call that matches how it began (R7.12, C69).
    pub fn unlock_pages(&self, addr: u64, source: Source) -> Result<()> {
        let start = self.driver.now_us();
        self.relaxed(|driver| match source {
            Source::Registered => driver.host_unregister(addr).and_then(|()| driver.host_malloc_free(addr)),
            _ => driver.host_free(addr),
        })?;
        let took = self.driver.now_us().saturating_sub(start);
        self.lock().counts.host_free_time.add(took);
        Ok(())
    }

    /// Makes a call that a capture in another thread would forbid (R7.10).
    fn relaxed<T>(&self, call: impl FnOnce(&dyn Driver) -> millpond_driver::Result<T>) -> Result<T> {
        let before = self.driver.exchange_capture_mode(CaptureMode::Relaxed)?;
        let outcome = call(&*self.driver);
        // What the call made must not be lost because the mode cannot be set back, which no working driver refuses.
        let _ = self.driver.exchange_capture_mode(before);
        Ok(outcome?)
    }
}

/// Memory of the host, touched and then page-locked; nothing of it is left after a failure.
fn registered(driver: &dyn Driver, size: u64, threads: u64) -> millpond_driver::Result<u64> {
    let addr = driver.host_malloc(size)?;
    let locked =
        touch(driver, addr, size, threads).and_then(|()| driver.host_register(addr, size, HostFlags::default()));
    if let Err(error) = locked {
        // The first error is the one that counts.
        let _ = driver.host_malloc_free(addr);
        return Err(error);
    }
    Ok(addr)
}

/// Makes every page exist: locking them is much faster then. On several threads if each has a page to touch (R7.11).
fn touch(driver: &dyn Driver, addr: u64, size: u64, threads: u64) -> millpond_driver::Result<()> {
    if threads <= 1 || size < PAGE * threads {
        return driver.host_touch(addr, size);
    }
    let share = size.div_ceil(PAGE).div_ceil(threads) * PAGE;
    std::thread::scope(|scope| {
        let touch_from = |start: u64| driver.host_touch(addr + start, share.min(size - start));
        let parts = (0..threads).map(|part| part * share).take_while(|&start| start < size);
        let running: Vec<_> = parts
            .map(|start| {
                let name = "millpond-touch".to_owned();
                let spawned = std::thread::Builder::new().name(name).spawn_scoped(scope, move || touch_from(start));
                // Without a thread to spare, this one does it.
                spawned.map_err(|_| touch_from(start))
            })
            .collect();
        running.into_iter().try_for_each(|part| match part {
            Ok(thread) => thread.join().unwrap_or_else(|_| {
                Err(DriverError::with(Code::ERROR_UNKNOWN, "touch", "the touching thread panicked"))
            }),
            Err(done) => done,
        })
    })
}
