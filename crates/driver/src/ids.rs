//! Names of devices, streams and events.

/// The index of a device, as CUDA counts them from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Device(pub u32);

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GPU {}", self.0)
    }
}

/// A stream of one device, by its raw handle (`cuStream` as a number; 0 is the default stream).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The device whose work the stream orders.
    pub device: Device,
    /// The raw handle.
    pub raw: u64,
}

impl Stream {
    /// The stream of `device` with the raw handle `raw`.
    pub const fn new(device: Device, raw: u64) -> Self {
        Stream { device, raw }
    }

    /// The default stream of `device`.
    pub const fn default_of(device: Device) -> Self {
        Stream { device, raw: 0 }
    }
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.raw {
            0 => f.write_str("the default stream"),
            raw => write!(f, "stream {raw:#x}"),
        }
    }
}

/// An event, by its raw handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(pub u64);
