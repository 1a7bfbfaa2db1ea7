//! Who is told of what happens. Observers stay attached as long as the allocator lives.

use std::ffi::c_void;
use std::sync::Arc;

use millpond::{Event, FreeMemoryCallback, Observer, Oom, OomObserver};

use crate::allocator::{mp_allocator, with};
use crate::event::{self, Texts, mp_event};
use crate::oom::mp_oom;
use crate::pools::User;
use crate::status::{Failure, mp_status};

type OnEvents = unsafe extern "C" fn(user: *mut c_void, events: *const mp_event, count: usize);
type OnOom = unsafe extern "C" fn(user: *mut c_void, oom: *const mp_oom);
type OnFreeMemory = unsafe extern "C" fn(user: *mut c_void) -> bool;

/// The program's function with its pointer.
struct Told<F> {
    user: User,
    tell: F,
    device: i32,
}

impl<F> std::fmt::Debug for Told<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Told").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<F> Told<F> {
    fn new(this: &mp_allocator, tell: Option<F>, user: *mut c_void) -> Result<Arc<Self>, Failure> {
        let tell = tell.ok_or(Failure::null("tell"))?;
        let device = this.allocator.device().0 as i32;
        Ok(Arc::new(Told { user: User { pointer: user, drop: None }, tell, device }))
    }
}

impl Observer for Told<OnEvents> {
    fn events(&self, events: &[Event]) {
        let mut texts = Texts::default();
        let events: Vec<mp_event> = events.iter().map(|event| event::of(event, self.device, &mut texts)).collect();
        // SAFETY: the program's own function with its own pointer.
        unsafe { (self.tell)(self.user.pointer, events.as_ptr(), events.len()) };
    }
}

impl OomObserver for Told<OnOom> {
    fn out_of_memory(&self, oom: &Oom) {
        // SAFETY: the program's own function with its own pointer.
        unsafe { (self.tell)(self.user.pointer, &oom.into()) };
    }
}

impl FreeMemoryCallback for Told<OnFreeMemory> {
    fn free_memory(&self) -> bool {
        // SAFETY: the program's own function with its own pointer.
        unsafe { (self.tell)(self.user.pointer) }
    }
}

/// Tells of all events, in order, some at a time, under no lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_attach_observer(
    allocator: *const mp_allocator,
    tell: Option<unsafe extern "C" fn(user: *mut c_void, events: *const mp_event, count: usize)>,
    user: *mut c_void,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.attach_observer(Told::<OnEvents>::new(this, tell, user)?);
            Ok(())
        })
    }
}

/// Tells of out-of-memory errors before they are returned, under no lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_attach_oom_observer(
    allocator: *const mp_allocator,
    tell: Option<unsafe extern "C" fn(user: *mut c_void, oom: *const mp_oom)>,
    user: *mut c_void,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.attach_oom_observer(Told::<OnOom>::new(this, tell, user)?);
            Ok(())
        })
    }
}

/// Tells of requests rejected by policy, under no lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_attach_rejection_observer(
    allocator: *const mp_allocator,
    tell: Option<unsafe extern "C" fn(user: *mut c_void, oom: *const mp_oom)>,
    user: *mut c_void,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.attach_rejection_observer(Told::<OnOom>::new(this, tell, user)?);
            Ok(())
        })
    }
}

/// Asks for memory when a request finds none; the function says whether it freed any. Called under no lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_attach_free_memory_callback(
    allocator: *const mp_allocator,
    tell: Option<unsafe extern "C" fn(user: *mut c_void) -> bool>,
    user: *mut c_void,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.attach_free_memory_callback(Told::<OnFreeMemory>::new(this, tell, user)?);
            Ok(())
        })
    }
}
