//! The order of work: streams, events, waits.

use crate::{Device, Event, Result, Stream};

/// Streams and events.
pub trait Order {
    /// `cuStreamCreate` (non-blocking).
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    fn stream_create(&self, device: Device) -> Result<Stream>;

    /// `cuStreamDestroy`; the stream's work still completes.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    fn stream_destroy(&self, stream: Stream) -> Result<()>;

    /// `cuStreamSynchronize`: the host waits for the stream.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` while it captures; any error of its work.
    fn stream_synchronize(&self, stream: Stream) -> Result<()>;

    /// `cuCtxSynchronize`: the host waits for the device.
    ///
    /// # Errors
    /// Any error of its work.
    fn device_synchronize(&self, device: Device) -> Result<()>;

    /// `cuEventCreate` with timing disabled.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`, `INVALID_DEVICE`.
    fn event_create(&self, device: Device) -> Result<Event>;

    /// `cuEventCreate` for an event of the allocator's own: it says when a stream has passed, and no program knows of it. Where
    /// a test completes events one by one, this one is not counted: it is complete when the events recorded before it on its
    /// stream are.
    ///
    /// # Errors
    /// As [`Order::event_create`].
    fn guard_create(&self, device: Device) -> Result<Event> {
        self.event_create(device)
    }

    /// `cuEventDestroy`.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    fn event_destroy(&self, event: Event) -> Result<()>;

    /// `cuEventRecord`: the event completes when the work that the stream has now is done.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    fn event_record(&self, event: Event, stream: Stream) -> Result<()>;

    /// `cuEventQuery`: whether the event has completed (`NOT_READY` is `false`, not an error).
    ///
    /// # Errors
    /// Any error of the work before it.
    fn event_query(&self, event: Event) -> Result<bool>;

    /// `cuEventSynchronize`: the host waits for the event.
    ///
    /// # Errors
    /// Any error of the work before it.
    fn event_synchronize(&self, event: Event) -> Result<()>;

    /// `cuStreamWaitEvent`: later work of `stream` waits for the event.
    ///
    /// # Errors
    /// `INVALID_HANDLE`; the capture errors.
    fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<()>;
}
