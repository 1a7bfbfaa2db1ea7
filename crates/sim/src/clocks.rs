//! Vector clocks: what is ordered before what, by streams, events and the host.
//!
//! Each stream is a line of numbered points. A clock says, for every stream, up to which point everything is known to
//! be done before. Kept only where somebody asks: the hazard check and the driver's pools.

use rustc_hash::FxHashMap;

/// By stream: everything up to this point comes before.
pub(crate) type Clock = Vec<u64>;

/// A point on a stream's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub stream: usize,
    pub at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Clocks {
    host: Clock,
    streams: Vec<Clock>,
    events: FxHashMap<u64, Clock>,
}

fn join(clock: &mut Clock, other: &[u64]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// Whether `point` comes before whatever has this clock.
pub(crate) fn includes(clock: &[u64], point: Point) -> bool {
    clock.get(point.stream).is_some_and(|&at| at >= point.at)
}

impl Clocks {
    fn stream_mut(&mut self, stream: usize) -> &mut Clock {
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, Vec::new());
        }
        &mut self.streams[stream]
    }

    /// The host gives the stream something to do: the stream comes after all that the host knows to be done.
    pub fn submit(&mut self, stream: usize) -> Point {
        let host = std::mem::take(&mut self.host);
        let clock = self.stream_mut(stream);
        join(clock, &host);
        if clock.len() <= stream {
            clock.resize(stream + 1, 0);
        }
        clock[stream] += 1;
        let at = clock[stream];
        self.host = host;
        Point { stream, at }
    }

    /// What comes before the stream's next work.
    pub fn of_stream(&self, stream: usize) -> &[u64] {
        self.streams.get(stream).map_or(&[], Vec::as_slice)
    }

    pub fn of_host(&self) -> &[u64] {
        &self.host
    }

    pub fn record(&mut self, event: u64, stream: usize) {
        self.submit(stream);
        let clock = &self.streams[stream];
        self.events.entry(event).or_default().clone_from(clock);
    }

    pub fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    pub fn stream_waits(&mut self, stream: usize, event: u64) {
        if let Some(clock) = self.events.remove(&event) {
            join(self.stream_mut(stream), &clock);
            self.events.insert(event, clock);
        }
    }

    /// `stream` comes after `point`: the driver inserted a dependency.
    pub fn stream_follows(&mut self, stream: usize, point: Point) {
        let clock = self.stream_mut(stream);
        if clock.len() <= point.stream {
            clock.resize(point.stream + 1, 0);
        }
        clock[point.stream] = clock[point.stream].max(point.at);
    }

    pub fn host_joins_event(&mut self, event: u64) {
        if let Some(clock) = self.events.get(&event) {
            join(&mut self.host, clock);
        }
    }

    pub fn host_joins_stream(&mut self, stream: usize) {
        if let Some(clock) = self.streams.get(stream) {
            join(&mut self.host, clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_orders_what_was_before_the_recording_and_the_host_carries_order_to_all_streams() {
        let mut clocks = Clocks::default();
        let first = clocks.submit(0);
        clocks.record(7, 0);
        let later = clocks.submit(0);
        assert!(!includes(clocks.of_stream(1), first));
        clocks.stream_waits(1, 7);
        assert!(includes(clocks.of_stream(1), first) && !includes(clocks.of_stream(1), later));
        clocks.host_joins_stream(0);
        assert!(includes(clocks.of_host(), later));
        clocks.submit(2);
        assert!(includes(clocks.of_stream(2), later));
    }
}
