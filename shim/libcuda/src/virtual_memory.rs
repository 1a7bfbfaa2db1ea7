//! Virtual memory management.

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::Arc;

use millpond_cuda::sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemFabricHandle, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemLocationType,
};
use millpond_driver::{
    Access, Code, Device, Granularity, Handle, HandleProps, HandleType, Location, Shareable, Virtual,
};

use crate::context::current_device;
use crate::export::{Answer, Failure};
use crate::machine::sim;
use millpond_shim::{In, Out};

const INVALID: Failure = Failure(Code::ERROR_INVALID_VALUE);

exports! {
    fn cuMemAddressReserve("cuMemAddressReserve" 10020,
        addr: Out<CUdeviceptr>, bytes: usize, align: usize, hint: CUdeviceptr, _flags: u64) {
        addr.set(sim()?.mem_address_reserve(bytes as u64, align as u64, hint)?)
    }

    fn cuMemAddressFree("cuMemAddressFree" 10020, addr: CUdeviceptr, bytes: usize) {
        Ok(sim()?.mem_address_free(addr, bytes as u64)?)
    }

    fn cuMemCreate("cuMemCreate" 10020,
        handle: Out<CUmemGenericAllocationHandle>, bytes: usize, props: In<CUmemAllocationProp>, _flags: u64) {
        handle.set(sim()?.mem_create(bytes as u64, properties(&props.get()?)?)?.0)
    }

    fn cuMemRelease("cuMemRelease" 10020, handle: CUmemGenericAllocationHandle) {
        Ok(sim()?.mem_release(Handle(handle))?)
    }

    fn cuMemMap("cuMemMap" 10020,
        addr: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, _flags: u64) {
        Ok(sim()?.mem_map(addr, bytes as u64, offset as u64, Handle(handle))?)
    }

    fn cuMemUnmap("cuMemUnmap" 10020, addr: CUdeviceptr, bytes: usize) {
        Ok(sim()?.mem_unmap(addr, bytes as u64)?)
    }

    fn cuMemSetAccess("cuMemSetAccess" 10020,
        addr: CUdeviceptr, bytes: usize, wishes: In<CUmemAccessDesc>, count: usize) {
        for wish in wishes.list(count)? {
            let access = match wish.flags {
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => Access::None,
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => Access::Read,
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE => Access::ReadWrite,
                _ => return Err(INVALID),
            };
            sim()?.mem_set_access(addr, bytes as u64, location(wish.location)?, access)?;
        }
        Ok(())
    }

    fn cuMemGetAccess("cuMemGetAccess" 10020, flags: Out<u64>, accessor: In<CUmemLocation>, addr: CUdeviceptr) {
        let access = match sim()?.mem_get_access(addr, location(accessor.get()?)?)? {
            Access::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            Access::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Access::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        flags.set(access.0.into())
    }

    fn cuMemGetAllocationGranularity("cuMemGetAllocationGranularity" 10020,
        bytes: Out<usize>, props: In<CUmemAllocationProp>, which: CUmemAllocationGranularity_flags) {
        let which = match which {
            CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM => Granularity::Minimum,
            _ => Granularity::Recommended,
        };
        bytes.set(sim()?.mem_granularity(properties(&props.get()?)?, which)? as usize)
    }

    fn cuMemExportToShareableHandle("cuMemExportToShareableHandle" 10020,
        to: Out<c_void>, handle: CUmemGenericAllocationHandle, kind: CUmemAllocationHandleType, _flags: u64) {
        match sim()?.mem_export(Handle(handle), handle_type(kind)?)? {
            // The descriptor is the caller's from here on.
            Shareable::Fd(fd) => match fd.try_clone() {
                Ok(fd) => to.of::<c_int>().set(fd.into_raw_fd()),
                Err(_) => Err(Code(304).into()),
            },
            Shareable::Fabric(data) => to.of().set(CUmemFabricHandle { data }),
        }
    }

    fn cuMemImportFromShareableHandle("cuMemImportFromShareableHandle" 10020,
        handle: Out<CUmemGenericAllocationHandle>, from: In<c_void>, kind: CUmemAllocationHandleType) {
        let shared = match handle_type(kind)? {
            HandleType::PosixFd => {
                let fd = c_int::try_from(from.number()).map_err(|_| INVALID)?;
                // SAFETY: by the function's contract a descriptor that the caller keeps open during the call; one that is
                // not open makes the copy fail, which is what an invalid handle answers.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(|_| INVALID)?;
                Shareable::Fd(Arc::new(fd))
            }
            HandleType::Fabric => Shareable::Fabric(from.of::<CUmemFabricHandle>().get()?.data),
            HandleType::None => return Err(INVALID),
        };
        handle.set(sim()?.mem_import(&shared, current_device().unwrap_or_default())?.0)
    }

    fn cuMemRetainAllocationHandle("cuMemRetainAllocationHandle" 11000,
        handle: Out<CUmemGenericAllocationHandle>, addr: u64) {
        handle.set(sim()?.mem_retain(addr)?.0)
    }

    fn cuMemGetAllocationPropertiesFromHandle("cuMemGetAllocationPropertiesFromHandle" 10020,
        to: Out<CUmemAllocationProp>, handle: CUmemGenericAllocationHandle) {
        let props = sim()?.mem_props(Handle(handle))?;
        let mut found = CUmemAllocationProp::zeroed();
        found.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        found.location = match props.location {
            Location::Device(device) => {
                CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device.0 as c_int)
            }
            Location::HostNuma(node) => {
                CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node as c_int)
            }
            Location::Host => CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
        };
        found.requestedHandleTypes = match props.handle_type {
            HandleType::None => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            HandleType::PosixFd => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            HandleType::Fabric => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC,
        };
        found.allocFlags.gpuDirectRDMACapable = props.rdma.into();
        to.set(found)
    }
}

pub(crate) fn location(location: CUmemLocation) -> Answer<Location> {
    let id = || u32::try_from(location.id).map_err(|_| INVALID);
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Ok(Location::Device(Device(id()?))),
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => Ok(Location::Host),
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => Ok(Location::HostNuma(id()?)),
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(Location::HostNuma(0)),
        _ => Err(INVALID),
    }
}

fn handle_type(kind: CUmemAllocationHandleType) -> Answer<HandleType> {
    match kind {
        CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE => Ok(HandleType::None),
        CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR => Ok(HandleType::PosixFd),
        CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC => Ok(HandleType::Fabric),
        _ => Err(Code::ERROR_NOT_SUPPORTED.into()),
    }
}

fn properties(props: &CUmemAllocationProp) -> Answer<HandleProps> {
    if props.type_ != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(INVALID);
    }
    Ok(HandleProps {
        location: location(props.location)?,
        handle_type: handle_type(props.requestedHandleTypes)?,
        rdma: props.allocFlags.gpuDirectRDMACapable != 0,
    })
}
