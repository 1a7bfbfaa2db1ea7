//! Steps that were done, and are undone in reverse unless all of them succeed (C47).

use millpond_driver::{Device, Driver, Handle};

/// One step that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Addresses were reserved: address, bytes.
    Reserved(u64, u64),
    /// A handle has a reference more.
    Created(Handle),
    /// Whole mappings were made: address, bytes.
    Mapped(u64, u64),
    /// Plain memory of another process was opened: its address.
    Opened(Device, u64),
}

impl Done {
    /// Undoes the step.
    pub fn undo(self, driver: &dyn Driver) -> millpond_driver::Result<()> {
        match self {
            Done::Reserved(addr, bytes) => driver.mem_address_free(addr, bytes),
            Done::Created(handle) => driver.mem_release(handle),
            Done::Mapped(addr, bytes) => driver.mem_unmap(addr, bytes),
            Done::Opened(device, addr) => driver.ipc_close(device, addr),
        }
    }
}

/// The steps of one sequence. Dropped without [`Undo::keep`] it undoes them, the last one first.
pub(crate) struct Undo<'d> {
    driver: &'d dyn Driver,
    done: Vec<Done>,
}

impl<'d> Undo<'d> {
    pub fn new(driver: &'d dyn Driver) -> Self {
        Undo { driver, done: Vec::new() }
    }

    pub fn push(&mut self, done: Done) {
        self.done.push(done);
    }

    /// All steps have succeeded: they stay.
    pub fn keep(mut self) {
        self.done.clear();
    }

    /// Undoes the steps although they succeeded; what could not be undone is returned, in the order in which to try again.
    pub fn finish(mut self) -> Vec<Done> {
        let done = std::mem::take(&mut self.done);
        done.into_iter().rev().filter(|done| done.undo(self.driver).is_err()).collect()
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        for done in self.done.drain(..).rev() {
            // The first error is the one that counts; what can still be undone is.
            let _ = done.undo(self.driver);
        }
    }
}
