//! The driver's own pools.

use std::ffi::{c_int, c_uint, c_void};

use millpond_cuda::sys::{CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool, CUstream};

forward! {
    cudaDeviceGetDefaultMemPool => cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: c_int);
    cudaDeviceGetMemPool => cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: c_int);
    cudaMemPoolCreate => cuMemPoolCreate(pool: *mut CUmemoryPool, props: *const CUmemPoolProps);
    cudaMemPoolDestroy => cuMemPoolDestroy(pool: CUmemoryPool);
    cudaMemPoolSetAttribute => cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    cudaMemPoolGetAttribute => cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    cudaMemPoolTrimTo => cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    cudaMemPoolSetAccess => cuMemPoolSetAccess(pool: CUmemoryPool, wishes: *const CUmemAccessDesc, count: usize);
    cudaMemPoolGetAccess => cuMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, of: *const CUmemLocation);
    cudaMallocAsync => cuMemAllocAsync(to: *mut u64, bytes: usize, on: CUstream);
    cudaMallocFromPoolAsync => cuMemAllocFromPoolAsync(to: *mut u64, bytes: usize, pool: CUmemoryPool, on: CUstream);
    cudaFreeAsync => cuMemFreeAsync(addr: u64, on: CUstream);
}
