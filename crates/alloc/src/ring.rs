//! The ring of a history: the newest entries, each in one cache line.

use std::sync::Arc;

use millpond_driver::{Device, Stream};

use crate::caller::Stack;
use crate::event::{Action, Event};
use crate::private::PoolId;

/// The newest entries of a history (R9.12).
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// In order of arrival until full; then `oldest` is where the next one goes.
    entries: Vec<Entry>,
    oldest: usize,
    /// How many were overwritten.
    pub lost: u64,
}

/// An event as it is kept.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Entry {
    addr: u64,
    size: u64,
    stream: u64,
    time_us: u64,
    pool: PoolId,
    /// What few events have when no stacks are kept.
    more: Option<Box<More>>,
    device: Device,
    action: Action,
}

const _: () = assert!(size_of::<Entry>() == 64);

#[derive(Clone, Debug)]
struct More {
    stack: Option<Stack>,
    metadata: Option<Arc<str>>,
    compile_context: Option<Arc<str>>,
    internal: Option<&'static str>,
}

impl Entry {
    #[inline]
    fn of(event: Event) -> Self {
        let Event { action, addr, size, stream, time_us, pool, stack, metadata, compile_context, internal } = event;
        let Stream { device, raw } = stream;
        let is_plain = stack.is_none() && metadata.is_none() && compile_context.is_none() && internal.is_none();
        let more = (!is_plain).then(|| Box::new(More { stack, metadata, compile_context, internal }));
        Entry { addr, size, stream: raw, time_us, pool, more, device, action }
    }

    fn event(self) -> Event {
        let Entry { addr, size, stream, time_us, pool, more, device, action } = self;
        let more =
            more.map_or(More { stack: None, metadata: None, compile_context: None, internal: None }, |more| *more);
        let More { stack, metadata, compile_context, internal } = more;
        let stream = Stream::new(device, stream);
        Event { action, addr, size, stream, time_us, pool, stack, metadata, compile_context, internal }
    }
}

impl Ring {
    /// Adds an event; of `capacity` entries the oldest one makes room.
    #[inline]
    pub fn push(&mut self, event: Event, capacity: usize) {
        let entry = Entry::of(event);
        if self.entries.len() < capacity {
            self.entries.push(entry);
            return;
        }
        let Some(place) = self.entries.get_mut(self.oldest) else { return };
        *place = entry;
        self.oldest += 1;
        if self.oldest == self.entries.len() {
            self.oldest = 0;
        }
        self.lost += 1;
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        (self.oldest, self.lost) = (0, 0);
    }

    /// Keeps the newest entries only.
    pub fn shrink(&mut self, capacity: usize) {
        let surplus = self.entries.len().saturating_sub(capacity);
        if surplus > 0 {
            self.entries.rotate_left(self.oldest);
            self.oldest = 0;
            self.entries.drain(..surplus);
        }
    }

    /// The entries, oldest first.
    pub fn export(&self) -> Vec<Event> {
        let (newer, older) = self.entries.split_at(self.oldest);
        older.iter().chain(newer).cloned().map(Entry::event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(addr: u64) -> Event {
        let internal = (addr == 3).then_some("three");
        Event {
            action: Action::Alloc,
            addr,
            size: 512,
            stream: Stream::new(Device(1), 7),
            time_us: addr,
            pool: PoolId(0, 2),
            stack: None,
            metadata: None,
            compile_context: None,
            internal,
        }
    }

    fn kept(ring: &Ring) -> Vec<u64> {
        ring.export().iter().map(|event| event.addr).collect()
    }

    #[test]
    fn r9_12_the_newest_stay_in_order() {
        let mut ring = Ring::default();
        (0..3).for_each(|addr| ring.push(event(addr), 5));
        assert_eq!((kept(&ring), ring.lost), (vec![0, 1, 2], 0));
        (3..12).for_each(|addr| ring.push(event(addr), 5));
        assert_eq!((kept(&ring), ring.lost), (vec![7, 8, 9, 10, 11], 7));
        ring.shrink(3);
        assert_eq!(kept(&ring), [9, 10, 11]);
        ring.push(event(12), 3);
        assert_eq!((kept(&ring), ring.lost), (vec![10, 11, 12], 8));
        ring.clear();
        assert_eq!((kept(&ring), ring.lost), (vec![], 0));
    }

    #[test]
    fn an_event_comes_back_whole() {
        let mut ring = Ring::default();
        (2..4).for_each(|addr| ring.push(event(addr), 5));
        for (back, addr) in ring.export().into_iter().zip(2..) {
            assert_eq!(format!("{back:?}"), format!("{:?}", event(addr)));
        }
    }
}
