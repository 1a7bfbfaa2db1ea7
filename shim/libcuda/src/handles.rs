//! What CUDA's opaque pointers are here: numbers that name things of the simulation.
//!
//! Streams keep the order of their creation, which allocators that sort by handle make decisions by.

use std::cell::RefCell;
use std::collections::BTreeMap;

use millpond_cuda::sys::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUevent, CUstream};
use millpond_driver::{Code, Device, Event, Order, Stream};

use crate::context::current_device;
use crate::export::{Answer, Failure};
use crate::machine::{device, sim};

/// Streams lie from here: "MP" and 4 GiB of numbers for each device.
const STREAMS: usize = 0x4d50_0000_0000;
const PER_DEVICE: usize = 1 << 32;
/// Handles look like pointers to something.
const STEP: usize = 16;

thread_local! {
    /// The thread's default streams, by device, once it has used them.
    static OWN: RefCell<BTreeMap<Device, Stream>> = const { RefCell::new(BTreeMap::new()) };
}

pub(crate) fn handle_of(stream: Stream) -> CUstream {
    CUstream(STREAMS + stream.device.0 as usize * PER_DEVICE + stream.raw as usize * STEP)
}

/// The stream that a program means: one that it created, or a default stream of the current device.
pub(crate) fn stream(handle: CUstream) -> Answer<Stream> {
    match handle {
        CUstream(0) | CU_STREAM_LEGACY => Ok(Stream::default_of(current_device()?)),
        CU_STREAM_PER_THREAD => own_stream(current_device()?),
        CUstream(number) => {
            let unknown = Failure(Code::ERROR_INVALID_HANDLE);
            let number = number.checked_sub(STREAMS).ok_or(unknown)?;
            let device = i32::try_from(number / PER_DEVICE).ok().and_then(|ordinal| device(ordinal).ok());
            let raw = (number % PER_DEVICE) / STEP;
            match device {
                Some(device) if raw != 0 && number.is_multiple_of(STEP) => Ok(Stream::new(device, raw as u64)),
                _ => Err(unknown),
            }
        }
    }
}

fn own_stream(device: Device) -> Answer<Stream> {
    OWN.with_borrow_mut(|own| match own.get(&device) {
        Some(&stream) => Ok(stream),
        None => {
            let stream = sim()?.stream_create(device)?;
            own.insert(device, stream);
            Ok(stream)
        }
    })
}

pub(crate) fn event(handle: CUevent) -> Event {
    Event(handle.0 as u64)
}
