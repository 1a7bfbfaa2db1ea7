//! Virtual memory management.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use millpond_driver::{
    Access, Code, Device, DriverError, Granularity, Handle, HandleProps, HandleType, Location, Result, Shareable,
    Virtual,
};

use crate::cuda::Cuda;
use crate::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemFabricHandle, CUmemLocation, CUmemLocationType,
};

impl Virtual for Cuda {
    fn mem_address_reserve(&self, bytes: u64, align: u64, hint: u64) -> Result<u64> {
        let _entered = self.enter_any("cuMemAddressReserve")?;
        let mut addr = 0;
        let (bytes, align) = (bytes as usize, align as usize);
        call_optional!(self, cuMemAddressReserve as "cuMemAddressReserve", &mut addr, bytes, align, hint, 0)?;
        Ok(addr)
    }

    fn mem_address_free(&self, addr: u64, bytes: u64) -> Result<()> {
        let _entered = self.enter_any("cuMemAddressFree")?;
        call_optional!(self, cuMemAddressFree as "cuMemAddressFree", addr, bytes as usize)
    }

    fn mem_create(&self, bytes: u64, props: HandleProps) -> Result<Handle> {
        let _entered = self.enter_any("cuMemCreate")?;
        let mut handle = 0;
        call_optional!(self, cuMemCreate as "cuMemCreate", &mut handle, bytes as usize, &properties(props), 0)?;
        Ok(Handle(handle))
    }

    fn mem_release(&self, handle: Handle) -> Result<()> {
        let _entered = self.enter_any("cuMemRelease")?;
        call_optional!(self, cuMemRelease as "cuMemRelease", handle.0)
    }

    fn mem_map(&self, addr: u64, bytes: u64, offset: u64, handle: Handle) -> Result<()> {
        let _entered = self.enter_any("cuMemMap")?;
        call_optional!(self, cuMemMap as "cuMemMap", addr, bytes as usize, offset as usize, handle.0, 0)
    }

    fn mem_set_access(&self, addr: u64, bytes: u64, accessor: Location, access: Access) -> Result<()> {
        let _entered = self.enter_any("cuMemSetAccess")?;
        let flags = match access {
            Access::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            Access::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Access::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let wish = CUmemAccessDesc { location: as_accessor(accessor), flags };
        call_optional!(self, cuMemSetAccess as "cuMemSetAccess", addr, bytes as usize, &wish, 1)
    }

    fn mem_get_access(&self, addr: u64, accessor: Location) -> Result<Access> {
        let _entered = self.enter_any("cuMemGetAccess")?;
        let mut flags = 0;
        call_optional!(self, cuMemGetAccess as "cuMemGetAccess", &mut flags, &as_accessor(accessor), addr)?;
        Ok(match CUmemAccess_flags(flags as u32) {
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE => Access::ReadWrite,
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => Access::Read,
            _ => Access::None,
        })
    }

    fn mem_unmap(&self, addr: u64, bytes: u64) -> Result<()> {
        let _entered = self.enter_any("cuMemUnmap")?;
        call_optional!(self, cuMemUnmap as "cuMemUnmap", addr, bytes as usize)
    }

    fn mem_granularity(&self, props: HandleProps, which: Granularity) -> Result<u64> {
        const CALL: &str = "cuMemGetAllocationGranularity";
        if let Location::Device(device) = props.location {
            self.device(device, CALL)?;
        }
        let _entered = self.enter_any(CALL)?;
        let which = match which {
            Granularity::Minimum => CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            Granularity::Recommended => CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
        };
        let mut bytes = 0;
        call_optional!(
            self,
            cuMemGetAllocationGranularity as "cuMemGetAllocationGranularity",
            &mut bytes,
            &properties(props),
            which
        )?;
        Ok(bytes as u64)
    }

    fn mem_export(&self, handle: Handle, handle_type: HandleType) -> Result<Shareable> {
        let _entered = self.enter_any("cuMemExportToShareableHandle")?;
        let export = |to: *mut c_void| {
            let kind = exported_as(handle_type);
            call_optional!(self, cuMemExportToShareableHandle as "cuMemExportToShareableHandle", to, handle.0, kind, 0)
        };
        match handle_type {
            HandleType::None => Err(DriverError::with(
                Code::ERROR_INVALID_VALUE,
                "cuMemExportToShareableHandle",
                "a handle leaves the process as a file descriptor or as a fabric handle",
            )),
            HandleType::PosixFd => {
                let mut fd: c_int = -1;
                export((&raw mut fd).cast())?;
                // SAFETY: the driver has just made this descriptor for the caller.
                Ok(Shareable::Fd(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
            }
            HandleType::Fabric => {
                let mut fabric = CUmemFabricHandle::zeroed();
                export((&raw mut fabric).cast())?;
                Ok(Shareable::Fabric(fabric.data))
            }
        }
    }

    fn mem_import(&self, shared: &Shareable, device: Device) -> Result<Handle> {
        const CALL: &str = "cuMemImportFromShareableHandle";
        let _entered = self.enter(device, CALL)?;
        let mut handle = 0;
        let mut fabric;
        let (from, kind) = match shared {
            // The descriptor itself goes where a pointer would.
            Shareable::Fd(fd) => (std::ptr::without_provenance_mut(fd.as_raw_fd() as usize), HandleType::PosixFd),
            Shareable::Fabric(data) => {
                fabric = CUmemFabricHandle { data: *data };
                ((&raw mut fabric).cast::<c_void>(), HandleType::Fabric)
            }
        };
        let kind = exported_as(kind);
        call_optional!(self, cuMemImportFromShareableHandle as "cuMemImportFromShareableHandle", &mut handle, from, kind)?;
        Ok(Handle(handle))
    }

    fn mem_retain(&self, addr: u64) -> Result<Handle> {
        let _entered = self.enter_any("cuMemRetainAllocationHandle")?;
        let mut handle = 0;
        let at = std::ptr::without_provenance_mut(addr as usize);
        call_optional!(self, cuMemRetainAllocationHandle as "cuMemRetainAllocationHandle", &mut handle, at)?;
        Ok(Handle(handle))
    }

    fn mem_props(&self, handle: Handle) -> Result<HandleProps> {
        const CALL: &str = "cuMemGetAllocationPropertiesFromHandle";
        let _entered = self.enter_any(CALL)?;
        let mut found = CUmemAllocationProp::zeroed();
        call_optional!(
            self,
            cuMemGetAllocationPropertiesFromHandle as "cuMemGetAllocationPropertiesFromHandle",
            &mut found,
            handle.0
        )?;
        let id = found.location.id as u32;
        let location = match found.location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Location::Device(Device(id)),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => Location::HostNuma(id),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => Location::Host,
            other => {
                let detail = format!("the memory lies at a place of kind {}, which Millpond does not know", other.0);
                return Err(DriverError::with(Code::ERROR_UNKNOWN, CALL, detail));
            }
        };
        let handle_type = match found.requestedHandleTypes {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR => HandleType::PosixFd,
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC => HandleType::Fabric,
            _ => HandleType::None,
        };
        Ok(HandleProps { location, handle_type, rdma: found.allocFlags.gpuDirectRDMACapable != 0 })
    }
}

impl Cuda {
    /// Whether the library has all functions of virtual memory management.
    pub(crate) fn has_virtual_memory(&self) -> bool {
        let f = &self.functions;
        f.cuMemAddressReserve.is_some()
            && f.cuMemAddressFree.is_some()
            && f.cuMemCreate.is_some()
            && f.cuMemRelease.is_some()
            && f.cuMemMap.is_some()
            && f.cuMemUnmap.is_some()
            && f.cuMemSetAccess.is_some()
            && f.cuMemGetAllocationGranularity.is_some()
    }
}

pub(crate) fn location(location: Location) -> CUmemLocation {
    match location {
        Location::Device(device) => {
            CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device.0 as c_int)
        }
        Location::HostNuma(node) => {
            CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node as c_int)
        }
        Location::Host => CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
    }
}

/// Who accesses. The manual of `cuMemSetAccess` knows the host as `HOST_NUMA`, and does not look at the node then.
fn as_accessor(accessor: Location) -> CUmemLocation {
    location(match accessor {
        Location::Host => Location::HostNuma(0),
        Location::Device(_) | Location::HostNuma(_) => accessor,
    })
}

fn exported_as(handle_type: HandleType) -> CUmemAllocationHandleType {
    match handle_type {
        HandleType::None => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        HandleType::PosixFd => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        HandleType::Fabric => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC,
    }
}

fn properties(props: HandleProps) -> CUmemAllocationProp {
    let mut wish = CUmemAllocationProp::zeroed();
    wish.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    wish.requestedHandleTypes = exported_as(props.handle_type);
    wish.location = location(props.location);
    wish.allocFlags.gpuDirectRDMACapable = props.rdma.into();
    wish
}
