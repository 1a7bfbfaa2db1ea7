//! Virtual memory management: physical handles, reserved addresses, mappings and access.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::{Device, Result};

/// A physical allocation (`CUmemGenericAllocationHandle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// Where physical memory lies, or who accesses it (`CUmemLocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// On a device.
    Device(Device),
    /// On a NUMA node of the host.
    HostNuma(u32),
    /// The host, as an accessor.
    Host,
}

/// How a handle can leave the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HandleType {
    /// Not at all.
    #[default]
    None,
    /// As a POSIX file descriptor.
    PosixFd,
    /// As a 64-byte fabric handle.
    Fabric,
}

/// A handle outside of the process.
#[derive(Clone, Debug)]
pub enum Shareable {
    /// A file descriptor, closed when the last clone goes.
    Fd(Arc<OwnedFd>),
    /// A fabric handle.
    Fabric([u8; 64]),
}

/// Properties of a physical allocation (`CUmemAllocationProp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleProps {
    /// Where it lies.
    pub location: Location,
    /// How it can be exported.
    pub handle_type: HandleType,
    /// Whether network cards may reach it (`gpuDirectRDMACapable`).
    pub rdma: bool,
}

impl HandleProps {
    /// Pinned memory on `device`, not exportable.
    pub const fn on(device: Device) -> Self {
        HandleProps { location: Location::Device(device), handle_type: HandleType::None, rdma: false }
    }
}

/// What an accessor may do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Which granularity is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// The smallest size and alignment of a handle.
    Minimum,
    /// The one the driver recommends.
    Recommended,
}

/// Virtual memory management.
pub trait Virtual {
    /// `cuMemAddressReserve`: `bytes` of address space, aligned to `align` (0: the driver's own), near `hint` (0: anywhere).
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when the address space is used up; `INVALID_VALUE` for a size that is not a multiple of the granularity.
    fn mem_address_reserve(&self, bytes: u64, align: u64, hint: u64) -> Result<u64>;

    /// `cuMemAddressFree` of a whole reservation in which nothing is mapped.
    ///
    /// # Errors
    /// `INVALID_VALUE` for part of a reservation or one in which something is mapped.
    fn mem_address_free(&self, addr: u64, bytes: u64) -> Result<()>;

    /// `cuMemCreate`: `bytes` of physical memory.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`; `INVALID_VALUE` for a size that is not a multiple of the granularity; `NOT_SUPPORTED` or
    /// `NOT_PERMITTED` for a handle type that the device does not have.
    fn mem_create(&self, bytes: u64, props: HandleProps) -> Result<Handle>;

    /// `cuMemRelease`: drops one reference; the memory lives until it is unmapped everywhere.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a handle without references.
    fn mem_release(&self, handle: Handle) -> Result<()>;

    /// `cuMemMap` of the handle's bytes from `offset` at `addr`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a range outside of a reservation, misaligned, overlapping a mapping, or beyond the handle.
    fn mem_map(&self, addr: u64, bytes: u64, offset: u64, handle: Handle) -> Result<()>;

    /// `cuMemSetAccess` for one accessor over mapped memory. The host is an accessor of its own memory alone, and all of its
    /// nodes are one.
    ///
    /// # Errors
    /// `INVALID_VALUE` where part of the range is not mapped, or lies where the accessor cannot reach.
    fn mem_set_access(&self, addr: u64, bytes: u64, accessor: Location, access: Access) -> Result<()>;

    /// `cuMemGetAccess`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an address that is not mapped.
    fn mem_get_access(&self, addr: u64, accessor: Location) -> Result<Access>;

    /// `cuMemUnmap` of whole mappings.
    ///
    /// # Errors
    /// `INVALID_VALUE` for part of a mapping or a range with holes.
    fn mem_unmap(&self, addr: u64, bytes: u64) -> Result<()>;

    /// `cuMemGetAllocationGranularity`, bytes.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    fn mem_granularity(&self, props: HandleProps, which: Granularity) -> Result<u64>;

    /// `cuMemExportToShareableHandle`.
    ///
    /// # Errors
    /// `INVALID_VALUE` when the handle was not created with `handle_type`; `NOT_SUPPORTED`.
    fn mem_export(&self, handle: Handle, handle_type: HandleType) -> Result<Shareable>;

    /// `cuMemImportFromShareableHandle`: a new reference to memory made elsewhere.
    ///
    /// # Errors
    /// `INVALID_VALUE` for something that is not such a handle; `NOT_SUPPORTED`.
    fn mem_import(&self, shared: &Shareable, device: Device) -> Result<Handle>;

    /// `cuMemRetainAllocationHandle`: one more reference to the handle mapped at `addr`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an address that is not mapped.
    fn mem_retain(&self, addr: u64) -> Result<Handle>;

    /// `cuMemGetAllocationPropertiesFromHandle`.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn mem_props(&self, handle: Handle) -> Result<HandleProps>;
}
