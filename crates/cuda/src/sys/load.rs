//! Loading a library, and looking functions up in it.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::path::PathBuf;

use super::{CUdriverProcAddressQueryResult, CUresult};

/// The variable that names another library to load.
pub const LIBRARY_VARIABLE: &str = "MILLPOND_LIBCUDA";

/// Why there is no driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No library was found under any name.
    #[error("no CUDA driver: {}", tried.iter().map(|(name, why)| format!("{name} ({why})")).collect::<Vec<_>>().join(", "))]
    Library {
        /// Each name that was tried, and why it failed.
        tried: Vec<(String, String)>,
    },
    /// The library lacks functions without which nothing works.
    #[error("{library} lacks {}: it is older than what Millpond needs (CUDA 11.3)", missing.join(", "))]
    Functions {
        /// The library.
        library: String,
        /// All that it lacks.
        missing: Vec<&'static str>,
    },
    /// The driver does not start.
    #[error("the CUDA driver does not start: {0}")]
    Start(#[from] millpond_driver::DriverError),
}

/// How a function is called: by the symbol that the library exports, and by name and version for `cuGetProcAddress`.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// The exported symbol (`cuMemAlloc_v2`).
    pub export: &'static str,
    /// The name without a suffix (`cuMemAlloc`).
    pub name: &'static str,
    /// The CUDA version in which this form of the function appeared: 1000 × major + 10 × minor.
    pub version: c_int,
}

type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut CUdriverProcAddressQueryResult) -> CUresult;

/// A loaded library. It stays loaded for good: the driver has threads and exit handlers of its own.
#[derive(Debug)]
pub struct Library {
    name: String,
    library: std::mem::ManuallyDrop<libloading::Library>,
    by_version: Option<GetProcAddress>,
}

impl Library {
    /// Loads the driver: the library that `MILLPOND_LIBCUDA` names, else `libcuda.so.1`, else `libcuda.so`.
    ///
    /// # Errors
    /// Every name that was tried, with the loader's reason.
    pub fn cuda() -> Result<Self, LoadError> {
        match std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::first_of(&[PathBuf::from(path).as_os_str()]),
            None => Self::first_of(&["libcuda.so.1", "libcuda.so"]),
        }
    }

    /// Loads the first library that there is.
    ///
    /// # Errors
    /// As [`Library::cuda`].
    pub fn first_of(names: &[impl AsRef<OsStr>]) -> Result<Self, LoadError> {
        let mut tried = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            // SAFETY: loading runs the library's initialisers. By their names these are the vendor's driver or our
            // stand-in for it, or what the user named; all of them may be loaded at any time, on any thread.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => return Ok(Self::new(name.to_string_lossy().into_owned(), library)),
                Err(error) => tried.push((name.to_string_lossy().into_owned(), reason(&error))),
            }
        }
        Err(LoadError::Library { tried })
    }

    fn new(name: String, library: libloading::Library) -> Self {
        // SAFETY: the driver's header gives this symbol this signature; a library without it answers None.
        let by_version = unsafe { library.get::<GetProcAddress>("cuGetProcAddress_v2") }.ok().map(|found| *found);
        Library { name, library: std::mem::ManuallyDrop::new(library), by_version }
    }

    /// The name under which it was found.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function that `symbol` names: by version where the library has `cuGetProcAddress_v2`, else as exported.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    pub unsafe fn symbol<F: Copy>(&self, symbol: Symbol) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        if let Some(find) = self.by_version {
            let name = CString::new(symbol.name).ok()?;
            let (mut found, mut why) = (std::ptr::null_mut(), CUdriverProcAddressQueryResult::default());
            // SAFETY: all pointers are to live variables of the types that the function takes.
            let answer = unsafe { find(name.as_ptr(), &mut found, symbol.version, 0, &mut why) };
            if answer == CUresult::SUCCESS && !found.is_null() {
                // SAFETY: a pointer to a function has the size of a pointer, and the caller vouches for its type.
                return Some(unsafe { std::mem::transmute_copy(&found) });
            }
        }
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.get::<F>(symbol.export) }.ok().map(|found| *found)
    }
}

/// The loader's own words, which are an error's source.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
