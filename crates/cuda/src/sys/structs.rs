//! Structs.

use std::ffi::{c_int, c_uchar, c_ushort, c_void};

use super::*;

c_structs! {
    struct CUmemLocation {
        type_: CUmemLocationType,
        id: c_int,
    }

    struct CUmemAllocationProp_st__bindgen_ty_1 {
        compressionType: c_uchar,
        gpuDirectRDMACapable: c_uchar,
        usage: c_ushort,
        reserved: [c_uchar; 4],
    }

    struct CUmemAllocationProp {
        type_: CUmemAllocationType,
        requestedHandleTypes: CUmemAllocationHandleType,
        location: CUmemLocation,
        win32HandleMetaData: *mut c_void,
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1,
    }

    struct CUmemAccessDesc {
        location: CUmemLocation,
        flags: CUmemAccess_flags,
    }

    struct CUmemPoolProps {
        allocType: CUmemAllocationType,
        handleTypes: CUmemAllocationHandleType,
        location: CUmemLocation,
        win32SecurityAttributes: *mut c_void,
        maxSize: usize,
        usage: c_ushort,
        reserved: [c_uchar; 54],
    }

    struct CUmemFabricHandle {
        data: [c_uchar; 64],
    }

    struct CUgraphEdgeData {
        from_port: c_uchar,
        to_port: c_uchar,
        type_: c_uchar,
        reserved: [c_uchar; 5],
    }

    struct CUuuid {
        bytes: [std::ffi::c_char; 16],
    }

    struct CUipcMemHandle {
        reserved: [std::ffi::c_char; 64],
    }
}

impl CUmemLocation {
    pub const fn new(type_: CUmemLocationType, id: c_int) -> Self {
        CUmemLocation { type_, id }
    }
}
