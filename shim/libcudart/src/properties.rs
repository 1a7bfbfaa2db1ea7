//! `cudaDeviceProp`: what a program sees of a device at once. CUDA 13 took fields away, so there are two forms.

use std::ffi::{c_char, c_int, c_uint};

use millpond_cuda::sys::CUdevice_attribute as A;
use millpond_shim::{Answer, driver};

/// Declares a form of the struct, fills those fields that are attributes of the device, and then the others.
macro_rules! properties {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty $(= $attribute:ident)?,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(crate) struct $name { $($field: $type,)* }

        impl $name {
            /// The properties of a device. What the simulated device does not have is 0.
            pub fn of(device: c_int) -> Answer<Self> {
                // SAFETY: numbers and arrays of numbers: all bytes 0 is a value.
                let mut found: Self = unsafe { std::mem::zeroed() };
                $($(found.$field = attribute(A::$attribute, device)? as $type;)?)*
                let (name, len) = (found.name.as_mut_ptr(), found.name.len() as c_int);
                driver!(cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int))?;
                let uuid = &raw mut found.uuid;
                driver!(cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int))?;
                let bytes = &raw mut found.totalGlobalMem;
                driver!(cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int))?;
                found.maxThreadsDim = [
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device)?,
                ];
                found.maxGridSize = [
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device)?,
                ];
                Ok(found)
            }
        }
    };
}

properties! {
    /// As CUDA 13 has it.
    PropertiesOf13 {
        name: [c_char; 256],
        uuid: [u8; 16],
        luid: [c_char; 8],
        luidDeviceNodeMask: c_uint,
        totalGlobalMem: usize,
        sharedMemPerBlock: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
        regsPerBlock: c_int = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
        warpSize: c_int = CU_DEVICE_ATTRIBUTE_WARP_SIZE,
        memPitch: usize = CU_DEVICE_ATTRIBUTE_MAX_PITCH,
        maxThreadsPerBlock: c_int = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        maxThreadsDim: [c_int; 3],
        maxGridSize: [c_int; 3],
        totalConstMem: usize = CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
        major: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        minor: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        textureAlignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
        texturePitchAlignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT,
        multiProcessorCount: c_int = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        integrated: c_int,
        canMapHostMemory: c_int = CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
        textures: [c_int; 25],
        surfaces: [c_int; 14],
        surfaceAlignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
        concurrentKernels: c_int = CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
        ECCEnabled: c_int = CU_DEVICE_ATTRIBUTE_ECC_ENABLED,
        pciBusID: c_int = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
        pciDeviceID: c_int = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
        pciDomainID: c_int = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
        tccDriver: c_int,
        asyncEngineCount: c_int = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
        unifiedAddressing: c_int = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
        memoryBusWidth: c_int = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        l2CacheSize: c_int = CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        persistingL2CacheMaxSize: c_int,
        maxThreadsPerMultiProcessor: c_int = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        streamPrioritiesSupported: c_int = CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
        globalL1CacheSupported: c_int,
        localL1CacheSupported: c_int,
        sharedMemPerMultiprocessor: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        regsPerMultiprocessor: c_int = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        managedMemory: c_int = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
        isMultiGpuBoard: c_int,
        multiGpuBoardGroupID: c_int,
        hostNativeAtomicSupported: c_int,
        pageableMemoryAccess: c_int,
        concurrentManagedAccess: c_int = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        computePreemptionSupported: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
        canUseHostPointerForRegisteredMem: c_int = CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        cooperativeLaunch: c_int = CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
        sharedMemPerBlockOptin: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        pageableMemoryAccessUsesHostPageTables: c_int,
        directManagedMemAccessFromHost: c_int,
        maxBlocksPerMultiProcessor: c_int = CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
        accessPolicyMaxWindowSize: c_int,
        reservedSharedMemPerBlock: usize = CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
        hostRegisterSupported: c_int = CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
        sparseCudaArraySupported: c_int,
        hostRegisterReadOnlySupported: c_int,
        timelineSemaphoreInteropSupported: c_int,
        memoryPoolsSupported: c_int = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        gpuDirectRDMASupported: c_int = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        gpuDirectRDMAFlushWritesOptions: c_uint,
        gpuDirectRDMAWritesOrdering: c_int,
        memoryPoolSupportedHandleTypes: c_uint,
        deferredMappingCudaArraySupported: c_int,
        ipcEventSupported: c_int,
        clusterLaunch: c_int = CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
        unifiedFunctionPointers: c_int = CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
        deviceNumaConfig: c_int,
        deviceNumaId: c_int = CU_DEVICE_ATTRIBUTE_NUMA_ID,
        mpsEnabled: c_int,
        hostNumaId: c_int = CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
        gpuPciDeviceID: c_uint,
        gpuPciSubsystemID: c_uint,
        hostNumaMultinodeIpcSupported: c_int,
        reserved: [c_int; 56],
    }
}

properties! {
    /// As CUDA 12 has it.
    PropertiesOf12 {
        name: [c_char; 256],
        uuid: [u8; 16],
        luid: [c_char; 8],
        luidDeviceNodeMask: c_uint,
        totalGlobalMem: usize,
        sharedMemPerBlock: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
        regsPerBlock: c_int = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
        warpSize: c_int = CU_DEVICE_ATTRIBUTE_WARP_SIZE,
        memPitch: usize = CU_DEVICE_ATTRIBUTE_MAX_PITCH,
        maxThreadsPerBlock: c_int = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        maxThreadsDim: [c_int; 3],
        maxGridSize: [c_int; 3],
        clockRate: c_int,
        totalConstMem: usize = CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
        major: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        minor: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        textureAlignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
        texturePitchAlignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT,
        deviceOverlap: c_int,
        multiProcessorCount: c_int = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        kernelExecTimeoutEnabled: c_int,
        integrated: c_int,
        canMapHostMemory: c_int = CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
        computeMode: c_int,
        textures: [c_int; 26],
        surfaces: [c_int; 14],
        surfaceAlignment: usize = CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
        concurrentKernels: c_int = CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
        ECCEnabled: c_int = CU_DEVICE_ATTRIBUTE_ECC_ENABLED,
        pciBusID: c_int = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
        pciDeviceID: c_int = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
        pciDomainID: c_int = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
        tccDriver: c_int,
        asyncEngineCount: c_int = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
        unifiedAddressing: c_int = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
        memoryClockRate: c_int,
        memoryBusWidth: c_int = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        l2CacheSize: c_int = CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        persistingL2CacheMaxSize: c_int,
        maxThreadsPerMultiProcessor: c_int = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        streamPrioritiesSupported: c_int = CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
        globalL1CacheSupported: c_int,
        localL1CacheSupported: c_int,
        sharedMemPerMultiprocessor: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        regsPerMultiprocessor: c_int = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        managedMemory: c_int = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
        isMultiGpuBoard: c_int,
        multiGpuBoardGroupID: c_int,
        hostNativeAtomicSupported: c_int,
        singleToDoublePrecisionPerfRatio: c_int,
        pageableMemoryAccess: c_int,
        concurrentManagedAccess: c_int = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        computePreemptionSupported: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
        canUseHostPointerForRegisteredMem: c_int = CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        cooperativeLaunch: c_int = CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
        cooperativeMultiDeviceLaunch: c_int,
        sharedMemPerBlockOptin: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        pageableMemoryAccessUsesHostPageTables: c_int,
        directManagedMemAccessFromHost: c_int,
        maxBlocksPerMultiProcessor: c_int = CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
        accessPolicyMaxWindowSize: c_int,
        reservedSharedMemPerBlock: usize = CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
        hostRegisterSupported: c_int = CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
        sparseCudaArraySupported: c_int,
        hostRegisterReadOnlySupported: c_int,
        timelineSemaphoreInteropSupported: c_int,
        memoryPoolsSupported: c_int = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        gpuDirectRDMASupported: c_int = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        gpuDirectRDMAFlushWritesOptions: c_uint,
        gpuDirectRDMAWritesOrdering: c_int,
        memoryPoolSupportedHandleTypes: c_uint,
        deferredMappingCudaArraySupported: c_int,
        ipcEventSupported: c_int,
        clusterLaunch: c_int = CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
        unifiedFunctionPointers: c_int = CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
        reserved: [c_int; 63],
    }
}

// The headers' sizes, and the places of fields on both sides of what is left out here.
const _: () = {
    assert!(size_of::<PropertiesOf13>() == 1008);
    assert!(std::mem::offset_of!(PropertiesOf13, major) == 360);
    assert!(std::mem::offset_of!(PropertiesOf13, surfaceAlignment) == 552);
    assert!(std::mem::offset_of!(PropertiesOf13, reservedSharedMemPerBlock) == 696);
    assert!(std::mem::offset_of!(PropertiesOf13, reserved) == 784);
};
const _: () = {
    assert!(size_of::<PropertiesOf12>() == 1032);
    assert!(std::mem::offset_of!(PropertiesOf12, major) == 360);
    assert!(std::mem::offset_of!(PropertiesOf12, textures) == 408);
    assert!(std::mem::offset_of!(PropertiesOf12, surfaceAlignment) == 568);
    assert!(std::mem::offset_of!(PropertiesOf12, memoryClockRate) == 608);
    assert!(std::mem::offset_of!(PropertiesOf12, sharedMemPerMultiprocessor) == 640);
    assert!(std::mem::offset_of!(PropertiesOf12, sharedMemPerBlockOptin) == 696);
    assert!(std::mem::offset_of!(PropertiesOf12, reservedSharedMemPerBlock) == 720);
    assert!(std::mem::offset_of!(PropertiesOf12, reserved) == 780);
};

fn attribute(attribute: A, device: c_int) -> Answer<c_int> {
    let mut value = 0;
    let to = &raw mut value;
    driver!(cuDeviceGetAttribute(to: *mut c_int, attribute: A, device: c_int))?;
    Ok(value)
}
