//! The two allocators that are reached through C functions.

use std::ffi::{CStr, c_char};

use anyhow::{Context, Result, bail};
use libloading::Library;
use millpond_bench::{HISTORY, Subject};

/// Raw handles of the streams that the cases number: the default stream and another one.
pub type Streams = [u64; 2];

type Text = *const c_char;

fn load(path: &str) -> Result<&'static Library> {
    // SAFETY: both libraries are this project's; loading them runs no code but that of libc10, which is made for it.
    let library = unsafe { Library::new(path) }.with_context(|| format!("{path} cannot be loaded"))?;
    // Allocators with live threads and static destructors are not unloaded.
    Ok(Box::leak(Box::new(library)))
}

/// A function of a library.
///
/// # Safety
/// It has this type.
unsafe fn function<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: the caller's promise.
    Ok(*unsafe { library.get::<T>(name) }.with_context(|| format!("{name} is missing"))?)
}

/// PyTorch's own, through `torch_side.cpp`.
pub struct Torch {
    streams: Streams,
    alloc: unsafe extern "C" fn(u64, u64, *mut u64) -> Text,
    free: unsafe extern "C" fn(u64) -> Text,
    history: unsafe extern "C" fn(bool, usize) -> Text,
    empty_cache: unsafe extern "C" fn() -> Text,
}

/// # Safety
/// Null, or a text that ends.
#[inline]
unsafe fn said(text: Text) -> Result<()> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    bail!("PyTorch says: {}", unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

impl Torch {
    /// Starts it.
    pub fn start(path: &str, streams: Streams) -> Result<Self> {
        let library = load(path)?;
        // SAFETY: the types are those of torch_side.cpp.
        unsafe {
            let start: unsafe extern "C" fn() -> Text = function(library, "torch_start")?;
            said(start())?;
            Ok(Torch {
                streams,
                alloc: function(library, "torch_alloc")?,
                free: function(library, "torch_free")?,
                history: function(library, "torch_history")?,
                empty_cache: function(library, "torch_empty_cache")?,
            })
        }
    }
}

impl Subject for Torch {
    type Error = anyhow::Error;
    type Stream = u64;

    fn stream(&self, number: usize) -> u64 {
        self.streams[number]
    }

    #[inline]
    fn alloc(&self, size: u64, stream: u64) -> Result<u64> {
        let mut addr = 0;
        // SAFETY: `addr` outlives the call.
        unsafe { said((self.alloc)(size, stream, &mut addr))? };
        Ok(addr)
    }

    #[inline]
    fn free(&self, addr: u64) -> Result<()> {
        // SAFETY: any number may be passed; it is looked up.
        unsafe { said((self.free)(addr)) }
    }

    fn history(&self, on: bool) -> Result<()> {
        // SAFETY: plain numbers.
        unsafe { said((self.history)(on, HISTORY)) }
    }

    fn empty_cache(&self) -> Result<()> {
        // SAFETY: no arguments.
        unsafe { said((self.empty_cache)()) }
    }
}

/// As `millpond.h` has it.
#[repr(C)]
struct HistoryOptions {
    level: u32,
    max_entries: usize,
    clear: bool,
    compile_context: bool,
    skip_actions: *const Text,
    skip_count: usize,
}

/// An allocator of `libmillpond`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Handle(*mut std::ffi::c_void);

// SAFETY: the header says that any thread may call any function at any time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// `libmillpond`, in the world of the process.
pub struct Millpond {
    streams: Streams,
    allocator: Handle,
    alloc: unsafe extern "C" fn(Handle, u64, u64, *const u8, *mut u64) -> i32,
    free: unsafe extern "C" fn(Handle, u64, *const u8) -> i32,
    history: unsafe extern "C" fn(Handle, *const HistoryOptions) -> i32,
    empty_cache: unsafe extern "C" fn(Handle, *const u8) -> i32,
    error_text: unsafe extern "C" fn() -> Text,
}

impl Millpond {
    /// Starts it.
    pub fn start(path: &str, streams: Streams) -> Result<Self> {
        let library = load(path)?;
        // SAFETY: the types are those of millpond.h, where a caller may be null.
        unsafe {
            let mut this = Millpond {
                streams,
                allocator: Handle(std::ptr::null_mut()),
                alloc: function(library, "mp_alloc")?,
                free: function(library, "mp_free")?,
                history: function(library, "mp_record_history")?,
                empty_cache: function(library, "mp_empty_cache")?,
                error_text: function(library, "mp_error_text")?,
            };
            let make: unsafe extern "C" fn(i32, *mut Handle) -> i32 = function(library, "mp_process_allocator")?;
            let status = make(0, &mut this.allocator);
            this.said(status)?;
            Ok(this)
        }
    }

    #[inline]
    fn said(&self, status: i32) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text is the calling thread's, until its next call.
        bail!("libmillpond says: {}", unsafe { CStr::from_ptr((self.error_text)()) }.to_string_lossy())
    }
}

impl Subject for Millpond {
    type Error = anyhow::Error;
    type Stream = u64;

    fn stream(&self, number: usize) -> u64 {
        self.streams[number]
    }

    #[inline]
    fn alloc(&self, size: u64, stream: u64) -> Result<u64> {
        let mut addr = 0;
        // SAFETY: the allocator is live for good, and `addr` outlives the call.
        let status = unsafe { (self.alloc)(self.allocator, size, stream, std::ptr::null(), &mut addr) };
        self.said(status)?;
        Ok(addr)
    }

    #[inline]
    fn free(&self, addr: u64) -> Result<()> {
        // SAFETY: as above; any number may be passed.
        self.said(unsafe { (self.free)(self.allocator, addr, std::ptr::null()) })
    }

    fn history(&self, on: bool) -> Result<()> {
        const NEVER: u32 = 0;
        let options = HistoryOptions {
            level: NEVER,
            max_entries: HISTORY,
            clear: true,
            compile_context: false,
            skip_actions: std::ptr::null(),
            skip_count: 0,
        };
        let options = if on { &raw const options } else { std::ptr::null() };
        // SAFETY: as above, and the options outlive the call.
        self.said(unsafe { (self.history)(self.allocator, options) })
    }

    fn empty_cache(&self) -> Result<()> {
        // SAFETY: as above.
        self.said(unsafe { (self.empty_cache)(self.allocator, std::ptr::null()) })
    }
}
