//! What the device's hazard check hears of the program: which memory is whose, and what work is called.

use std::borrow::Cow;

use millpond_driver::Stream;

use super::Runner;

impl Runner {
    /// An allocation was made; one of 0 bytes has no memory.
    #[cold]
    pub(super) fn tell_handed_out(&self, id: u64, addr: u64, stream: Stream) {
        if let Some((_, bytes)) = self.owner(id).size_of(addr) {
            self.sim().hand_out(addr, bytes, stream, &format!("allocation {id}"));
        }
    }

    /// The program frees what it has at `addr`; it has submitted all work that uses it.
    #[cold]
    pub(super) fn tell_given_back(&self, addr: u64) {
        self.sim().give_back(addr, "");
    }

    /// What reports call a piece of work: its own label, or the request that it came with.
    pub(super) fn name_of_work<'l>(&self, label: &'l str) -> Cow<'l, str> {
        match label {
            "" if self.tells_owners => Cow::Owned(format!("request {}", self.next - 1)),
            _ => Cow::Borrowed(label),
        }
    }
}
