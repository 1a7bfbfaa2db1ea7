//! Events, and when they complete.
//!
//! A stream's events complete in the order of their recording, so an event is complete when its stream has completed at
//! least as many recordings as there were when it was recorded. In manual mode one list holds the recordings of all
//! streams in order; an entry that its stream has overtaken is dropped when it is met.

use std::collections::VecDeque;

use millpond_driver::{Code, Device, DriverError, Event, Node, Order, Result, Stream};

use crate::calls::CallKind;
use crate::config::EventMode;
use crate::sim::{Sim, State, refuse};
use crate::slab::Slab;

#[derive(Debug)]
pub(crate) struct EventState {
    pub device: Device,
    pub recording: Recording,
    /// One of the allocator's own: it is not in the list of manual mode.
    pub guard: bool,
}

#[derive(Debug)]
pub(crate) enum Recording {
    Never,
    /// The `ordinal`-th recording of a stream, after `work` pieces of its work, done at `done_at` ns in timed mode.
    Live {
        stream: usize,
        ordinal: u64,
        work: u64,
        done_at: u64,
    },
    /// In a capture, with the nodes that a waiting stream will depend on.
    Captured {
        capture: u64,
        terminals: Vec<Node>,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    pub slab: Slab<EventState>,
    /// Manual mode: (stream, ordinal, work) of each recording, oldest first; some may be complete.
    pending: VecDeque<(u32, u64, u64)>,
    /// How many in `pending` are not complete.
    live: usize,
}

impl Sim {
    /// Manual mode: the `n` oldest pending events complete, whatever their streams. Returns how many there were.
    pub fn advance(&self, n: u64) -> u64 {
        let mut state = self.lock();
        let mut done = 0;
        while done < n
            && let Some((stream, ordinal, work)) = state.events.pending.pop_front()
        {
            let stream = state.streams.at_mut(stream as usize);
            if ordinal > stream.completed {
                stream.completed = ordinal;
                stream.passed = stream.passed.max(work);
                state.events.live -= 1;
                done += 1;
            }
        }
        done
    }

    /// All devices catch up with all work: every pending event completes. In timed mode the host's clock moves to the
    /// end of the last work.
    pub fn sync(&self) {
        let mut state = self.lock();
        for stream in state.streams.indices() {
            state.finish_stream(stream);
        }
    }

    /// `cuStreamQuery`: whether all that `stream` has is done: its events in immediate and manual mode, its work in
    /// timed mode.
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `STREAM_CAPTURE_UNSUPPORTED` while it captures, which the question invalidates.
    pub fn stream_query(&self, stream: Stream) -> Result<bool> {
        const KIND: CallKind = CallKind::StreamQuery;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            if state.streams.at(index).capture.is_some() && state.capture_checks {
                state.invalidate_capture_of(index);
                return refuse(KIND, Code::ERROR_STREAM_CAPTURE_UNSUPPORTED, format!("{stream} is capturing"));
            }
            let asked = state.streams.at(index);
            Ok(match state.mode {
                EventMode::Timed => asked.busy_until <= state.meter.now(),
                _ => asked.recorded == asked.completed,
            })
        })
    }

    /// How many recorded events are not complete.
    pub fn pending_events(&self) -> u64 {
        let state = self.lock();
        match state.mode {
            EventMode::Timed => {
                let now = state.meter.now();
                let pending =
                    |recording: &Recording| matches!(*recording, Recording::Live { done_at, .. } if done_at > now);
                state.events.slab.iter().filter(|(_, event)| pending(&event.recording)).count() as u64
            }
            _ => state.events.live as u64,
        }
    }

    /// Moves the virtual clock of the host forward, microseconds.
    pub fn advance_clock(&self, us: u64) {
        let mut state = self.lock();
        state.meter.pass(us.saturating_mul(1000));
    }
}

impl Order for Sim {
    fn stream_create(&self, device: Device) -> Result<Stream> {
        self.call(CallKind::StreamCreate, 0, 0, |state| {
            state.check_device(device, CallKind::StreamCreate)?;
            Ok(state.streams.create(device))
        })
    }

    fn stream_destroy(&self, stream: Stream) -> Result<()> {
        const KIND: CallKind = CallKind::StreamDestroy;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            if stream.raw == 0 {
                return refuse(KIND, Code::ERROR_INVALID_HANDLE, "the default stream stays");
            }
            state.abandon_capture_of(index);
            state.streams.at_mut(index).alive = false;
            Ok(())
        })
    }

    fn stream_synchronize(&self, stream: Stream) -> Result<()> {
        const KIND: CallKind = CallKind::StreamSynchronize;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            if state.streams.at(index).capture.is_some() && state.capture_checks {
                state.invalidate_capture_of(index);
                return refuse(KIND, Code::ERROR_STREAM_CAPTURE_UNSUPPORTED, format!("{stream} is capturing"));
            }
            state.finish_stream(index);
            state.pools_at_synchronisation();
            Ok(())
        })
    }

    fn device_synchronize(&self, device: Device) -> Result<()> {
        const KIND: CallKind = CallKind::DeviceSynchronize;
        self.call(KIND, 0, 0, |state| {
            state.check_device(device, KIND)?;
            state.forbid_during_capture(KIND)?;
            for index in state.streams.indices() {
                if state.streams.at(index).stream.device == device {
                    state.finish_stream(index);
                }
            }
            state.pools_at_synchronisation();
            Ok(())
        })
    }

    fn event_create(&self, device: Device) -> Result<Event> {
        self.call(CallKind::EventCreate, 0, 0, |state| {
            state.check_device(device, CallKind::EventCreate)?;
            Ok(Event(state.events.slab.insert(EventState { device, recording: Recording::Never, guard: false })))
        })
    }

    fn guard_create(&self, device: Device) -> Result<Event> {
        self.call(CallKind::EventCreate, 0, 0, |state| {
            state.check_device(device, CallKind::EventCreate)?;
            Ok(Event(state.events.slab.insert(EventState { device, recording: Recording::Never, guard: true })))
        })
    }

    fn event_destroy(&self, event: Event) -> Result<()> {
        self.call(CallKind::EventDestroy, 0, 0, |state| {
            let Some(_) = state.events.slab.remove(event.0) else { return no_event(event, CallKind::EventDestroy) };
            if let Some(clocks) = &mut state.clocks {
                clocks.forget_event(event.0);
            }
            Ok(())
        })
    }

    fn event_record(&self, event: Event, stream: Stream) -> Result<()> {
        self.call(CallKind::EventRecord, 0, 0, |state| state.record(event, stream))
    }

    fn event_query(&self, event: Event) -> Result<bool> {
        const KIND: CallKind = CallKind::EventQuery;
        self.call(KIND, 0, 0, |state| {
            if state.event_query_unsafe {
                state.forbid_during_capture(KIND)?;
            }
            let Some(EventState { recording, .. }) = state.events.slab.get(event.0) else {
                return no_event(event, KIND);
            };
            let done = match *recording {
                Recording::Never => true,
                Recording::Live { stream, ordinal, done_at, .. } => match state.mode {
                    EventMode::Timed => done_at <= state.meter.now(),
                    _ => ordinal <= state.streams.at(stream).completed,
                },
                Recording::Captured { capture, .. } => return state.captured_event(KIND, capture).map(|()| true),
            };
            if done && let Some(clocks) = &mut state.clocks {
                clocks.host_joins_event(event.0);
            }
            Ok(done)
        })
    }

    fn event_synchronize(&self, event: Event) -> Result<()> {
        const KIND: CallKind = CallKind::EventSynchronize;
        self.call(KIND, 0, 0, |state| {
            if state.event_query_unsafe {
                state.forbid_during_capture(KIND)?;
            }
            let Some(EventState { recording, .. }) = state.events.slab.get(event.0) else {
                return no_event(event, KIND);
            };
            match *recording {
                Recording::Never => return Ok(()),
                Recording::Live { stream, ordinal, work, done_at } => {
                    state.complete_up_to(stream, ordinal, work, done_at)
                }
                Recording::Captured { capture, .. } => return state.captured_event(KIND, capture),
            }
            if let Some(clocks) = &mut state.clocks {
                clocks.host_joins_event(event.0);
            }
            state.pools_at_synchronisation();
            Ok(())
        })
    }

    fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<()> {
        const KIND: CallKind = CallKind::StreamWaitEvent;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            let Some(EventState { recording, .. }) = state.events.slab.get(event.0) else {
                return no_event(event, KIND);
            };
            match *recording {
                Recording::Never => return Ok(()),
                Recording::Live { done_at, .. } => {
                    if state.streams.at(index).capture.is_some() {
                        return state.wait_crosses_into_capture(index, event);
                    }
                    let waiting = state.streams.at_mut(index);
                    waiting.busy_until = waiting.busy_until.max(done_at);
                }
                Recording::Captured { .. } => state.wait_in_capture(index, event)?,
            }
            if let Some(clocks) = &mut state.clocks {
                clocks.stream_waits(index, event.0);
            }
            Ok(())
        })
    }
}

#[cold]
pub(crate) fn no_event<T>(event: Event, kind: CallKind) -> Result<T> {
    Err(DriverError::with(Code::ERROR_INVALID_HANDLE, kind.name(), format!("event {:#x} does not exist", event.0)))
}

impl State {
    #[inline]
    fn record(&mut self, event: Event, stream: Stream) -> Result<()> {
        const KIND: CallKind = CallKind::EventRecord;
        let index = self.streams.find(stream, KIND)?;
        let Some(recorded) = self.events.slab.get_mut(event.0) else { return no_event(event, KIND) };
        if recorded.device != stream.device {
            let detail = format!("the event belongs to {}, the stream to {}", recorded.device, stream.device);
            return refuse(KIND, Code::ERROR_INVALID_HANDLE, detail);
        }
        let source = self.streams.at_mut(index);
        if source.capture.is_some() {
            return self.record_in_capture(event, index);
        }
        // A guard completes with what was recorded before it.
        source.recorded += u64::from(!recorded.guard);
        let (ordinal, work) = (source.recorded, source.work);
        let done_at = source.busy_until;
        recorded.recording = Recording::Live { stream: index, ordinal, work, done_at };
        match self.mode {
            EventMode::Immediate => {
                source.completed = ordinal;
                source.passed = work;
            }
            EventMode::Manual if recorded.guard => {}
            EventMode::Manual => self.events.push(index, ordinal, work, &self.streams),
            EventMode::Timed => {}
        }
        if let Some(clocks) = &mut self.clocks {
            clocks.record(event.0, index);
        }
        Ok(())
    }

    fn complete_up_to(&mut self, stream: usize, ordinal: u64, work: u64, done_at: u64) {
        self.meter.wait_until(done_at);
        let state = self.streams.at_mut(stream);
        if ordinal > state.completed {
            if self.mode == EventMode::Manual {
                self.events.live -= (ordinal - state.completed) as usize;
            }
            state.completed = ordinal;
        }
        state.passed = state.passed.max(work);
    }

    /// The host waits until all work that the stream had outside of a capture is done.
    pub fn finish_stream(&mut self, index: usize) {
        let state = self.streams.at(index);
        let (recorded, work, busy_until, capturing) =
            (state.recorded, state.work, state.busy_until, state.capture.is_some());
        self.complete_up_to(index, recorded, work, busy_until);
        // Captured work has not run, so the host knows nothing of it.
        if !capturing && let Some(clocks) = &mut self.clocks {
            clocks.host_joins_stream(index);
        }
    }

    /// Timed mode: the host's clock moves to the end of all work of the device.
    pub fn wait_for_device(&mut self, device: Device) {
        if self.mode == EventMode::Timed {
            let last = self.streams.of_device(device).map(|stream| self.streams.at(stream).busy_until).max();
            self.meter.wait_until(last.unwrap_or(0));
        }
    }
}

impl Events {
    #[inline]
    fn push(&mut self, stream: usize, ordinal: u64, work: u64, streams: &crate::streams::Streams) {
        self.pending.push_back((stream as u32, ordinal, work));
        self.live += 1;
        if self.pending.len() > 64 && self.pending.len() > 2 * self.live {
            self.pending.retain(|&(stream, ordinal, _)| ordinal > streams.at(stream as usize).completed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SimConfig;
    use std::sync::Arc;

    const D: Device = Device(0);
    const A: Stream = Stream::new(D, 1);
    const B: Stream = Stream::new(D, 2);

    fn sim(events: EventMode) -> Arc<Sim> {
        Sim::new(SimConfig { events, ..SimConfig::default() })
    }

    fn recorded(sim: &Sim, streams: &[Stream]) -> Vec<Event> {
        let record = |&stream: &Stream| {
            let event = sim.event_create(D).unwrap();
            sim.event_record(event, stream).unwrap();
            event
        };
        streams.iter().map(record).collect()
    }

    fn done(sim: &Sim, events: &[Event]) -> Vec<bool> {
        events.iter().map(|&event| sim.event_query(event).unwrap()).collect()
    }

    #[test]
    fn immediate_events_are_complete_when_recorded_and_so_is_one_never_recorded() {
        let sim = sim(EventMode::Immediate);
        let events = recorded(&sim, &[A]);
        assert_eq!(done(&sim, &events), [true]);
        let fresh = sim.event_create(D).unwrap();
        assert_eq!(done(&sim, &[fresh]), [true]);
        assert_eq!(sim.pending_events(), 0);
    }

    #[test]
    fn manual_events_complete_oldest_first_across_streams() {
        let sim = sim(EventMode::Manual);
        let events = recorded(&sim, &[A, B, A]);
        assert_eq!(done(&sim, &events), [false; 3]);
        assert_eq!(sim.advance(2), 2);
        assert_eq!(done(&sim, &events), [true, true, false]);
        assert_eq!(sim.advance(5), 1);
        assert_eq!(sim.advance(1), 0);
    }

    #[test]
    fn a_guard_completes_with_the_events_before_it_and_is_not_counted() {
        let sim = sim(EventMode::Manual);
        let guard = || {
            let guard = sim.guard_create(D).unwrap();
            sim.event_record(guard, A).unwrap();
            guard
        };
        let nothing_before = guard();
        let events = recorded(&sim, &[A, B]);
        let behind = guard();
        assert_eq!(done(&sim, &[nothing_before, behind]), [true, false]);
        assert_eq!((sim.pending_events(), sim.advance(1)), (2, 1));
        assert_eq!(done(&sim, &[events[0], behind, events[1]]), [true, true, false]);
        assert_eq!((sim.advance(9), sim.pending_events()), (1, 0));
        let (_, behind) = (recorded(&sim, &[A]), guard());
        sim.event_synchronize(behind).unwrap();
        assert_eq!(sim.pending_events(), 0, "what was before it is complete, too");
    }

    #[test]
    fn synchronising_with_an_event_completes_its_streams_events_up_to_it_only() {
        let sim = sim(EventMode::Manual);
        let events = recorded(&sim, &[A, B, A, A]);
        sim.event_synchronize(events[2]).unwrap();
        assert_eq!(done(&sim, &events), [true, false, true, false]);
        assert_eq!(sim.pending_events(), 2);
        assert_eq!(sim.advance(1), 1);
        assert_eq!(done(&sim, &events), [true, true, true, false], "overtaken entries do not count");
    }

    #[test]
    fn synchronising_with_a_stream_or_the_device_completes_what_they_have() {
        let sim = sim(EventMode::Manual);
        let events = recorded(&sim, &[A, B, A]);
        sim.stream_synchronize(A).unwrap();
        assert_eq!(done(&sim, &events), [true, false, true]);
        sim.device_synchronize(D).unwrap();
        assert_eq!(done(&sim, &events), [true; 3]);
        assert_eq!((sim.pending_events(), sim.advance(1)), (0, 0));
        let events = recorded(&sim, &[A, B]);
        sim.sync();
        assert_eq!(done(&sim, &events), [true; 2]);
    }

    #[test]
    fn memory_calls_complete_nothing_in_manual_mode() {
        let sim = sim(EventMode::Manual);
        let events = recorded(&sim, &[A]);
        use millpond_driver::Memory;
        let addr = sim.mem_alloc(D, 1).unwrap();
        sim.mem_free(D, addr).unwrap();
        assert_eq!(done(&sim, &events), [false]);
    }

    #[test]
    fn a_second_recording_replaces_the_first_for_the_event_but_both_are_in_the_list() {
        let sim = sim(EventMode::Manual);
        let event = recorded(&sim, &[A])[0];
        sim.event_record(event, B).unwrap();
        assert_eq!(sim.pending_events(), 2);
        sim.advance(1);
        assert!(!sim.event_query(event).unwrap());
        sim.advance(1);
        assert!(sim.event_query(event).unwrap());
    }

    #[test]
    fn the_list_of_pending_events_does_not_grow_when_only_streams_are_synchronised() {
        let sim = sim(EventMode::Manual);
        let event = sim.event_create(D).unwrap();
        for _ in 0..10_000 {
            sim.event_record(event, A).unwrap();
            sim.stream_synchronize(A).unwrap();
        }
        assert!(sim.lock().events.pending.len() < 100);
    }

    #[test]
    fn handles_that_do_not_exist_are_invalid() {
        let strict = Sim::new(SimConfig { strict_streams: true, ..SimConfig::default() });
        let invalid = |result: Result<()>| assert_eq!(result.unwrap_err().code, Code::ERROR_INVALID_HANDLE);
        invalid(strict.stream_synchronize(A));
        let created = strict.stream_create(D).unwrap();
        assert_eq!(created, A, "raw handles are ordinals");
        strict.stream_synchronize(A).unwrap();
        strict.stream_destroy(A).unwrap();
        invalid(strict.stream_synchronize(A));
        invalid(strict.stream_destroy(Stream::default_of(D)));

        let lax = sim(EventMode::Immediate);
        lax.stream_synchronize(A).unwrap();
        lax.stream_synchronize(Stream::new(D, 0x5555_0000)).unwrap();
        assert_eq!(lax.stream_create(D), Ok(B), "1 is in use");
        invalid(lax.stream_synchronize(Stream::new(Device(3), 1)));
        let event = lax.event_create(D).unwrap();
        lax.event_destroy(event).unwrap();
        invalid(lax.event_destroy(event));
        invalid(lax.event_record(event, A));
        assert_eq!(lax.event_query(event).unwrap_err().code, Code::ERROR_INVALID_HANDLE);
    }
}
