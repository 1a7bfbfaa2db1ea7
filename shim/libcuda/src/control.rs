//! What a test or a workload does to the machine itself, beside CUDA's interface: functions of our own, with our prefix.

use std::ffi::{c_char, c_int};

use millpond_cuda::sys::CUdevice;
use millpond_driver::{Memory, Status};
use millpond_sim::parse_faults;

use crate::machine::{device, sim};
use millpond_shim::{Out, Text, copy_text};

exports! {
    fn mpSimVersion("mpSimVersion" 1, text: Out<c_char>, len: c_int) {
        copy_text(text, len, concat!("Millpond simulated libcuda ", env!("CARGO_PKG_VERSION")))
    }

    fn mpSimAdvance("mpSimAdvance" 1, events: u64, done: Out<u64>) {
        done.offer(sim()?.advance(events));
        Ok(())
    }

    fn mpSimPendingEvents("mpSimPendingEvents" 1, events: Out<u64>) { events.set(sim()?.pending_events()) }

    fn mpSimAdvanceClock("mpSimAdvanceClock" 1, us: u64) {
        sim()?.advance_clock(us);
        Ok(())
    }

    fn mpSimNow("mpSimNow" 1, us: Out<u64>) { us.set(sim()?.now_us()) }

    fn mpSimDeviceUse("mpSimDeviceUse" 1, ordinal: CUdevice, bytes: Out<u64>) {
        let of = device(ordinal)?;
        let own = sim()?.process_use(of).and_then(|uses| uses.first().map(|own| own.used.0));
        bytes.set(own.unwrap_or(0))
    }

    fn mpSimMemoryInfo("mpSimMemoryInfo" 1, ordinal: CUdevice, free: Out<u64>, total: Out<u64>) {
        let (left, all) = sim()?.mem_info(device(ordinal)?)?;
        free.set(left)?;
        total.set(all)
    }

    fn mpSimPeakUse("mpSimPeakUse" 1, ordinal: CUdevice, bytes: Out<u64>) {
        bytes.set(sim()?.peak_use(device(ordinal)?))
    }

    fn mpSimFail("mpSimFail" 1, rules: Text) {
        let sim = sim()?;
        let rules = parse_faults(&rules.get()?).map_err(|_| millpond_driver::Code::ERROR_INVALID_VALUE)?;
        rules.into_iter().for_each(|rule| sim.fail(rule));
        Ok(())
    }

    fn mpSimClearFaults("mpSimClearFaults" 1) {
        sim()?.clear_faults();
        Ok(())
    }
}
