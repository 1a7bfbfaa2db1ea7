//! Primary contexts: taken once for each device, current in a thread for the length of a call.

use millpond_driver::{Device, Result};

use crate::cuda::Cuda;
use crate::sys::CUcontext;

/// A device's primary context, kept for as long as the driver is: memory of it may outlive everything else.
#[derive(Debug)]
pub(crate) struct Context(pub CUcontext);

/// The context that was current before; it is again when this goes.
#[must_use]
pub(crate) struct Entered<'a> {
    cuda: &'a Cuda,
    before: Option<CUcontext>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // A context that cannot be put back was destroyed by its owner in the meantime.
            let _ = call!(self.cuda, cuCtxSetCurrent as "cuCtxSetCurrent", before);
        }
    }
}

impl Cuda {
    /// Makes the primary context of `device` current in this thread. Two calls that never leave the process, if it is
    /// current already only one.
    pub(crate) fn enter(&self, device: Device, call: &'static str) -> Result<Entered<'_>> {
        let context = self.primary(device, call)?;
        let before = self.current()?;
        if before == context {
            return Ok(Entered { cuda: self, before: None });
        }
        call!(self, cuCtxSetCurrent as "cuCtxSetCurrent", context)?;
        Ok(Entered { cuda: self, before: Some(before) })
    }

    /// For calls that work in any context but not without one: enters the first device's if there is none.
    pub(crate) fn enter_any(&self, call: &'static str) -> Result<Entered<'_>> {
        match self.current()? {
            CUcontext(0) => self.enter(Device(0), call),
            _ => Ok(Entered { cuda: self, before: None }),
        }
    }

    fn current(&self) -> Result<CUcontext> {
        let mut current = CUcontext(0);
        call!(self, cuCtxGetCurrent as "cuCtxGetCurrent", &mut current)?;
        Ok(current)
    }

    pub(crate) fn primary(&self, device: Device, call: &'static str) -> Result<CUcontext> {
        let state = self.device(device, call)?;
        if let Some(context) = state.context.get() {
            return Ok(context.0);
        }
        let mut context = CUcontext(0);
        call!(self, cuDevicePrimaryCtxRetain as "cuDevicePrimaryCtxRetain", &mut context, state.ordinal)?;
        if state.context.set(Context(context)).is_err() {
            // Another thread was faster, and there is only one primary context: one of two references goes.
            call!(self, cuDevicePrimaryCtxRelease_v2 as "cuDevicePrimaryCtxRelease", state.ordinal)?;
        }
        Ok(context)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        for state in &self.devices {
            if state.context.get().is_some() {
                // The driver may be shutting down by now; then there is nothing to give back.
                let _ = call!(self, cuDevicePrimaryCtxRelease_v2 as "cuDevicePrimaryCtxRelease", state.ordinal);
            }
        }
    }
}
