//! Call stacks, which the program captures and keeps: here they are tokens.
//!
//! A token travels as a stack of one nameless frame whose line it is. Who holds a stack (blocks, the history) is the
//! library's business; now and then this file looks which tokens nobody holds any more and gives them back.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use millpond::{Stack, StackSource};
use millpond_snapshot::Frame;

use crate::pointer;
use crate::status::{caught, mp_status};
use crate::world::mp_world;

/// How the program captures call stacks. `capture` is called under no lock, and only while the history asks for stacks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_stack_source {
    /// Passed to each function.
    pub user: *mut c_void,
    /// A token for the calling thread's stack, or 0 for none.
    pub capture: Option<unsafe extern "C" fn(user: *mut c_void) -> u64>,
    /// Nobody holds the token any more. Each token that `capture` gives is released once.
    pub release: Option<unsafe extern "C" fn(user: *mut c_void, token: u64)>,
    /// Adds the frames of a token, innermost first, with mp_frames_add: for snapshots that are written to a file. May be
    /// NULL; stacks are left out of files then.
    pub resolve: Option<unsafe extern "C" fn(user: *mut c_void, token: u64, frames: *mut mp_frames)>,
}

// SAFETY: by the interface's contract the functions may be called from any thread.
unsafe impl Send for mp_stack_source {}

/// Where `resolve` puts the frames of a stack.
pub struct mp_frames(Vec<Frame>);

/// Adds a frame: its function, source file and line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_frames_add(
    frames: *mut mp_frames,
    name: *const c_char,
    filename: *const c_char,
    line: i64,
) {
    let text = |text: *const c_char| -> Arc<str> {
        if text.is_null() {
            return "".into();
        }
        // SAFETY: as the header documents, a string with its end.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
    };
    // SAFETY: as the header documents, the pointer that `resolve` got.
    if let Some(frames) = unsafe { frames.as_mut() } {
        frames.0.push(Frame::new(text(name), text(filename), line));
    }
}

/// The tokens of a world.
#[derive(Debug, Default)]
pub(crate) struct Stacks(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    source: Option<mp_stack_source>,
    /// Each token that was captured and not released, with the function that takes it back.
    held: Vec<Held>,
    /// When `held` is this long, it is gone through.
    full_at: usize,
    /// Snapshots that speak of tokens without holding their stacks: nothing is released while there are any.
    readers: usize,
}

#[derive(Debug)]
struct Held {
    stack: Weak<[Frame]>,
    token: u64,
    source: mp_stack_source,
}

/// The token in a stack; 0 for none.
pub(crate) fn token(stack: &[Frame]) -> u64 {
    stack.first().map_or(0, |frame| frame.line as u64)
}

impl Stacks {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frames of a stack, as its program resolves them.
    pub fn resolve(&self, stack: &[Frame]) -> Vec<Frame> {
        let source = self.books().source;
        let mut frames = mp_frames(Vec::new());
        if let Some(mp_stack_source { user, resolve: Some(resolve), .. }) = source
            && token(stack) != 0
        {
            // SAFETY: the program's own function with its own pointer; the token is pinned by the caller.
            unsafe { resolve(user, token(stack), &raw mut frames) };
        }
        frames.0
    }

    /// Takes the tokens out that nobody holds.
    fn sweep(books: &mut Books) -> Vec<Held> {
        let (gone, held) = std::mem::take(&mut books.held).into_iter().partition(|held| held.stack.strong_count() == 0);
        books.held = held;
        books.full_at = 2 * books.held.len() + 64;
        gone
    }
}

/// Keeps all tokens of a world valid while it lives.
pub(crate) struct Pinned(Arc<Stacks>);

impl Pinned {
    pub fn new(stacks: Arc<Stacks>) -> Self {
        stacks.books().readers += 1;
        Pinned(stacks)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.books().readers -= 1;
    }
}

fn release(gone: Vec<Held>) {
    for held in gone {
        if let Some(release) = held.source.release {
            // SAFETY: the program's own function with its own pointer; the token is out of the books, so this is once.
            unsafe { release(held.source.user, held.token) };
        }
    }
}

impl StackSource for Stacks {
    fn capture(&self) -> Option<Stack> {
        let source = self.books().source?;
        // SAFETY: the program's own function with its own pointer.
        let token = unsafe { source.capture?(source.user) };
        if token == 0 {
            return None;
        }
        let stack: Stack = Arc::new([Frame::new("", "", token as i64)]);
        let gone = {
            let mut books = self.books();
            books.held.push(Held { stack: Arc::downgrade(&stack), token, source });
            let is_full = books.held.len() > books.full_at.max(64) && books.readers == 0;
            if is_full { Stacks::sweep(&mut books) } else { Vec::new() }
        };
        release(gone);
        Some(stack)
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.books().held));
    }
}

/// Says how call stacks are captured in this world; NULL for not at all. Copied. What was captured before is released by the
/// functions it came with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_set_stack_source(world: *const mp_world, source: *const mp_stack_source) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        pointer::at(world, "world")?.stacks.books().source = source.as_ref().copied();
        Ok(())
    })
}
