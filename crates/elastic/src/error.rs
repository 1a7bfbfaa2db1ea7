//! What can go wrong, in sentences for the one who called.

use std::fmt;

use millpond_driver::{Bytes, Device, DriverError};

/// The step of a sequence of driver calls (C47).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Asking the device what it is able to do.
    Ask,
    /// Reserving addresses.
    Reserve,
    /// Creating physical memory.
    Create,
    /// Mapping it.
    Map,
    /// Giving access to it.
    SetAccess,
    /// Copying contents.
    Copy,
    /// Waiting for a stream or a device.
    Wait,
    /// Unmapping.
    Unmap,
    /// Releasing physical memory.
    Release,
    /// Giving addresses back.
    AddressFree,
    /// Exporting a handle.
    Export,
    /// Importing a handle.
    Import,
    /// Letting another device use plain memory.
    PeerAccess,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Ask => "asking the device what it can do",
            Step::Reserve => "reserving addresses",
            Step::Create => "creating physical memory",
            Step::Map => "mapping memory",
            Step::SetAccess => "giving access to memory",
            Step::Copy => "copying memory",
            Step::Wait => "waiting for work on the device",
            Step::Unmap => "unmapping memory",
            Step::Release => "releasing physical memory",
            Step::AddressFree => "giving addresses back",
            Step::Export => "exporting memory",
            Step::Import => "importing memory",
            Step::PeerAccess => "letting another device use memory",
        })
    }
}

/// A call that was not carried out. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A driver call failed; the steps before it were undone.
    #[error("{step} failed: {source}")]
    Driver {
        /// Which step.
        step: Step,
        /// What the driver answered.
        source: DriverError,
    },
    /// Pinned memory of the host for saved contents could not be had.
    #[error("no pinned memory to keep the contents in: {0}")]
    Pinned(#[source] millpond::Error),
    /// A memory pool could not go to sleep or wake up.
    #[error(transparent)]
    Pool(millpond::Error),
    /// An allocator of another device.
    #[error("the allocator serves {device}, and {expected} is meant")]
    WrongDevice {
        /// The allocator's device.
        device: Device,
        /// The device that is meant.
        expected: Device,
    },
    /// The device has no virtual memory management.
    #[error("{0} has no virtual memory management, on which elastic buffers rest")]
    NoVirtualMemory(Device),
    /// Nobody knows the NUMA node of the device.
    #[error("the NUMA node of the host next to {0} is unknown; name one")]
    NoNumaNode(Device),
    /// The device cannot map the host's memory.
    #[error("{0} cannot map memory of a NUMA node of the host")]
    NoHostMemory(Device),
    /// The device does not export memory in the way that was asked for.
    #[error("{device} exports no {what}")]
    NotExportable {
        /// The device.
        device: Device,
        /// What was asked for.
        what: &'static str,
    },
    /// A page size that does not fit the device.
    #[error("a page of {} does not fit: it must be a multiple of {}", Bytes(*.page), Bytes(*.granularity))]
    PageSize {
        /// Bytes asked for.
        page: u64,
        /// The device's granularity, bytes.
        granularity: u64,
    },
    /// A buffer that can hold nothing, or more than there are addresses.
    #[error("a capacity of {capacity} bytes is not possible")]
    Capacity {
        /// Bytes asked for.
        capacity: u64,
    },
    /// A range outside of the buffer.
    #[error("the range of {bytes} bytes from offset {offset} does not lie inside of the buffer of {capacity} bytes")]
    OutOfRange {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        bytes: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// A range in which no memory is.
    #[error("no memory is committed at offset {offset}")]
    NotCommitted {
        /// The first offset without memory.
        offset: u64,
    },
    /// The buffer was not made to be shared.
    #[error("the buffer was not made to be shared: choose a sharing when it is made")]
    NotShared,
    /// A text that is no IPC handle.
    #[error("this is not a shared memory handle: {0}")]
    Handle(#[from] crate::share::HandleError),
    /// Another process does not give up its file descriptors.
    #[error(transparent)]
    Process(#[from] crate::share::ProcessError),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] std::io::Error),
    /// The other side closed the socket in the middle of a message.
    #[error("the other side closed the socket after {received} of {expected} handles")]
    Closed {
        /// Handles that had come.
        received: usize,
        /// Handles that were announced.
        expected: usize,
    },
    /// No allocation starts at an address.
    #[error("no allocation starts at {addr:#x}")]
    UnknownAddress {
        /// The address.
        addr: u64,
    },
    /// Nothing has a tag.
    #[error("no allocation or memory pool has the tag '{tag}'")]
    UnknownTag {
        /// The tag.
        tag: String,
    },
    /// Putting to sleep what sleeps.
    #[error("'{tag}' is asleep already; wake it first")]
    Asleep {
        /// The tag.
        tag: String,
    },
    /// Waking what is awake.
    #[error("'{tag}' is awake already")]
    Awake {
        /// The tag.
        tag: String,
    },
    /// A registration of physical memory that is gone (C49).
    #[error(
        "the registration of {addr:#x} is stale: the memory behind it was given back and made anew; register it again"
    )]
    StaleRegistration {
        /// The address.
        addr: u64,
    },
}

impl Error {
    /// Whether the device or the host has no room.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Error::Driver { source, .. } => source.is_out_of_memory(),
            Error::Pinned(millpond::Error::Driver(source)) | Error::Pool(millpond::Error::Driver(source)) => {
                source.is_out_of_memory()
            }
            Error::Pool(error) => error.is_out_of_memory(),
            _ => false,
        }
    }

    /// The step at which the driver failed.
    pub fn step(&self) -> Option<Step> {
        match self {
            Error::Driver { step, .. } => Some(*step),
            _ => None,
        }
    }
}

/// What the calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

/// Says at which step a driver call failed.
pub(crate) trait At<T> {
    fn at(self, step: Step) -> Result<T>;
}

impl<T> At<T> for millpond_driver::Result<T> {
    fn at(self, step: Step) -> Result<T> {
        self.map_err(|source| Error::Driver { step, source })
    }
}
