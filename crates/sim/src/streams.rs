//! The streams of all devices.

use millpond_driver::{Code, Device, DriverError, Node, Result, Stream};
use rustc_hash::FxHashMap;

use crate::calls::CallKind;

/// Raw handles below this one are looked up by index.
const SMALL: u64 = 256;

/// No stream has this index.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct StreamState {
    pub stream: Stream,
    pub alive: bool,
    /// Event recordings so far.
    pub recorded: u64,
    /// Of those, how many are complete: always the oldest ones.
    pub completed: u64,
    /// Pieces of work so far.
    pub work: u64,
    /// Of those, how many the host knows to be done.
    pub passed: u64,
    /// When all its work is done (timed mode), nanoseconds.
    pub busy_until: u64,
    /// The capture that it is part of.
    pub capture: Option<u64>,
    /// In a capture: what its next node will depend on.
    pub terminals: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Streams {
    table: Vec<StreamState>,
    /// By device, then by raw handle: the index in the table.
    small: Vec<Vec<u32>>,
    large: FxHashMap<Stream, u32>,
    /// By device: the raw handle of the next stream.
    next: Vec<u64>,
    strict: bool,
}

impl Streams {
    pub fn new(devices: usize, strict: bool) -> Self {
        let mut streams = Streams {
            table: Vec::new(),
            small: vec![Vec::new(); devices],
            large: FxHashMap::default(),
            next: vec![1; devices],
            strict,
        };
        for device in 0..devices as u32 {
            streams.add(Stream::default_of(Device(device)));
        }
        streams
    }

    fn add(&mut self, stream: Stream) -> usize {
        let index = self.table.len();
        self.table.push(StreamState {
            stream,
            alive: true,
            recorded: 0,
            completed: 0,
            work: 0,
            passed: 0,
            busy_until: 0,
            capture: None,
            terminals: Vec::new(),
        });
        if stream.raw < SMALL {
            let by_raw = &mut self.small[stream.device.0 as usize];
            if by_raw.len() <= stream.raw as usize {
                by_raw.resize(stream.raw as usize + 1, NONE);
            }
            by_raw[stream.raw as usize] = index as u32;
        } else {
            self.large.insert(stream, index as u32);
        }
        index
    }

    fn known(&self, stream: Stream) -> Option<usize> {
        let index = if stream.raw < SMALL {
            *self.small.get(stream.device.0 as usize)?.get(stream.raw as usize)?
        } else {
            *self.large.get(&stream)?
        };
        (index != NONE).then_some(index as usize)
    }

    /// A new stream with the next raw handle of its device.
    pub fn create(&mut self, device: Device) -> Stream {
        loop {
            let raw = self.next[device.0 as usize];
            self.next[device.0 as usize] += 1;
            let stream = Stream::new(device, raw);
            if self.known(stream).is_none() {
                self.add(stream);
                return stream;
            }
        }
    }

    /// The index of `stream`, which comes into being if that is allowed.
    #[inline]
    pub fn find(&mut self, stream: Stream, kind: CallKind) -> Result<usize> {
        match self.known(stream) {
            Some(index) if self.table[index].alive => Ok(index),
            known => self.find_other(stream, kind, known.is_some()),
        }
    }

    #[cold]
    fn find_other(&mut self, stream: Stream, kind: CallKind, destroyed: bool) -> Result<usize> {
        let why = if destroyed {
            format!("{stream} of {} was destroyed", stream.device)
        } else if stream.device.0 as usize >= self.small.len() {
            format!("there is no {}", stream.device)
        } else if self.strict {
            format!("{stream} of {} was never created", stream.device)
        } else {
            return Ok(self.add(stream));
        };
        Err(DriverError::with(Code::ERROR_INVALID_HANDLE, kind.name(), why))
    }

    #[inline]
    pub fn at(&self, index: usize) -> &StreamState {
        &self.table[index]
    }

    #[inline]
    pub fn at_mut(&mut self, index: usize) -> &mut StreamState {
        &mut self.table[index]
    }

    pub fn indices(&self) -> std::ops::Range<usize> {
        0..self.table.len()
    }

    pub fn of_device(&self, device: Device) -> impl Iterator<Item = usize> + use<'_> {
        self.indices().filter(move |&index| self.table[index].stream.device == device)
    }
}
