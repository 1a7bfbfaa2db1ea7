//! The interface, used as a C program uses it, on the simulated driver.

mod common;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use common::is_child;
use millpond_c::mp_status::*;
use millpond_c::*;

/// What a test calls, with the text of an error in the failure.
macro_rules! ok {
    ($call:expr) => {{
        // SAFETY: the pointers are to live variables of the test's, or NULL where the header allows it.
        let status = unsafe { $call };
        assert_eq!(status, MP_OK, "{}: {}", stringify!($call), error_text());
    }};
}

/// A call that must be refused.
macro_rules! refused {
    ($status:ident, $call:expr) => {{
        // SAFETY: as above.
        assert_eq!(unsafe { $call }, $status, "{}: {}", stringify!($call), error_text());
        assert_eq!(mp_error_status(), $status);
        assert!(!error_text().is_empty());
    }};
}

fn text_of(text: *const c_char) -> String {
    // SAFETY: the library's strings have an end.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

fn error_text() -> String {
    text_of(mp_error_text())
}

fn taken(text: *mut c_char) -> String {
    let copy = text_of(text);
    // SAFETY: a string that the library gave.
    unsafe { mp_string_destroy(text) };
    copy
}

struct World {
    world: *mut mp_world,
    allocator: *mut mp_allocator,
}

impl World {
    fn new(conf: &CStr) -> Self {
        let (mut world, mut allocator) = (null_mut(), null_mut());
        ok!(mp_world_create(conf.as_ptr(), &mut world, null_mut()));
        ok!(mp_world_allocator(world, 0, &mut allocator));
        World { world, allocator }
    }

    fn alloc(&self, size: u64, stream: u64) -> u64 {
        let mut addr = 0;
        ok!(mp_alloc(self.allocator, size, stream, null(), &mut addr));
        ok!(mp_verify(self.allocator));
        addr
    }

    fn free(&self, addr: u64) {
        ok!(mp_free(self.allocator, addr, null()));
        ok!(mp_verify(self.allocator));
    }

    fn stats(&self) -> mp_stats {
        let mut stats = mp_stats::default();
        ok!(mp_stats_get(self.allocator, &mut stats));
        stats
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { mp_world_destroy(self.world) };
    }
}

#[test]
fn blocks_come_go_and_are_counted() {
    if !is_child("blocks_come_go_and_are_counted", &[]) {
        return;
    }
    let world = World::new(c"");
    assert_eq!(world.alloc(0, 0), 0, "R2.3");
    let addr = world.alloc(3 << 20, 0);
    let (mut requested, mut rounded) = (0, 0);
    ok!(mp_size_of(world.allocator, addr, &mut requested, &mut rounded));
    assert_eq!((requested, rounded), (3 << 20, 3 << 20));
    let (mut base, mut size) = (0, 0);
    ok!(mp_base_allocation(world.allocator, addr, &mut base, &mut size));
    assert_eq!((base, size), (addr, 20 << 20), "R1.10");
    assert_eq!(world.stats().metrics[MP_METRIC_ALLOCATED_BYTES][0].current, 3 << 20);
    assert_eq!(world.stats().metrics[MP_METRIC_SEGMENT][2].current, 1);
    let mut json = null_mut();
    ok!(mp_stats_json(world.allocator, &mut json));
    let json: serde_json::Value = serde_json::from_str(&taken(json)).unwrap();
    assert_eq!(json["stats"]["allocated_bytes.all.current"], 3 << 20);
    world.free(addr);
    assert_eq!(world.alloc(3 << 20, 0), addr, "a hit");
    world.free(addr);
    ok!(mp_empty_cache(world.allocator, null()));
    assert_eq!(world.stats().metrics[MP_METRIC_RESERVED_BYTES][0].current, 0);
    ok!(mp_reset_peak_stats(world.allocator));
    assert_eq!(world.stats().metrics[MP_METRIC_ALLOCATED_BYTES][0].peak, 0);
}

#[test]
fn errors_have_a_status_and_a_text() {
    if !is_child("errors_have_a_status_and_a_text", &[]) {
        return;
    }
    let world = World::new(c"");
    let a = world.allocator;
    let mut addr = 7;
    refused!(MP_OUT_OF_MEMORY, mp_alloc(a, 2 << 30, 0, null(), &mut addr));
    assert!(error_text().starts_with("CUDA out of memory. Tried to allocate 2.00 GiB."), "{}", error_text());
    refused!(MP_TOO_LARGE, mp_alloc(a, 1 << 60, 0, null(), &mut addr));
    refused!(MP_UNKNOWN_ADDRESS, mp_free(a, 512, null()));
    refused!(MP_INVALID_FRACTION, mp_set_memory_fraction(a, 2.0));
    refused!(MP_UNKNOWN_POOL, mp_pool_release(a, mp_pool_id { first: 9, second: 0 }));
    refused!(MP_MISALIGNED_ADDRESS, mp_alloc_at(a, 3, 512, 0, null()));
    refused!(MP_INVALID_ARGUMENT, mp_alloc(null(), 1, 0, null(), &mut addr));
    refused!(MP_INVALID_ARGUMENT, mp_alloc(a, 512, 0, null(), null_mut()));
    assert_eq!(world.stats().metrics[MP_METRIC_ALLOCATION][0].current, 0, "what nobody could take is free again");
    let mut other = null_mut();
    refused!(MP_INVALID_ARGUMENT, mp_world_allocator(world.world, 8, &mut other));
    refused!(MP_SETTINGS, mp_configure(world.world, c"expandable_segment:True".as_ptr(), false, null_mut()));
    assert!(error_text().contains("expandable_segments"), "the nearest key: {}", error_text());
    refused!(MP_SETTINGS, mp_world_create(c"backend:cudaMallocAsync".as_ptr(), &mut null_mut(), null_mut()));
    refused!(MP_FILE, mp_dump_snapshot(world.world, c"/nonexistent/snapshot.pickle".as_ptr()));
    ok!(mp_verify(a));
}

#[test]
fn without_a_driver_the_error_says_what_was_tried() {
    if !is_child("without_a_driver_the_error_says_what_was_tried", &[("MILLPOND_LIBCUDA", "/nonexistent/libcuda.so")]) {
        return;
    }
    let mut world = null_mut();
    refused!(MP_NO_DRIVER, mp_world_create(null(), &mut world, null_mut()));
    assert!(world.is_null() && error_text().contains("/nonexistent/libcuda.so"), "{}", error_text());
}

#[test]
fn settings_come_from_the_environment_and_change_at_run_time() {
    let settings = [("PYTORCH_ALLOC_CONF", "max_split_size_mb:64"), ("MILLPOND_CONF", "expandable_segments:True")];
    if !is_child("settings_come_from_the_environment_and_change_at_run_time", &settings) {
        return;
    }
    let mut world = null();
    ok!(mp_process_world(&mut world));
    let json = |world| -> serde_json::Value {
        let mut text = null_mut();
        ok!(mp_settings_json(world, &mut text));
        serde_json::from_str(&taken(text)).unwrap()
    };
    assert_eq!(json(world)["settings"]["max_split_size_mb"], "64 MiB");
    assert_eq!(json(world)["settings"]["expandable_segments"], "True");
    ok!(mp_configure(world, c"expandable_segments:False".as_ptr(), false, null_mut()));
    assert_eq!(json(world)["settings"]["expandable_segments"], "False");
    assert_eq!(json(world)["settings"]["max_split_size_mb"], "64 MiB", "only what is written changes");
    let mut warnings = null_mut();
    ok!(mp_configure(world, c"expandable_segments_reserve:never".as_ptr(), true, &mut warnings));
    assert!(taken(warnings).contains("never"));
    assert_eq!(json(world)["settings"]["max_split_size_mb"], "unlimited", "R10.15");
}

#[test]
fn r5_5_a_scope_routes_what_its_filter_takes() {
    if !is_child("r5_5_a_scope_routes_what_its_filter_takes", &[]) {
        return;
    }
    unsafe extern "C" fn odd(user: *mut c_void, stream: u64) -> bool {
        // SAFETY: the counter of the test.
        unsafe { *user.cast::<u32>() += 1 };
        stream % 2 == 1
    }
    unsafe extern "C" fn drop_it(user: *mut c_void) {
        // SAFETY: as above.
        unsafe { *user.cast::<u32>() += 100 };
    }
    let world = World::new(c"");
    let (a, mut pool, mut asked) = (world.allocator, mp_pool_id::default(), 0u32);
    ok!(mp_user_pool_id(world.world, &mut pool));
    let user = (&raw mut asked).cast();
    let kind = MP_FILTER_FUNCTION;
    let filter = mp_filter { kind, stream: 0, user, accepts: Some(odd), drop: Some(drop_it) };
    ok!(mp_pool_begin(a, pool, &filter));
    refused!(MP_SCOPE_OPEN, mp_pool_begin(a, pool, null()));
    let (inside, outside) = (world.alloc(512, 1), world.alloc(512, 2));
    let holds = |addr: u64| {
        let mut answer = false;
        ok!(mp_pool_has_exactly(a, pool, &addr, 1, &mut answer));
        answer
    };
    assert!(holds(inside) && !holds(outside));
    ok!(mp_pool_end(a, pool));
    // SAFETY: nobody writes now.
    assert_eq!(unsafe { (&raw const asked).read() }, 102, "asked twice, dropped once");
    let mut count = 0;
    ok!(mp_pool_use_count(a, pool, &mut count));
    assert_eq!(count, 1, "R5.7");
    world.free(inside);
    world.free(outside);
    ok!(mp_pool_release(a, pool));
    refused!(MP_POOL_RELEASED, mp_pool_release(a, pool));
    let mut pools = [mp_pool_stat::default(); 2];
    ok!(mp_stats_private_pools(a, pools.as_mut_ptr(), 2, &mut count as *mut u64 as *mut usize));
    assert_eq!((count, pools[0].pool, pools[0].reserved[1].current), (1, pool, 2 << 20));
}

#[test]
fn r5_18_a_pool_has_an_allocator_of_its_own() {
    if !is_child("r5_18_a_pool_has_an_allocator_of_its_own", &[]) {
        return;
    }
    static LOG: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());
    unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64, _: u64) -> u64 {
        LOG.lock().unwrap().push(("alloc", bytes));
        1 << 40
    }
    unsafe extern "C" fn free(_: *mut c_void, _: u64, bytes: u64, _: u64) {
        LOG.lock().unwrap().push(("free", bytes));
    }
    unsafe extern "C" fn drop_it(_: *mut c_void) {
        LOG.lock().unwrap().push(("drop", 0));
    }
    let world = World::new(c"");
    let (a, pool) = (world.allocator, mp_pool_id { first: 0, second: 7 });
    let custom = mp_custom_allocator { user: null_mut(), alloc: Some(alloc), free: Some(free), drop: Some(drop_it) };
    ok!(mp_pool_create_or_incref(a, pool, &custom));
    ok!(mp_pool_begin(a, pool, null()));
    let addr = world.alloc(1000, 0);
    assert_eq!(addr, 1 << 40);
    ok!(mp_pool_end(a, pool));
    world.free(addr);
    ok!(mp_pool_release(a, pool));
    ok!(mp_pool_release(a, pool));
    ok!(mp_empty_cache(a, null()));
    assert_eq!(*LOG.lock().unwrap(), [("alloc", 2 << 20), ("free", 2 << 20), ("drop", 0)]);
}

#[test]
fn a_pool_whose_allocator_is_the_plug_itself_is_refused() {
    if !is_child("a_pool_whose_allocator_is_the_plug_itself_is_refused", &[]) {
        return;
    }
    // SAFETY: the default stream, and addresses that the plug gave.
    unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64, _: u64) -> u64 {
        unsafe { mp_torch_alloc(bytes as isize, 0, null_mut()) as u64 }
    }
    unsafe extern "C" fn free(_: *mut c_void, addr: u64, bytes: u64, _: u64) {
        unsafe { mp_torch_free(addr as *mut c_void, bytes as isize, 0, null_mut()) }
    }
    let (mut a, pool) = (null_mut(), mp_pool_id { first: 0, second: 7 });
    ok!(mp_process_allocator(0, &mut a));
    let custom = mp_custom_allocator { user: null_mut(), alloc: Some(alloc), free: Some(free), drop: None };
    ok!(mp_pool_create_or_incref(a, pool, &custom));
    ok!(mp_pool_begin(a, pool, null()));
    let mut addr = 0;
    refused!(MP_CUSTOM_ASKS_ITSELF, mp_alloc(a, 1000, 0, null(), &mut addr));
    ok!(mp_pool_end(a, pool));
    ok!(mp_alloc(a, 1000, 0, null(), &mut addr));
    ok!(mp_free(a, addr, null()));
    ok!(mp_verify(a));
}

#[test]
fn r5_39_a_checkpoint_is_saved_and_restored() {
    if !is_child("r5_39_a_checkpoint_is_saved_and_restored", &[]) {
        return;
    }
    let world = World::new(c"");
    let (a, mut pool) = (world.allocator, mp_pool_id::default());
    ok!(mp_graph_pool_id(world.world, &mut pool));
    ok!(mp_pool_begin(a, pool, null()));
    let first = world.alloc(4096, 0);
    let (mut saved, mut restored, mut count) = (null_mut(), null_mut(), 0);
    ok!(mp_checkpoint_create(a, pool, null(), &mut saved));
    let second = world.alloc(4096, 0);
    ok!(mp_checkpoint_restore(a, saved, null(), &mut restored));
    // SAFETY: the lists live until they are destroyed.
    unsafe {
        let freed = mp_restored_freed(restored, &mut count);
        assert_eq!(std::slice::from_raw_parts(freed, count), [first, second]);
        let live = mp_restored_live(restored, &mut count);
        assert_eq!(std::slice::from_raw_parts(live, count), [first]);
        let live = mp_checkpoint_live(saved, &mut count);
        assert_eq!(std::slice::from_raw_parts(live, count), [first]);
        mp_restored_destroy(restored);
        mp_checkpoint_destroy(saved);
    }
    ok!(mp_verify(a));
    ok!(mp_pool_end(a, pool));
}

#[test]
fn pages_stay_while_they_are_pinned() {
    if !is_child("pages_stay_while_they_are_pinned", &[]) {
        return;
    }
    let world = World::new(c"expandable_segments:True,page_size_mb:2,page_reuse:always");
    let (a, reserved) = (world.allocator, || world.stats().metrics[MP_METRIC_RESERVED_BYTES][0].current);
    let addr = world.alloc(64 << 20, 0);
    let mut pinned = null_mut();
    refused!(MP_UNKNOWN_ADDRESS, mp_pin_pages(a, addr + 512, 1 << 20, &mut pinned));
    assert!(pinned.is_null());
    refused!(MP_INVALID_ARGUMENT, mp_pin_pages(a, addr, 1 << 20, null_mut()));
    ok!(mp_pin_pages(a, addr, 9 << 20, &mut pinned));
    world.free(addr);
    let theirs = world.alloc(64 << 20, 1);
    assert_eq!(reserved(), 74 << 20, "five pages stay");
    world.free(theirs);
    // SAFETY: it was given, and goes once; NULL is fine.
    unsafe {
        mp_unpin_pages(pinned);
        mp_unpin_pages(null_mut());
    }
    let theirs = world.alloc(74 << 20, 1);
    assert_eq!(reserved(), 74 << 20, "they move");
    world.free(theirs);
}

static RELEASED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static CAPTURED: Mutex<u64> = Mutex::new(0);

unsafe extern "C" fn capture(_: *mut c_void) -> u64 {
    let mut captured = CAPTURED.lock().unwrap();
    *captured += 1;
    *captured
}
unsafe extern "C" fn release(_: *mut c_void, token: u64) {
    RELEASED.lock().unwrap().push(token);
}
unsafe extern "C" fn resolve(_: *mut c_void, token: u64, frames: *mut mp_frames) {
    let name = CString::new(format!("step_{token}")).unwrap();
    // SAFETY: the pointer that was passed, and strings with an end.
    unsafe { mp_frames_add(frames, name.as_ptr(), c"train.py".as_ptr(), token as i64) };
}

#[test]
fn r9_20_the_history_keeps_the_programs_stacks() {
    if !is_child("r9_20_the_history_keeps_the_programs_stacks", &[]) {
        return;
    }
    let world = World::new(c"");
    let a = world.allocator;
    let source =
        mp_stack_source { user: null_mut(), capture: Some(capture), release: Some(release), resolve: Some(resolve) };
    ok!(mp_set_stack_source(world.world, &source));
    let skipped = [c"free_requested".as_ptr()];
    let options = mp_history_options {
        level: MP_LEVEL_ALL,
        max_entries: 100,
        clear: true,
        compile_context: false,
        skip_actions: skipped.as_ptr(),
        skip_count: 1,
    };
    ok!(mp_record_history(a, &options));
    let mut text = null_mut();
    ok!(mp_text_create(c"epoch 1".as_ptr(), &mut text));
    let caller = mp_caller { stream: 0, metadata: text, compile_context: null() };
    let mut addr = 0;
    ok!(mp_alloc(a, 4096, 0, &caller, &mut addr));
    // SAFETY: an allocator and its live block.
    assert_eq!(unsafe { mp_allocation_stack(a, addr) }, 1);
    let (mut snapshot, mut count) = (null_mut(), 0);
    ok!(mp_snapshot_create(a, null(), true, &mut snapshot));
    // SAFETY: the arrays live as long as the snapshot.
    unsafe {
        let segments = std::slice::from_raw_parts(mp_snapshot_segments(snapshot, &mut count), count);
        let blocks = std::slice::from_raw_parts(segments[0].blocks, segments[0].block_count);
        assert_eq!((segments[0].total_size, segments[0].stack, segments[0].is_small), (2 << 20, 1, true));
        assert_eq!(
            (blocks[0].addr, blocks[0].requested, blocks[0].state, blocks[0].stack),
            (addr, 4096, MP_BLOCK_LIVE, 1)
        );
        let events = std::slice::from_raw_parts(mp_snapshot_events(snapshot, &mut count), count);
        let actions: Vec<u32> = events.iter().map(|event| event.action).collect();
        assert_eq!(actions, [MP_ACTION_SEGMENT_ALLOC, MP_ACTION_ALLOC]);
        assert_eq!((text_of(events[1].metadata), events[1].stack), ("epoch 1".into(), 1));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    let c_path = CString::new(path.to_str().unwrap()).unwrap();
    ok!(mp_dump_snapshot(world.world, c_path.as_ptr()));
    let file = millpond_snapshot::Snapshot::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
    let stack = file.trace(0)[1].stack.unwrap();
    assert_eq!(file.stacks.frames(stack).next().unwrap().name.as_ref(), "step_1");

    world.free(addr);
    ok!(mp_record_history(a, null()));
    ok!(mp_record_history(a, &mp_history_options { max_entries: 1, ..options }));
    (0..100).for_each(|_| world.free(world.alloc(512, 0)));
    assert!(RELEASED.lock().unwrap().is_empty(), "a snapshot holds the tokens");
    // SAFETY: each once.
    unsafe {
        mp_snapshot_destroy(snapshot);
        mp_text_destroy(text);
    }
    (0..100).for_each(|_| world.free(world.alloc(512, 0)));
    let released = RELEASED.lock().unwrap().clone();
    assert!(released.contains(&2) && !released.contains(&1), "the segment holds the first one: {released:?}");
    drop(world);
    let mut released = std::mem::take(&mut *RELEASED.lock().unwrap());
    released.sort_unstable();
    assert!(released.into_iter().eq(1..=*CAPTURED.lock().unwrap()), "each once");
}

#[test]
fn observers_see_events_and_failures() {
    if !is_child("observers_see_events_and_failures", &[]) {
        return;
    }
    static SEEN: Mutex<Vec<(u32, u64)>> = Mutex::new(Vec::new());
    unsafe extern "C" fn events(_: *mut c_void, events: *const mp_event, count: usize) {
        // SAFETY: the library's array.
        let events = unsafe { std::slice::from_raw_parts(events, count) };
        SEEN.lock().unwrap().extend(events.iter().map(|event| (event.action, event.size)));
    }
    unsafe extern "C" fn oom(_: *mut c_void, oom: *const mp_oom) {
        // SAFETY: the library's value.
        SEEN.lock().unwrap().push((99, unsafe { (*oom).requested }));
    }
    let world = World::new(c"");
    ok!(mp_attach_observer(world.allocator, Some(events), null_mut()));
    ok!(mp_attach_oom_observer(world.allocator, Some(oom), null_mut()));
    refused!(MP_INVALID_ARGUMENT, mp_attach_observer(world.allocator, None, null_mut()));
    world.free(world.alloc(1000, 0));
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    let expected = [MP_ACTION_SEGMENT_ALLOC, MP_ACTION_ALLOC, MP_ACTION_FREE_REQUESTED, MP_ACTION_FREE_COMPLETED];
    assert!(seen.iter().map(|(action, _)| *action).eq(expected), "{seen:?}");
    let mut addr = 0;
    refused!(MP_OUT_OF_MEMORY, mp_alloc(world.allocator, 2 << 30, 0, null(), &mut addr));
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    assert!(seen.contains(&(99, 2 << 30)), "{seen:?}");
    assert!(seen.iter().any(|(action, _)| *action == MP_ACTION_OOM));
}

#[test]
fn the_functions_for_pytorchs_plug_use_one_world() {
    if !is_child("the_functions_for_pytorchs_plug_use_one_world", &[]) {
        return;
    }
    // SAFETY: PyTorch's calls, in PyTorch's order.
    unsafe {
        mp_torch_init(1);
        let stream = null_mut();
        assert!(mp_torch_alloc(0, 0, stream).is_null(), "R11.6: a size of 0 is passed on");
        let block = mp_torch_alloc(3 << 20, 0, stream);
        assert!(!block.is_null());
        let mut size = 0;
        assert_eq!(mp_torch_base_alloc(block, &mut size), block);
        assert_eq!(size, 20 << 20);
        mp_torch_record_stream(block, stream);
        mp_torch_free(block, 3 << 20, 0, stream);
        mp_torch_reset();
        mp_torch_memory_fraction(0.5, 0);
        assert!(mp_torch_alloc(700 << 20, 0, stream).is_null());
        assert_eq!(mp_error_status(), MP_OUT_OF_MEMORY);
        assert!(mp_torch_alloc(1, 5, stream).is_null());
        assert_eq!(mp_error_status(), MP_INVALID_ARGUMENT);
    }
    let mut allocator = null_mut();
    ok!(mp_process_allocator(0, &mut allocator));
    let mut fraction = 0.0;
    ok!(mp_memory_fraction(allocator, &mut fraction));
    assert_eq!(fraction, 0.5);
    ok!(mp_verify(allocator));
    let mut stats = mp_stats::default();
    ok!(mp_stats_get(allocator, &mut stats));
    assert_eq!((stats.metrics[MP_METRIC_RESERVED_BYTES][0].current, stats.num_ooms), (0, 1));
}

#[test]
fn caching_can_be_switched_off() {
    if !is_child("caching_can_be_switched_off", &[]) {
        return;
    }
    let world = World::new(c"");
    let mut on = false;
    ok!(mp_is_caching(world.allocator, &mut on));
    assert!(on);
    ok!(mp_enable_caching(world.allocator, false));
    ok!(mp_is_caching(world.allocator, &mut on));
    assert!(!on);
    world.free(world.alloc(512, 0));
    assert_eq!(world.stats().metrics[MP_METRIC_RESERVED_BYTES][0].current, 0);
    refused!(MP_CACHING_DISABLED, mp_alloc_at(world.allocator, 512, 512, 0, null()));
}
