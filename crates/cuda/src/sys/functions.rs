//! The functions, and how they are found in a library.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::load::{Library, LoadError, Symbol};
use super::*;

/// One list makes the table's fields, the look-ups and the test of the signatures.
///
/// `symbol "name" version (arguments)`: the field is the exported symbol; name and version are what
/// `cuGetProcAddress` takes. A driver without a *required* function is refused; without an *optional* one it lacks an
/// ability.
macro_rules! functions {
    (
        required { $($r:ident $r_name:literal $r_version:literal ($($r_arg:ty),* $(,)?);)* }
        optional { $($o:ident $o_name:literal $o_version:literal ($($o_arg:ty),* $(,)?);)* }
    ) => {
        /// The functions of a loaded driver.
        #[derive(Clone, Copy, Debug)]
        pub struct Functions {
            $(pub $r: unsafe extern "C" fn($($r_arg),*) -> CUresult,)*
            $(pub $o: Option<unsafe extern "C" fn($($o_arg),*) -> CUresult>,)*
        }

        impl Functions {
            /// Looks all functions up.
            ///
            /// # Errors
            /// The names of all required functions that the library does not have.
            pub fn find(library: &Library) -> Result<Self, LoadError> {
                let mut missing = Vec::new();
                // SAFETY: what is found under the name of one of the driver's functions has that function's signature,
                // which is the field's: the test below compares it with the driver's header.
                $(let $r: Option<unsafe extern "C" fn($($r_arg),*) -> CUresult> =
                    unsafe { library.symbol(Symbol { export: stringify!($r), name: $r_name, version: $r_version }) };
                if $r.is_none() {
                    missing.push(stringify!($r));
                })*
                let refuse = || LoadError::Functions { library: library.name().to_owned(), missing: missing.clone() };
                $(let $r = $r.ok_or_else(refuse)?;)*
                // SAFETY: as above.
                $(let $o =
                    unsafe { library.symbol(Symbol { export: stringify!($o), name: $o_name, version: $o_version }) };)*
                Ok(Functions { $($r,)* $($o,)* })
            }
        }

        #[cfg(test)]
        mod tests {
            use super::super::signature::{Signature, sizes};
            use super::*;

            macro_rules! any { ($argument:ty) => { _ } }

            #[test]
            fn functions_take_what_the_drivers_header_says() {
                $(assert_eq!(
                    <unsafe extern "C" fn($($r_arg),*) -> CUresult as Signature>::sizes(),
                    sizes(cudarc::driver::sys::$r as unsafe fn($(any!($r_arg)),*) -> _),
                    stringify!($r)
                );)*
                $(assert_eq!(
                    <unsafe extern "C" fn($($o_arg),*) -> CUresult as Signature>::sizes(),
                    sizes(cudarc::driver::sys::$o as unsafe fn($(any!($o_arg)),*) -> _),
                    stringify!($o)
                );)*
            }
        }
    };
}

functions! {
    required {
        cuInit "cuInit" 2000 (c_uint);
        cuDriverGetVersion "cuDriverGetVersion" 2020 (*mut c_int);
        cuDeviceGetCount "cuDeviceGetCount" 2000 (*mut c_int);
        cuDeviceGet "cuDeviceGet" 2000 (*mut CUdevice, c_int);
        cuDeviceGetName "cuDeviceGetName" 2000 (*mut c_char, c_int, CUdevice);
        cuDeviceTotalMem_v2 "cuDeviceTotalMem" 3020 (*mut usize, CUdevice);
        cuDeviceGetAttribute "cuDeviceGetAttribute" 2000 (*mut c_int, CUdevice_attribute, CUdevice);
        cuDeviceGetPCIBusId "cuDeviceGetPCIBusId" 4010 (*mut c_char, c_int, CUdevice);
        cuDeviceCanAccessPeer "cuDeviceCanAccessPeer" 4000 (*mut c_int, CUdevice, CUdevice);
        cuDevicePrimaryCtxRetain "cuDevicePrimaryCtxRetain" 7000 (*mut CUcontext, CUdevice);
        cuDevicePrimaryCtxRelease_v2 "cuDevicePrimaryCtxRelease" 11000 (CUdevice);
        cuCtxGetCurrent "cuCtxGetCurrent" 4000 (*mut CUcontext);
        cuCtxSetCurrent "cuCtxSetCurrent" 4000 (CUcontext);
        cuCtxSynchronize "cuCtxSynchronize" 2000 ();
        cuCtxEnablePeerAccess "cuCtxEnablePeerAccess" 4000 (CUcontext, c_uint);
        cuGetErrorName "cuGetErrorName" 6000 (CUresult, *mut *const c_char);
        cuGetErrorString "cuGetErrorString" 6000 (CUresult, *mut *const c_char);

        cuMemAlloc_v2 "cuMemAlloc" 3020 (*mut CUdeviceptr, usize);
        cuMemFree_v2 "cuMemFree" 3020 (CUdeviceptr);
        cuMemGetInfo_v2 "cuMemGetInfo" 3020 (*mut usize, *mut usize);
        cuMemAllocManaged "cuMemAllocManaged" 6000 (*mut CUdeviceptr, usize, c_uint);
        cuMemGetAddressRange_v2 "cuMemGetAddressRange" 3020 (*mut CUdeviceptr, *mut usize, CUdeviceptr);
        cuMemcpyAsync "cuMemcpyAsync" 4000 (CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemcpyPeerAsync "cuMemcpyPeerAsync" 4000
            (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
        cuMemsetD8Async "cuMemsetD8Async" 3020 (CUdeviceptr, u8, usize, CUstream);

        cuMemHostAlloc "cuMemHostAlloc" 2020 (*mut *mut c_void, usize, c_uint);
        cuMemFreeHost "cuMemFreeHost" 2000 (*mut c_void);
        cuMemHostRegister_v2 "cuMemHostRegister" 6050 (*mut c_void, usize, c_uint);
        cuMemHostUnregister "cuMemHostUnregister" 4000 (*mut c_void);

        cuStreamCreate "cuStreamCreate" 2000 (*mut CUstream, c_uint);
        cuStreamDestroy_v2 "cuStreamDestroy" 4000 (CUstream);
        cuStreamSynchronize "cuStreamSynchronize" 2000 (CUstream);
        cuStreamWaitEvent "cuStreamWaitEvent" 3020 (CUstream, CUevent, c_uint);
        cuEventCreate "cuEventCreate" 2000 (*mut CUevent, c_uint);
        cuEventDestroy_v2 "cuEventDestroy" 4000 (CUevent);
        cuEventRecord "cuEventRecord" 2000 (CUevent, CUstream);
        cuEventQuery "cuEventQuery" 2000 (CUevent);
        cuEventSynchronize "cuEventSynchronize" 2000 (CUevent);

        cuStreamBeginCapture_v2 "cuStreamBeginCapture" 10010 (CUstream, CUstreamCaptureMode);
        cuStreamEndCapture "cuStreamEndCapture" 10000 (CUstream, *mut CUgraph);
        cuStreamIsCapturing "cuStreamIsCapturing" 10000 (CUstream, *mut CUstreamCaptureStatus);
        cuThreadExchangeStreamCaptureMode "cuThreadExchangeStreamCaptureMode" 10010 (*mut CUstreamCaptureMode);
        cuGraphDestroy "cuGraphDestroy" 10000 (CUgraph);
    }
    optional {
        cuMemAddressReserve "cuMemAddressReserve" 10020 (*mut CUdeviceptr, usize, usize, CUdeviceptr, u64);
        cuMemAddressFree "cuMemAddressFree" 10020 (CUdeviceptr, usize);
        cuMemCreate "cuMemCreate" 10020
            (*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, u64);
        cuMemRelease "cuMemRelease" 10020 (CUmemGenericAllocationHandle);
        cuMemMap "cuMemMap" 10020 (CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, u64);
        cuMemUnmap "cuMemUnmap" 10020 (CUdeviceptr, usize);
        cuMemSetAccess "cuMemSetAccess" 10020 (CUdeviceptr, usize, *const CUmemAccessDesc, usize);
        cuMemGetAccess "cuMemGetAccess" 10020 (*mut u64, *const CUmemLocation, CUdeviceptr);
        cuMemGetAllocationGranularity "cuMemGetAllocationGranularity" 10020
            (*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
        cuMemExportToShareableHandle "cuMemExportToShareableHandle" 10020
            (*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, u64);
        cuMemImportFromShareableHandle "cuMemImportFromShareableHandle" 10020
            (*mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);
        cuMemRetainAllocationHandle "cuMemRetainAllocationHandle" 11000
            (*mut CUmemGenericAllocationHandle, *mut c_void);
        cuMemGetAllocationPropertiesFromHandle "cuMemGetAllocationPropertiesFromHandle" 10020
            (*mut CUmemAllocationProp, CUmemGenericAllocationHandle);

        cuIpcGetMemHandle "cuIpcGetMemHandle" 4010 (*mut CUipcMemHandle, CUdeviceptr);
        cuIpcOpenMemHandle_v2 "cuIpcOpenMemHandle" 11000 (*mut CUdeviceptr, CUipcMemHandle, c_uint);
        cuIpcCloseMemHandle "cuIpcCloseMemHandle" 4010 (CUdeviceptr);

        cuStreamGetCaptureInfo_v2 "cuStreamGetCaptureInfo" 11030 (
            CUstream, *mut CUstreamCaptureStatus, *mut u64, *mut CUgraph, *mut *const CUgraphNode, *mut usize,
        );
        cuStreamGetCaptureInfo_v3 "cuStreamGetCaptureInfo" 12030 (
            CUstream, *mut CUstreamCaptureStatus, *mut u64, *mut CUgraph, *mut *const CUgraphNode,
            *mut *const CUgraphEdgeData, *mut usize,
        );
        cuGraphNodeGetDependencies "cuGraphNodeGetDependencies" 10000 (CUgraphNode, *mut CUgraphNode, *mut usize);
        cuGraphNodeGetDependencies_v2 "cuGraphNodeGetDependencies" 12030
            (CUgraphNode, *mut CUgraphNode, *mut CUgraphEdgeData, *mut usize);

        cuDeviceGetDefaultMemPool "cuDeviceGetDefaultMemPool" 11020 (*mut CUmemoryPool, CUdevice);
        cuMemPoolCreate "cuMemPoolCreate" 11020 (*mut CUmemoryPool, *const CUmemPoolProps);
        cuMemPoolDestroy "cuMemPoolDestroy" 11020 (CUmemoryPool);
        cuMemPoolSetAttribute "cuMemPoolSetAttribute" 11020 (CUmemoryPool, CUmemPool_attribute, *mut c_void);
        cuMemPoolGetAttribute "cuMemPoolGetAttribute" 11020 (CUmemoryPool, CUmemPool_attribute, *mut c_void);
        cuMemPoolTrimTo "cuMemPoolTrimTo" 11020 (CUmemoryPool, usize);
        cuMemPoolSetAccess "cuMemPoolSetAccess" 11020 (CUmemoryPool, *const CUmemAccessDesc, usize);
        cuMemAllocFromPoolAsync "cuMemAllocFromPoolAsync" 11020 (*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
        cuMemFreeAsync "cuMemFreeAsync" 11020 (CUdeviceptr, CUstream);

        cuModuleLoadData "cuModuleLoadData" 2000 (*mut CUmodule, *const c_void);
        cuModuleUnload "cuModuleUnload" 2000 (CUmodule);
        cuModuleGetFunction "cuModuleGetFunction" 2000 (*mut CUfunction, CUmodule, *const c_char);
        cuLaunchKernel "cuLaunchKernel" 4000 (
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
            *mut *mut c_void,
        );
    }
}
