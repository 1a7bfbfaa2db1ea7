//! The class `Library`: the functions of `libmillpond.so` on the world of the process.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use pyo3::exceptions::{PyAttributeError, PyImportError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::table::{Caller, Handle, HistoryOptions, Table};

/// The version of the C interface that this module is written for.
const ABI_VERSION: u32 = 1;

/// What a function of the library answered that was not `MP_OK`.
struct Failure {
    status: i32,
    text: String,
    driver_code: i32,
    out_of_memory: bool,
}

type Answer<T> = Result<T, Failure>;

pyo3::create_exception!(
    millpond,
    MillpondError,
    PyRuntimeError,
    "An error of the allocator. `status` is its number in millpond.h, `driver_code` CUDA's where the driver failed, else 0."
);

pyo3::create_exception!(
    millpond,
    OutOfMemoryError,
    MillpondError,
    "The device, or its limit, has no room for a request."
);

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| {
            let new = if failure.out_of_memory { OutOfMemoryError::new_err } else { MillpondError::new_err };
            let error = new(failure.text);
            let value = error.value(py);
            let told = value.setattr("status", failure.status);
            told.and_then(|()| value.setattr("driver_code", failure.driver_code)).err().unwrap_or(error)
        })
    }
}

/// `libmillpond.so` of a path, and in it the world of the process.
///
/// The world is made when it is first asked for: that loads the CUDA driver and reads the settings of the environment.
#[pyclass(module = "millpond._native", frozen)]
pub struct Library {
    table: Table,
    #[pyo3(get)]
    path: String,
}

impl Library {
    fn checked(&self, status: i32) -> Answer<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text is the calling thread's and stays until its next error.
        let text = unsafe { CStr::from_ptr((self.table.mp_error_text)()) }.to_string_lossy().into_owned();
        // SAFETY: takes nothing.
        let driver_code = unsafe { (self.table.mp_error_driver_code)() };
        // SAFETY: takes a number.
        let out_of_memory = unsafe { (self.table.mp_is_out_of_memory)(status) };
        Err(Failure { status, text, driver_code, out_of_memory })
    }

    fn world(&self) -> Answer<Handle> {
        let mut world = null_mut();
        // SAFETY: a place for a pointer.
        self.checked(unsafe { (self.table.mp_process_world)(&mut world) })?;
        Ok(world)
    }

    fn allocator(&self, device: i32) -> Answer<Handle> {
        let mut allocator = null_mut();
        // SAFETY: a place for a pointer.
        self.checked(unsafe { (self.table.mp_process_allocator)(device, &mut allocator) })?;
        Ok(allocator)
    }

    /// Runs `body` on a device's allocator; other threads of Python may run meanwhile.
    fn on<T: Send>(&self, py: Python<'_>, device: i32, body: impl FnOnce(Handle) -> Answer<T> + Send) -> PyResult<T> {
        Ok(py.detach(|| body(self.allocator(device)?))?)
    }

    /// A string that a function gives.
    fn string(&self, give: impl FnOnce(*mut *mut c_char) -> i32) -> Answer<String> {
        let mut text = null_mut();
        self.checked(give(&mut text))?;
        if text.is_null() {
            return Ok(String::new());
        }
        // SAFETY: a string of the library, destroyed once, after it was copied.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.table.mp_string_destroy)(text);
            Ok(copy)
        }
    }
}

/// A thread whose current stream is this one.
fn by(stream: u64) -> Caller {
    Caller { stream, metadata: null(), compile_context: null() }
}

fn c_string(text: &str) -> PyResult<CString> {
    CString::new(text).map_err(|_| PyValueError::new_err("a text for Millpond contains a NUL"))
}

#[pymethods]
impl Library {
    #[new]
    fn load(path: String) -> PyResult<Self> {
        let cannot = |why: String| PyImportError::new_err(format!("cannot load {path}: {why}"));
        // SAFETY: the package names its own library, or one that its user vouches for.
        let table = unsafe { Table::load(&path) }.map_err(|error| cannot(error.to_string()))?;
        // SAFETY: takes nothing.
        match unsafe { (table.mp_abi_version)() } {
            ABI_VERSION => Ok(Library { table, path }),
            other => Err(cannot(format!("its interface has version {other}, and this package needs {ABI_VERSION}"))),
        }
    }

    /// The library's version.
    #[getter]
    fn version(&self) -> String {
        // SAFETY: a string that is always there.
        unsafe { CStr::from_ptr((self.table.mp_version)()) }.to_string_lossy().into_owned()
    }

    /// The address of a function.
    fn address(&self, name: &str) -> PyResult<usize> {
        self.table.address(name).map_err(|error| PyAttributeError::new_err(error.to_string()))
    }

    /// How many devices there are.
    fn device_count(&self, py: Python<'_>) -> PyResult<i32> {
        // SAFETY: a world.
        Ok(py.detach(|| self.world().map(|world| unsafe { (self.table.mp_world_device_count)(world) }))?)
    }

    /// The settings in force, as JSON.
    fn settings(&self, py: Python<'_>) -> PyResult<String> {
        Ok(py.detach(|| {
            let world = self.world()?;
            // SAFETY: a world and a place for a string.
            self.string(|to| unsafe { (self.table.mp_settings_json)(world, to) })
        })?)
    }

    /// Changes settings; answers what PyTorch would warn of, one a line.
    fn configure(&self, py: Python<'_>, text: &str, as_torch: bool) -> PyResult<String> {
        let text = c_string(text)?;
        Ok(py.detach(|| {
            let world = self.world()?;
            // SAFETY: a world, a string, a place for a string.
            self.string(|to| unsafe { (self.table.mp_configure)(world, text.as_ptr(), as_torch, to) })
        })?)
    }

    /// Writes what all allocators hold, and their histories, into a file.
    fn dump_snapshot(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let path = c_string(path)?;
        Ok(py.detach(|| {
            let world = self.world()?;
            // SAFETY: a world and a string.
            self.checked(unsafe { (self.table.mp_dump_snapshot)(world, path.as_ptr()) })
        })?)
    }

    /// The address of at least so many bytes for work on a stream; 0 for a size of 0.
    fn alloc(&self, py: Python<'_>, device: i32, size: u64, stream: u64) -> PyResult<u64> {
        self.on(py, device, |allocator| {
            let mut addr = 0;
            // SAFETY: an allocator, a caller and a place for an address.
            self.checked(unsafe { (self.table.mp_alloc)(allocator, size, stream, &by(stream), &mut addr) })?;
            Ok(addr)
        })
    }

    /// Gives a live block back.
    fn free(&self, py: Python<'_>, device: i32, addr: u64, stream: u64) -> PyResult<()> {
        // SAFETY: an allocator and a caller; any number may be given for an address.
        self.on(py, device, |allocator| self.checked(unsafe { (self.table.mp_free)(allocator, addr, &by(stream)) }))
    }

    /// Records that work on a stream uses a live block; whether there is one.
    fn record_stream(&self, py: Python<'_>, device: i32, addr: u64, stream: u64) -> PyResult<bool> {
        self.on(py, device, |allocator| {
            let mut known = false;
            let record = self.table.mp_record_stream;
            // SAFETY: an allocator, a caller and a place for an answer; any number may be given for an address.
            self.checked(unsafe { record(allocator, addr, stream, &by(stream), &mut known) })?;
            Ok(known)
        })
    }

    /// The statistics of a device, as JSON.
    fn stats(&self, py: Python<'_>, device: i32) -> PyResult<String> {
        // SAFETY: an allocator and a place for a string.
        self.on(py, device, |allocator| self.string(|to| unsafe { (self.table.mp_stats_json)(allocator, to) }))
    }

    /// The table of `torch.cuda.memory_summary`.
    fn memory_summary(&self, py: Python<'_>, device: i32, abbreviated: bool) -> PyResult<String> {
        let summary = self.table.mp_memory_summary;
        // SAFETY: an allocator and a place for a string.
        self.on(py, device, |allocator| self.string(|to| unsafe { summary(allocator, abbreviated, to) }))
    }

    /// Peaks start again from what is held now.
    fn reset_peak_stats(&self, py: Python<'_>, device: i32) -> PyResult<()> {
        // SAFETY: an allocator.
        self.on(py, device, |allocator| self.checked(unsafe { (self.table.mp_reset_peak_stats)(allocator) }))
    }

    /// Accumulated figures start again from 0.
    fn reset_accumulated_stats(&self, py: Python<'_>, device: i32) -> PyResult<()> {
        // SAFETY: an allocator.
        self.on(py, device, |allocator| self.checked(unsafe { (self.table.mp_reset_accumulated_stats)(allocator) }))
    }

    /// Limits a device's allocator to a fraction of the device's memory.
    fn set_memory_fraction(&self, py: Python<'_>, device: i32, fraction: f64) -> PyResult<()> {
        let set = self.table.mp_set_memory_fraction;
        // SAFETY: an allocator.
        self.on(py, device, |allocator| self.checked(unsafe { set(allocator, fraction) }))
    }

    /// The limit as a fraction; 1 without one.
    fn memory_fraction(&self, py: Python<'_>, device: i32) -> PyResult<f64> {
        self.on(py, device, |allocator| {
            let mut fraction = 1.0;
            // SAFETY: an allocator and a place for a number.
            self.checked(unsafe { (self.table.mp_memory_fraction)(allocator, &mut fraction) })?;
            Ok(fraction)
        })
    }

    /// Starts the history of a device, with room for so many entries; 0 stops and clears it. It has no stacks.
    fn record_history(&self, py: Python<'_>, device: i32, max_entries: usize) -> PyResult<()> {
        self.on(py, device, |allocator| {
            let options = HistoryOptions {
                level: 0,
                max_entries,
                clear: true,
                compile_context: false,
                skip_actions: null(),
                skip_count: 0,
            };
            let options = if max_entries == 0 { null() } else { &raw const options };
            // SAFETY: an allocator, and options or NULL.
            self.checked(unsafe { (self.table.mp_record_history)(allocator, options) })
        })
    }

    /// Gives all cached memory of a device back.
    fn empty_cache(&self, py: Python<'_>, device: i32) -> PyResult<()> {
        // SAFETY: an allocator; NULL stands for the default stream.
        self.on(py, device, |allocator| self.checked(unsafe { (self.table.mp_empty_cache)(allocator, null()) }))
    }

    /// Recounts everything from the blocks.
    fn verify(&self, py: Python<'_>, device: i32) -> PyResult<()> {
        // SAFETY: an allocator.
        self.on(py, device, |allocator| self.checked(unsafe { (self.table.mp_verify)(allocator) }))
    }
}
