//! The thread that caches what has completed, so that requests need not (R7.8).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::HostCore;
use crate::private::PoolId;

const PERIOD: Duration = Duration::from_micros(100);

/// Starts the thread, once per cache. It ends with the cache, not with the setting.
pub(crate) fn start(core: &Arc<HostCore>) {
    if core.has_background.swap(true, Relaxed) {
        return;
    }
    let cache = Arc::downgrade(core);
    let run = move || {
        while let Some(core) = cache.upgrade() {
            core.note(core.collect(PoolId::DEFAULT));
            drop(core);
            std::thread::sleep(PERIOD);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("millpond-pinned".to_owned()).spawn(run) {
        tracing::warn!("no background thread for pinned memory: {error}");
        core.has_background.store(false, Relaxed);
    }
}
