//! Streams and events.

use millpond_driver::{Code, Device, Event, Order, Result, Stream};

use crate::cuda::Cuda;
use crate::sys::{CUevent, CUevent_flags, CUstream, CUstream_flags};

impl Order for Cuda {
    fn stream_create(&self, device: Device) -> Result<Stream> {
        self.remember(|| {
            let _entered = self.enter(device, "cuStreamCreate")?;
            let mut stream = CUstream(0);
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
            call!(self, cuStreamCreate as "cuStreamCreate", &mut stream, flags)?;
            Ok(Stream::new(device, stream.0 as u64))
        })
    }

    fn stream_destroy(&self, stream: Stream) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuStreamDestroy")?;
            call!(self, cuStreamDestroy_v2 as "cuStreamDestroy", handle(stream))
        })
    }

    fn stream_synchronize(&self, stream: Stream) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuStreamSynchronize")?;
            call!(self, cuStreamSynchronize as "cuStreamSynchronize", handle(stream))
        })
    }

    fn device_synchronize(&self, device: Device) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(device, "cuCtxSynchronize")?;
            call!(self, cuCtxSynchronize as "cuCtxSynchronize",)
        })
    }

    fn event_create(&self, device: Device) -> Result<Event> {
        self.remember(|| {
            let _entered = self.enter(device, "cuEventCreate")?;
            let mut event = CUevent(0);
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
            call!(self, cuEventCreate as "cuEventCreate", &mut event, flags)?;
            Ok(Event(event.0 as u64))
        })
    }

    fn event_destroy(&self, event: Event) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter_any("cuEventDestroy")?;
            call!(self, cuEventDestroy_v2 as "cuEventDestroy", CUevent(event.0 as usize))
        })
    }

    fn event_record(&self, event: Event, stream: Stream) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuEventRecord")?;
            call!(self, cuEventRecord as "cuEventRecord", CUevent(event.0 as usize), handle(stream))
        })
    }

    fn event_query(&self, event: Event) -> Result<bool> {
        let _entered = self.enter_any("cuEventQuery")?;
        match call!(self, cuEventQuery as "cuEventQuery", CUevent(event.0 as usize)) {
            Ok(()) => Ok(true),
            // An answer, not a failure: it leaves no error behind.
            Err(error) if error.code == Code::ERROR_NOT_READY => Ok(false),
            Err(error) => self.remember(|| Err(error)),
        }
    }

    fn event_synchronize(&self, event: Event) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter_any("cuEventSynchronize")?;
            call!(self, cuEventSynchronize as "cuEventSynchronize", CUevent(event.0 as usize))
        })
    }

    fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuStreamWaitEvent")?;
            call!(self, cuStreamWaitEvent as "cuStreamWaitEvent", handle(stream), CUevent(event.0 as usize), 0)
        })
    }
}

pub(crate) fn handle(stream: Stream) -> CUstream {
    CUstream(stream.raw as usize)
}
