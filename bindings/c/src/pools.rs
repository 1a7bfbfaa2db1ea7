//! Memory pools: ids, references, scopes, pools with an allocator of their own.

use std::ffi::c_void;
use std::sync::Arc;

use millpond::{CustomAllocator, Filter, PoolId, Thread};
use millpond_driver::Stream;

use crate::allocator::{mp_allocator, with};
use crate::pointer;
use crate::status::{Answer, Failure, caught, mp_status};
use crate::world::mp_world;

/// The id of a memory pool: {0, 0} is the default pool, {k, 0} a graph's, {0, k} a user's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct mp_pool_id {
    /// The graph's number.
    pub first: u64,
    /// The user's number.
    pub second: u64,
}

impl From<mp_pool_id> for PoolId {
    fn from(id: mp_pool_id) -> Self {
        PoolId(id.first, id.second)
    }
}

impl From<PoolId> for mp_pool_id {
    fn from(id: PoolId) -> Self {
        mp_pool_id { first: id.0, second: id.1 }
    }
}

/// A fresh id for a graph's pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_graph_pool_id(world: *const mp_world, id: *mut mp_pool_id) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe { pointer::put(id, pointer::at(world, "world")?.world.graph_pool_id().into(), "id") })
}

/// A fresh id for a user's pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_user_pool_id(world: *const mp_world, id: *mut mp_pool_id) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe { pointer::put(id, pointer::at(world, "world")?.world.user_pool_id().into(), "id") })
}

/// A memory pool's own source of segments. The functions are called under no lock and from any thread. What they give comes
/// from elsewhere: an `alloc` that asks for memory of the pool that it serves is refused, and so is memory of this allocator.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_custom_allocator {
    /// Passed to each function.
    pub user: *mut c_void,
    /// `bytes` of device memory, usable on `stream`; 0 counts as out of memory.
    pub alloc: Option<unsafe extern "C" fn(user: *mut c_void, bytes: u64, stream: u64) -> u64>,
    /// Takes back what `alloc` gave, with the same size.
    pub free: Option<unsafe extern "C" fn(user: *mut c_void, addr: u64, bytes: u64, stream: u64)>,
    /// Called once, when nobody will call the others any more; may be NULL.
    pub drop: Option<unsafe extern "C" fn(user: *mut c_void)>,
}

/// The same, with its functions there.
#[derive(Debug)]
struct Custom {
    user: User,
    alloc: unsafe extern "C" fn(*mut c_void, u64, u64) -> u64,
    free: unsafe extern "C" fn(*mut c_void, u64, u64, u64),
}

/// What a C program passes along for its own functions, and how it is dropped.
#[derive(Debug)]
pub(crate) struct User {
    pub pointer: *mut c_void,
    pub drop: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: by the interface's contract the functions that get it may be called from any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the program's own function with its own pointer, once.
            unsafe { drop(self.pointer) };
        }
    }
}

impl CustomAllocator for Custom {
    fn raw_alloc(&self, bytes: u64, stream: Stream) -> Option<u64> {
        // SAFETY: the program's own function with its own pointer.
        Some(unsafe { (self.alloc)(self.user.pointer, bytes, stream.raw) }).filter(|&addr| addr != 0)
    }

    fn raw_delete(&self, addr: u64, bytes: u64, stream: Stream) {
        // SAFETY: as above.
        unsafe { (self.free)(self.user.pointer, addr, bytes, stream.raw) };
    }
}

/// Makes a memory pool with one reference, or adds a reference to one.
///
/// @param custom where segments come from, if not from the driver; NULL for the driver. Copied. On an error its `drop` is
///   called, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_create_or_incref(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    custom: *const mp_custom_allocator,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let custom = custom.as_ref().map(|given| {
                let user = User { pointer: given.user, drop: given.drop };
                let alloc = given.alloc.ok_or(Failure::null("custom->alloc"))?;
                let free = given.free.ok_or(Failure::null("custom->free"))?;
                Ok::<_, Failure>(Arc::new(Custom { user, alloc, free }) as Arc<dyn CustomAllocator>)
            });
            Ok(this.allocator.create_or_incref_pool(pool.into(), custom.transpose()?)?)
        })
    }
}

/// Drops a reference; without any the pool's memory returns at the next release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_release(allocator: *const mp_allocator, pool: mp_pool_id) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.release_pool(pool.into())?)) }
}

/// References to a memory pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_use_count(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    count: *mut u64,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| pointer::put(count, this.allocator.pool_use_count(pool.into())?, "count")) }
}

/// Lets a memory pool lend cached blocks when another request finds none, or stops that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_set_use_on_oom(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    lends: bool,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.set_use_on_oom(pool.into(), lends)?)) }
}

/// Makes a memory pool hand out whole blocks only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_set_no_split(allocator: *const mp_allocator, pool: mp_pool_id) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.set_no_split(pool.into())?)) }
}

/// Whether the live blocks of a memory pool are exactly those at the addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_has_exactly(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    addrs: *const u64,
    count: usize,
    answer: *mut bool,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let addrs = pointer::list(addrs, count, "addrs")?.iter().copied().collect();
            pointer::put(answer, this.allocator.pool_has_exactly(pool.into(), &addrs)?, "answer")
        })
    }
}

/// Every request.
pub const MP_FILTER_ANY: u32 = 0;
/// Requests of the thread that opens the scope.
pub const MP_FILTER_THREAD: u32 = 1;
/// Requests on one stream.
pub const MP_FILTER_STREAM: u32 = 2;
/// Requests on streams that a function accepts.
pub const MP_FILTER_FUNCTION: u32 = 3;

/// Which requests a scope takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_filter {
    /// One of MP_FILTER_…
    pub kind: u32,
    /// The stream of MP_FILTER_STREAM.
    pub stream: u64,
    /// Passed to the functions.
    pub user: *mut c_void,
    /// Whether a stream's requests are taken, for MP_FILTER_FUNCTION. Called under no lock and from any thread.
    pub accepts: Option<unsafe extern "C" fn(user: *mut c_void, stream: u64) -> bool>,
    /// Called once, when `accepts` will not be called any more; may be NULL.
    pub drop: Option<unsafe extern "C" fn(user: *mut c_void)>,
}

impl mp_filter {
    fn read(self, this: &mp_allocator) -> Answer<Filter> {
        let user = User { pointer: self.user, drop: self.drop };
        match self.kind {
            MP_FILTER_ANY => Ok(Filter::Any),
            MP_FILTER_THREAD => Ok(Filter::Thread(Thread::current())),
            MP_FILTER_STREAM => Ok(Filter::Stream(this.stream(self.stream))),
            MP_FILTER_FUNCTION => {
                let accepts = self.accepts.ok_or(Failure::null("filter->accepts"))?;
                // SAFETY: the program's own function with its own pointer.
                let ask = move |user: &User, stream: Stream| unsafe { accepts(user.pointer, stream.raw) };
                Ok(Filter::Custom(Arc::new(move |stream| ask(&user, stream))))
            }
            _ => Err(Failure::Argument { argument: "filter->kind", why: "is none of MP_FILTER_…" }),
        }
    }
}

/// Routes the requests that `filter` takes to a memory pool until mp_pool_end; one more reference to the pool, which is made
/// if it is not there. A NULL filter takes all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_begin(
    allocator: *const mp_allocator,
    pool: mp_pool_id,
    filter: *const mp_filter,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let filter = filter.as_ref().map_or(Ok(Filter::Any), |filter| filter.read(this))?;
            Ok(this.allocator.begin_allocate_to_pool(pool.into(), filter)?)
        })
    }
}

/// Closes the scope; its reference stays until mp_pool_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_end(allocator: *const mp_allocator, pool: mp_pool_id) -> mp_status {
    // SAFETY: as the header documents.
    unsafe { with(allocator, |this| Ok(this.allocator.end_allocate_to_pool(pool.into())?)) }
}

/// Tells the allocator that a capture has begun on its device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_mark_capture_begin(allocator: *const mp_allocator) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.mark_capture_begin();
            Ok(())
        })
    }
}

/// Tells the allocator that a capture has ended on its device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_mark_capture_end(allocator: *const mp_allocator) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            this.allocator.mark_capture_end();
            Ok(())
        })
    }
}
