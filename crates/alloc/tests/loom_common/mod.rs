//! What the models share: an allocator on a simulated device, and two threads that meet on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::thread;
use millpond::{Allocator, Caller, Metric, World, config::Settings};
use millpond_driver::{Bytes, Device, Stream};
use millpond_sim::{Sim, SimConfig};

pub const MIB: u64 = 1 << 20;

pub fn stream(raw: u64) -> Stream {
    Stream::new(Device(0), raw)
}

pub fn on(raw: u64) -> Caller<'static> {
    Caller::on(stream(raw))
}

/// A block that stays.
pub fn take(a: &Allocator, raw: u64, bytes: u64) -> u64 {
    a.alloc(bytes, stream(raw), &on(raw)).unwrap()
}

/// Tries every way; with `LOOM_MAX_PREEMPTIONS` those with at most so many switches that no thread asked for.
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    let tried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tried);
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        model();
    });
    eprintln!("{} ways", tried.load(Relaxed));
}

/// An allocator that two threads share.
pub struct Model {
    pub a: Allocator,
}

impl Model {
    /// On a device of 256 MiB at a low address, with two free blocks of 2 MiB in all for each of some streams.
    pub fn warm(streams: &[u64]) -> Self {
        let config = SimConfig { va_base: 2 * MIB, va_end: 4096 * MIB, ..SimConfig::with_capacity(Bytes(256 * MIB)) };
        let a = Allocator::new(Sim::new(config), Device(0), World::new(Settings::default())).unwrap();
        for &raw in streams {
            a.free(take(&a, raw, MIB), &on(raw)).unwrap();
        }
        a.reset_peak_stats();
        Model { a }
    }

    /// Two threads at once; what each came to.
    pub fn race<R, S: Send + 'static>(
        &self,
        here: impl FnOnce(&Allocator) -> R,
        there: impl FnOnce(&Allocator) -> S + Send + 'static,
    ) -> (R, S) {
        let a = self.a.clone();
        let other = thread::spawn(move || there(&a));
        let mine = here(&self.a);
        (mine, other.join().unwrap())
    }

    /// A third thread beside [`Model::race`].
    pub fn with<T: Send + 'static>(
        &self,
        third: impl FnOnce(&Allocator) -> T + Send + 'static,
        others: impl FnOnce(&Self),
    ) -> T {
        let a = self.a.clone();
        let third = thread::spawn(move || third(&a));
        others(self);
        third.join().unwrap()
    }

    /// Nothing is wrong, and so many allocations live.
    pub fn conclude(&self, live: i64) {
        self.a.verify().unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let stats = self.a.stats();
        assert_eq!(stats.all(Metric::Allocation).current, live);
        let Some(held) = stats.metrics.iter().flatten().find(|stat| stat.current > stat.peak as i64) else { return };
        panic!("more is held than at the peak: {held:?}");
    }
}
