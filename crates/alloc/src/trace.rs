//! The history: which events are kept, with which stacks, in a ring (R9.11–R9.12, R9.18–R9.22).

use std::sync::{Arc, PoisonError};

use crate::caller::Caller;
use crate::event::{Action, Event, Observer};
use crate::log::{Line, Runs, Sheet};
use crate::ring::Ring;
use crate::sync::atomic::{AtomicU8, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard};

/// When stacks are kept (R9.20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nowhere.
    #[default]
    Never,
    /// On live blocks.
    State,
    /// Also in trace entries.
    Alloc,
    /// Also for frees.
    All,
}

/// What a history records (R9.18).
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// When stacks are kept.
    pub level: Level,
    /// The most entries kept; at least 1 (R9.12).
    pub max_entries: usize,
    /// Whether what was recorded so far is dropped.
    pub clear: bool,
    /// Whether entries carry the enclosing compiled region.
    pub compile_context: bool,
    /// Actions that are not stored; observers still see them (R9.21).
    pub skip_actions: Vec<Action>,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        HistoryOptions {
            level: Level::All,
            max_entries: usize::MAX,
            clear: false,
            compile_context: false,
            skip_actions: Vec::new(),
        }
    }
}

/// Somebody wants events.
const RECORDING: u8 = 1;
const OBSERVED: u8 = 2;
/// A history without stacks is all that is wanted: pools write what hits do.
const PLAIN: u8 = 4;

/// What pools write.
const OF_HITS: [Action; 3] = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted];

/// Where events go.
#[derive(Default)]
pub(crate) struct Journal {
    /// Read on every event; 0 means that nothing is written anywhere.
    sinks: AtomicU8,
    level: AtomicU8,
    /// The order of what pools write and what is written here.
    pub runs: Runs,
    inner: Mutex<Inner>,
    /// Held while observers run, so that they see events in order.
    delivery: Mutex<()>,
}

#[derive(Default)]
struct Inner {
    options: Option<HistoryOptions>,
    ring: Ring,
    /// The last run of what is written here.
    run: u64,
    observers: Vec<Arc<dyn Observer>>,
    /// What observers have not seen yet.
    queue: Vec<Event>,
}

impl Journal {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether events are wanted at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.sinks.load(Relaxed) != 0
    }

    pub fn is_recording(&self) -> bool {
        self.sinks.load(Relaxed) & RECORDING != 0
    }

    /// Whether pools write what hits do: nobody wants more than a history without stacks.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sinks.load(Relaxed) & PLAIN != 0
    }

    /// When stacks are wanted.
    #[inline]
    pub fn level(&self) -> Level {
        match self.level.load(Relaxed) {
            0 => Level::Never,
            1 => Level::State,
            2 => Level::Alloc,
            _ => Level::All,
        }
    }

    /// Starts, changes or (with `None`) stops and clears the history (R9.20). Pools have handed in what they wrote.
    pub fn record(&self, options: Option<HistoryOptions>) {
        let mut inner = self.inner();
        match &options {
            Some(options) => {
                let capacity = options.max_entries.max(1);
                // PyTorch leaves a shrunk ring undefined (U10); here the newest entries stay.
                if options.clear {
                    inner.ring.clear();
                }
                inner.ring.keep(capacity);
            }
            None => inner.ring.clear(),
        }
        let level = options.as_ref().map_or(Level::Never, |options| options.level);
        self.level.store(level as u8, Relaxed);
        inner.options = options;
        self.set_sinks(&inner);
    }

    fn set_sinks(&self, inner: &Inner) {
        let mut sinks = if inner.observers.is_empty() { 0 } else { OBSERVED };
        if let Some(options) = &inner.options {
            sinks |= RECORDING;
            if sinks == RECORDING
                && options.level == Level::Never
                && !OF_HITS.iter().any(|action| options.skip_actions.contains(action))
            {
                sinks |= PLAIN;
            }
        }
        self.sinks.store(sinks, Relaxed);
    }

    pub fn attach(&self, observer: Arc<dyn Observer>) {
        let mut inner = self.inner();
        inner.observers.push(observer);
        self.set_sinks(&inner);
    }

    /// Takes in what a pool has written. Returns an empty sheet.
    pub fn take_in(&self, sheet: Sheet) -> Vec<Line> {
        self.inner().ring.take_in(sheet)
    }

    /// Writes events. Called under the locks that make them true, so the order of entries is the order of events.
    #[inline]
    pub fn write<const N: usize>(&self, events: [Event; N], caller: Option<&Caller<'_>>) {
        let mut inner = self.inner();
        inner.run = self.runs.of(inner.run);
        let keeps_stacks = self.level() >= Level::Alloc;
        let keeps_regions = inner.options.as_ref().is_some_and(|options| options.compile_context);
        for mut event in events {
            if let Some(caller) = caller {
                event.metadata = event.metadata.or_else(|| caller.metadata.cloned());
                if keeps_regions {
                    event.compile_context = caller.compile_context.cloned();
                }
            }
            if !keeps_stacks {
                event.stack = None;
            }
            if !inner.observers.is_empty() {
                inner.queue.push(event.clone());
            }
            inner.store(event);
        }
    }

    /// Shows the observers what they have not seen. Called under no lock; whoever finds a delivery under way leaves its
    /// events to that one.
    #[inline]
    pub fn deliver(&self) {
        if self.sinks.load(Relaxed) & OBSERVED != 0 {
            self.deliver_now();
        }
    }

    fn deliver_now(&self) {
        while let Ok(_turn) = self.delivery.try_lock() {
            let (events, observers) = {
                let mut inner = self.inner();
                (std::mem::take(&mut inner.queue), inner.observers.clone())
            };
            if events.is_empty() {
                return;
            }
            observers.iter().for_each(|observer| observer.events(&events));
        }
    }

    /// The events, oldest first. Pools have handed in what they wrote.
    pub fn export(&self) -> Vec<Event> {
        self.inner().ring.export().0
    }

    /// Takes the events out, oldest first. Pools have handed in what they wrote.
    pub fn take(&self) -> Vec<Event> {
        let mut inner = self.inner();
        let (entries, _) = inner.ring.export();
        inner.ring.clear();
        entries
    }
}

impl Inner {
    #[inline]
    fn store(&mut self, event: Event) {
        let Some(options) = &self.options else { return };
        if event.action.is_torch() && !options.skip_actions.contains(&event.action) {
            self.ring.push(event, self.run);
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("sinks", &self.sinks).field("level", &self.level).finish_non_exhaustive()
    }
}
