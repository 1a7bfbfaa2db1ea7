//! What the devices are, the clock and the last error.

use millpond_driver::{Caps, Code, Device, Result, Status};

use crate::calls::CallKind;
use crate::sim::Sim;

impl Status for Sim {
    fn device_count(&self) -> u32 {
        self.config().devices.len() as u32
    }

    fn caps(&self, device: Device) -> Result<Caps> {
        self.call(CallKind::Caps, 0, 0, |state| {
            state.check_device(device, CallKind::Caps)?;
            Ok(state.caps[device.0 as usize].clone())
        })
    }

    fn driver_version(&self) -> i32 {
        self.config().driver_version
    }

    #[inline]
    fn now_us(&self) -> u64 {
        self.clock.now() / 1000
    }

    fn peek_last_error(&self) -> Option<Code> {
        self.lock().last_error
    }

    fn take_last_error(&self) -> Option<Code> {
        let mut state = self.lock();
        let error = state.last_error;
        state.last_error = state.fatal_code();
        error
    }

    fn call_counts(&self) -> Vec<(&'static str, u64)> {
        let state = self.lock();
        state.meter.counts().filter(|&(_, count)| count != 0).map(|(kind, count)| (kind.name(), count)).collect()
    }
}
