//! Which pool a request for pinned memory goes to (R7.4).

use std::sync::atomic::Ordering::Relaxed;

use millpond_driver::{CaptureStatus, Stream};

use super::HostCore;
use crate::caller::Caller;
use crate::error::Result;
use crate::private::PoolId;
use crate::routing::{Filter, Scope};

impl HostCore {
    /// Whether a stream is capturing, also into a graph that was invalidated.
    pub fn is_capturing(&self, stream: Stream) -> Result<bool> {
        Ok(self.driver.capture_status(stream)? != CaptureStatus::None)
    }

    /// The pool of a request: the *oldest* scope that accepts the caller's stream, unlike on the device, else the default
    /// (R7.4). Custom filters are asked under no lock.
    pub fn route(&self, caller: &Caller<'_>, capturing: bool) -> Result<PoolId> {
        let scopes: Vec<Scope> = self.lock().scopes.clone();
        for Scope { pool, filter } in scopes {
            if !self.accepts(&filter, caller)? {
                continue;
            }
            if !capturing && !self.warned_not_capturing.swap(true, Relaxed) {
                tracing::warn!(
                    "pinned memory goes to the graph pool {pool}, but {} is not capturing; said once",
                    caller.stream
                );
            }
            return Ok(pool);
        }
        Ok(PoolId::DEFAULT)
    }

    fn accepts(&self, filter: &Filter, caller: &Caller<'_>) -> Result<bool> {
        Ok(match filter {
            Filter::Any => true,
            Filter::Thread(thread) => *thread == caller.thread(),
            Filter::Stream(only) => *only == caller.stream,
            Filter::Custom(accepts) => accepts(caller.stream),
            Filter::Capture(id) => match id.get() {
                None => false,
                Some(&id) => {
                    let info = self.driver.capture_info(caller.stream)?;
                    info.status == CaptureStatus::Active && info.id == id
                }
            },
        })
    }
}
