//! Kernels from PTX: what the checks on a real device run beside the allocator's calls.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use millpond_driver::{Device, Result, Stream};

use crate::cuda::Cuda;
use crate::order::handle;
use crate::sys::{CUfunction, CUmodule};

/// A kernel whose parameters are all 64 bits wide.
#[derive(Debug)]
pub struct Kernel {
    cuda: Arc<Cuda>,
    device: Device,
    module: CUmodule,
    function: CUfunction,
}

impl Cuda {
    /// Compiles PTX for a device and takes a kernel from it.
    ///
    /// # Errors
    /// `INVALID_PTX`, `UNSUPPORTED_PTX_VERSION` and their like; `NOT_FOUND` for the name; `NOT_SUPPORTED`.
    pub fn kernel(self: &Arc<Self>, device: Device, ptx: &CStr, name: &CStr) -> Result<Kernel> {
        let _entered = self.enter(device, "cuModuleLoadData")?;
        let (mut module, mut function) = (CUmodule(0), CUfunction(0));
        call_optional!(self, cuModuleLoadData as "cuModuleLoadData", &mut module, ptx.as_ptr().cast())?;
        // From here on the module is unloaded whatever happens.
        let mut kernel = Kernel { cuda: Arc::clone(self), device, module, function };
        call_optional!(self, cuModuleGetFunction as "cuModuleGetFunction", &mut function, module, name.as_ptr())?;
        kernel.function = function;
        Ok(kernel)
    }
}

impl Kernel {
    /// `cuLaunchKernel` of `blocks` blocks of `threads` threads.
    ///
    /// # Safety
    /// The kernel takes so many parameters, and what it does to the memory that they name is allowed: no host memory that Rust
    /// knows of is written, and none that somebody else uses.
    ///
    /// # Errors
    /// `INVALID_VALUE` for impossible numbers of blocks and threads; any error of earlier work.
    pub unsafe fn launch(&self, blocks: u32, threads: u32, parameters: &[u64], stream: Stream) -> Result<()> {
        let _entered = self.cuda.enter(self.device, "cuLaunchKernel")?;
        let mut values = parameters.to_vec();
        let mut places: Vec<*mut c_void> = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let (places, extra, on) = (places.as_mut_ptr(), std::ptr::null_mut(), handle(stream));
        call_optional!(
            self.cuda,
            cuLaunchKernel as "cuLaunchKernel",
            self.function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            on,
            places,
            extra
        )
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let unload = || {
            let _entered = self.cuda.enter(self.device, "cuModuleUnload")?;
            call_optional!(self.cuda, cuModuleUnload as "cuModuleUnload", self.module)
        };
        // A driver that is shutting down has unloaded it.
        let _: Result<()> = unload();
    }
}
