//! Private pools and MemPools: R2.30, R2.33, R5.4–R5.18, and custom allocators (R5.18, R11.10).

mod common;

use std::sync::Arc;

use common::{BASE, GIB, MIB, Machine, Scripted, machine, manual, on, stream};
use millpond::BlockUse::{Free, Live};
use millpond::{CustomAllocator, Error, Filter, Hint, MemPool, MemPoolOptions, PoolId, Thread};
use millpond_sim::CallKind;

fn pool_of(m: &Machine, addr: u64) -> PoolId {
    let segments = m.a.segments();
    segments.into_iter().find(|s| s.base <= addr && addr < s.base + s.size).expect("a segment").pool
}

fn alloc_in(m: &Machine, pool: &MemPool, size: u64) -> u64 {
    let _scope = pool.enter().unwrap();
    m.alloc(size)
}

#[test]
fn r5_1_ids_count_from_one_for_graphs_and_users() {
    let m = machine(GIB, "");
    let world = m.a.world();
    assert_eq!([world.graph_pool_id(), world.graph_pool_id()], [PoolId(1, 0), PoolId(2, 0)]);
    assert_eq!([world.user_pool_id(), world.user_pool_id()], [PoolId(0, 1), PoolId(0, 2)]);
}

#[test]
fn r5_4_a_pool_is_made_once_and_then_counted() {
    let m = machine(GIB, "");
    let id = PoolId(0, 5);
    m.a.create_or_incref_pool(id, None).unwrap();
    m.a.create_or_incref_pool(id, None).unwrap();
    assert_eq!(m.a.pool_use_count(id).unwrap(), 2);
    let error = m.a.create_or_incref_pool(id, Some(Scripted::new(&[]))).unwrap_err();
    assert!(matches!(error, Error::PoolExists { .. }), "an allocator for a pool that exists: {error}");
    assert_eq!(m.a.pool_use_count(id).unwrap(), 2);
    m.a.release_pool(id).unwrap();
    m.a.release_pool(id).unwrap();
    let error = m.a.create_or_incref_pool(id, None).unwrap_err();
    assert!(matches!(error, Error::PoolReleased { .. }), "a pool without owners: {error}");
}

#[test]
fn r5_5_a_scope_takes_a_reference_and_there_is_one_for_each_pool() {
    let m = machine(GIB, "");
    let id = PoolId(0, 1);
    m.a.begin_allocate_to_pool(id, Filter::Any).unwrap();
    assert_eq!(m.a.pool_use_count(id).unwrap(), 1);
    let error = m.a.begin_allocate_to_pool(id, Filter::Stream(stream(1))).unwrap_err();
    assert!(matches!(error, Error::ScopeOpen { .. }), "{error}");
}

#[test]
fn r5_6_the_newest_scope_that_accepts_decides() {
    let m = machine(GIB, "");
    let (outer, inner) = (PoolId(0, 1), PoolId(0, 2));
    m.a.begin_allocate_to_pool(outer, Filter::Any).unwrap();
    m.a.begin_allocate_to_pool(inner, Filter::Stream(stream(1))).unwrap();
    assert_eq!(pool_of(&m, m.alloc_on(4 * MIB, 1)), inner);
    assert_eq!(pool_of(&m, m.alloc_on(4 * MIB, 0)), outer);
    m.a.end_allocate_to_pool(inner).unwrap();
    assert_eq!(pool_of(&m, m.alloc_on(4 * MIB, 1)), outer);
    m.a.end_allocate_to_pool(outer).unwrap();
    assert_eq!(pool_of(&m, m.alloc_on(4 * MIB, 1)), PoolId::DEFAULT);
}

#[test]
fn r5_6_filters_by_thread_by_stream_and_by_function() {
    let m = machine(GIB, "");
    let ids = [PoolId(0, 1), PoolId(0, 2), PoolId(0, 3)];
    m.a.begin_allocate_to_pool(ids[0], Filter::Thread(Thread::Named(7))).unwrap();
    m.a.begin_allocate_to_pool(ids[1], Filter::Stream(stream(2))).unwrap();
    m.a.begin_allocate_to_pool(ids[2], Filter::Custom(Arc::new(|stream| stream.raw >= 4))).unwrap();
    let routed = |thread, raw| {
        let caller = millpond::Caller { thread: Some(Thread::Named(thread)), ..on(0) };
        pool_of(&m, m.a.alloc(4 * MIB, stream(raw), &caller).unwrap())
    };
    assert_eq!([routed(7, 0), routed(8, 0)], [ids[0], PoolId::DEFAULT]);
    assert_eq!([routed(7, 2), routed(8, 2)], [ids[1], ids[1]]);
    assert_eq!([routed(7, 4), routed(8, 5), routed(8, 3)], [ids[2], ids[2], PoolId::DEFAULT]);
}

#[test]
fn r5_7_ending_a_scope_keeps_the_reference() {
    let m = machine(GIB, "");
    let id = PoolId(0, 1);
    m.a.begin_allocate_to_pool(id, Filter::Any).unwrap();
    m.a.end_allocate_to_pool(id).unwrap();
    assert_eq!(m.a.pool_use_count(id).unwrap(), 1);
    let error = m.a.end_allocate_to_pool(id).unwrap_err();
    assert!(matches!(error, Error::ScopeNotOpen { .. }), "{error}");
}

#[test]
fn r5_8_a_released_pool_gives_its_memory_back_at_the_next_emptying() {
    let m = machine(GIB, "");
    let id = PoolId(1, 0);
    m.a.begin_allocate_to_pool(id, Filter::Any).unwrap();
    let (kept, freed) = (m.alloc(4 * MIB), m.alloc(30 * MIB));
    m.a.end_allocate_to_pool(id).unwrap();
    m.free(freed);
    m.empty();
    assert_eq!(m.reserved(), 50 * MIB, "R2.34: a pool with owners is never emptied");
    m.a.release_pool(id).unwrap();
    assert_eq!(m.reserved(), 50 * MIB, "releasing frees nothing by itself");
    m.empty();
    assert_eq!(m.reserved(), 20 * MIB, "the live block holds its segment");
    // R5.9: it comes back to the pool all the same, and goes with the next emptying.
    m.free(kept);
    assert_eq!(m.mapped_blocks(id), [(0, 20 * MIB, Free)]);
    m.empty();
    assert_eq!(m.reserved(), 0);
    let error = m.a.pool_use_count(id).unwrap_err();
    assert!(matches!(error, Error::UnknownPool { .. }), "R2.32: the empty pool is forgotten: {error}");
    assert_eq!(m.stat("reserved_bytes_by_private_pools.1_0.all.peak"), 50 << 20, "its statistics stay");
}

#[test]
fn r5_8_a_release_too_many_is_an_error() {
    let m = machine(GIB, "");
    let id = PoolId(0, 1);
    m.a.create_or_incref_pool(id, None).unwrap();
    m.a.release_pool(id).unwrap();
    assert!(matches!(m.a.release_pool(id), Err(Error::PoolReleased { .. })));
    assert!(matches!(m.a.release_pool(PoolId(0, 9)), Err(Error::UnknownPool { .. })));
    assert!(m.a.release_pool(PoolId::DEFAULT).is_err(), "the default pool has no owner");
}

#[test]
fn r5_10_the_use_count_of_an_unknown_pool_is_an_error() {
    let m = machine(GIB, "");
    assert!(matches!(m.a.pool_use_count(PoolId(4, 0)), Err(Error::UnknownPool { .. })));
}

#[test]
fn r5_12_a_dropped_mem_pool_gives_back_and_lends_no_more() {
    let m = machine(80 * MIB, "");
    let lending = || MemPoolOptions { use_on_oom: true, ..MemPoolOptions::default() };
    let pool = MemPool::new(&m.a, lending()).unwrap();
    m.free(alloc_in(&m, &pool, 40 * MIB));
    let kept = m.alloc(40 * MIB);
    assert_eq!(m.alloc(30 * MIB), BASE, "R2.27: lent, cut from the 40 MiB");
    m.free(BASE);
    drop(pool);
    assert_eq!(m.reserved(), 40 * MIB);
    assert_eq!(m.calls(CallKind::Free), 1);

    // With a live block the pool stays, freeable; it does not lend (test_deleted_mempool_not_used_on_oom).
    let pool = MemPool::new(&m.a, lending()).unwrap();
    let live = alloc_in(&m, &pool, 4 * MIB);
    m.free(alloc_in(&m, &pool, 8 * MIB));
    drop(pool);
    let rest = m.alloc(20 * MIB);
    assert!(m.try_alloc(8 * MIB).is_err());
    m.free_all([kept, live, rest]);
}

#[test]
fn r2_30_a_lender_whose_scope_is_open_makes_the_request_fail() {
    let m = machine(80 * MIB, "");
    let pool = MemPool::new(&m.a, MemPoolOptions { use_on_oom: true, ..MemPoolOptions::default() }).unwrap();
    m.free(alloc_in(&m, &pool, 40 * MIB));
    let _kept = m.alloc(40 * MIB);
    m.a.begin_allocate_to_pool(pool.id(), Filter::Stream(stream(5))).unwrap();
    let error = m.try_alloc(40 * MIB).unwrap_err();
    assert!(matches!(error, Error::ScopeOpen { .. }), "{error}");
    assert!(error.to_string().contains("already recording to mempool_id"), "{error}");
    assert_eq!((m.stat("num_ooms"), m.stat("num_alloc_retries")), (0, 0));
}

#[test]
fn r2_27_a_request_of_a_private_pool_borrows_nothing() {
    let m = machine(80 * MIB, "");
    let lender = MemPool::new(&m.a, MemPoolOptions { use_on_oom: true, ..MemPoolOptions::default() }).unwrap();
    let other = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    m.free(alloc_in(&m, &lender, 40 * MIB));
    let _kept = m.alloc(40 * MIB);
    let _scope = other.enter().unwrap();
    assert!(matches!(m.try_alloc(40 * MIB), Err(Error::OutOfMemory(_))));
}

#[test]
fn r2_33_emptying_one_pool_waits_for_its_own_blocks_only() {
    let m = manual(GIB, "");
    let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
    let (own, other) = (alloc_in(&m, &pool, 30 * MIB), m.alloc(30 * MIB));
    for addr in [own, other] {
        m.record(addr, 1);
        m.free(addr);
    }
    m.a.empty_pool_cache(pool.id(), &on(0)).unwrap();
    assert_eq!(m.stat("num_sync_all_streams"), 0, "a pool with owners: nothing happens");
    assert_eq!(m.sim.pending_events(), 2);
    drop(pool);
    assert_eq!(m.stat("num_sync_all_streams"), 1);
    assert_eq!(m.reserved(), 30 * MIB, "the pool's 30 MiB are gone");
    assert_eq!(m.stat("active_bytes.all.current"), 30 << 20, "the other block waits still");
    assert_eq!(m.sim.pending_events(), 1);
    m.sim.sync();
}

#[test]
fn r5_16_emptying_the_cache_leaves_a_live_mem_pool_alone() {
    for conf in ["", "expandable_segments:True"] {
        let m = machine(GIB, conf);
        let pool = MemPool::new(&m.a, MemPoolOptions::default()).unwrap();
        let scope = pool.enter().unwrap();
        m.free(m.alloc(40 * MIB));
        m.empty();
        assert_eq!(m.reserved(), 40 * MIB, "{conf}: inside");
        drop(scope);
        m.empty();
        assert_eq!(m.reserved(), 40 * MIB, "{conf}: outside");
        assert_eq!(m.stat("reserved_bytes_by_private_pools.0_1.large_pool.current"), 40 << 20);
        drop(pool);
        assert_eq!(m.reserved(), 0, "{conf}");
    }
}

#[test]
fn r5_17_no_split_every_request_takes_a_whole_block() {
    let m = machine(GIB, "");
    let pool = MemPool::new(&m.a, MemPoolOptions { no_split: true, ..MemPoolOptions::default() }).unwrap();
    let [a, b] = [4 * MIB; 2].map(|size| alloc_in(&m, &pool, size));
    assert_eq!(m.mapped_blocks(pool.id()), [(0, 20 * MIB, Live), (20 * MIB, 20 * MIB, Live)]);
    assert_eq!((m.stat("segment.all.current"), m.allocated()), (2, 40 * MIB));
    assert_eq!(m.stat("requested_bytes.all.current"), 8 << 20);
    assert_eq!((m.stat("inactive_split.all.current"), m.stat("inactive_split.all.peak")), (0, 0));
    m.free_all([a, b]);
}

#[test]
fn r5_8_no_split_is_erased_when_the_pool_is_released() {
    let m = machine(GIB, "");
    let id = PoolId(0, 1);
    m.a.create_or_incref_pool(id, None).unwrap();
    m.a.set_no_split(id).unwrap();
    m.a.release_pool(id).unwrap();
    m.empty();
    m.a.create_or_incref_pool(id, None).unwrap();
    m.a.begin_allocate_to_pool(id, Filter::Any).unwrap();
    m.alloc(4 * MIB);
    assert_eq!(m.mapped_blocks(id)[0], (0, 4 * MIB, Live), "test_mempool_no_split_erased_on_release");
}

// ── Custom allocators ──

fn with_custom(m: &Machine, custom: &Arc<Scripted>) -> MemPool {
    let custom: Arc<dyn CustomAllocator> = custom.clone();
    MemPool::new(&m.a, MemPoolOptions { custom: Some(custom), ..MemPoolOptions::default() }).unwrap()
}

#[test]
fn r5_18_a_custom_allocator_sees_segment_sizes_and_takes_the_same_back() {
    let m = machine(GIB, "");
    let custom = Scripted::new(&[Some(0x7000_0000), Some(0x8000_0000), Some(0x9000_0000)]);
    let pool = with_custom(&m, &custom);
    let blocks = [1000, 3 * MIB, 30 * MIB + 1].map(|size| alloc_in(&m, &pool, size));
    assert_eq!(blocks, [0x7000_0000, 0x8000_0000, 0x9000_0000]);
    assert_eq!(*custom.asked.lock().unwrap(), [(2 * MIB, 0), (20 * MIB, 0), (32 * MIB, 0)]);
    assert_eq!((m.calls(CallKind::Malloc), m.reserved()), (0, 54 * MIB));
    assert_eq!(alloc_in(&m, &pool, 3 * MIB), 0x8000_0000 + 3 * MIB, "segments are cut and cached as any others");
    m.free(0x8000_0000 + 3 * MIB);
    m.free_all(blocks);
    drop(pool);
    let mut returned = custom.returned.lock().unwrap().clone();
    returned.sort_unstable();
    assert_eq!(returned, [(0x7000_0000, 2 * MIB), (0x8000_0000, 20 * MIB), (0x9000_0000, 32 * MIB)]);
    assert_eq!((m.reserved(), m.calls(CallKind::Free)), (0, 0));
}

#[test]
fn r11_10_a_custom_allocator_that_returns_null_is_asked_again_after_the_retry_and_then_named() {
    let m = machine(GIB, "");
    let custom = Scripted::new(&[None, None, None, Some(0x7000_0000)]);
    let pool = with_custom(&m, &custom);
    let scope = pool.enter().unwrap();
    let Error::OutOfMemory(oom) = m.try_alloc(4 * MIB).unwrap_err() else { panic!("no OOM") };
    assert_eq!((&oom.hint, oom.custom_allocator_failed), (&Hint::TryExpandable, true));
    let ending = "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf) The custom allocator backing this MemPool returned \
                  nullptr. Check preceding allocator warnings or logs for the underlying cause. This can indicate an \
                  allocator-specific error or memory constraint, even when device-wide free memory is available.";
    assert!(oom.to_string().ends_with(ending), "{oom}");
    assert_eq!((m.stat("num_ooms"), m.stat("num_alloc_retries")), (1, 1));
    assert_eq!(custom.asked.lock().unwrap().len(), 2, "the first try and the retry");
    // The third answer is null, the fourth an address: the retry serves the request.
    assert_eq!(m.alloc(4 * MIB), 0x7000_0000);
    assert_eq!((m.stat("num_ooms"), m.stat("num_alloc_retries")), (1, 2));
    drop(scope);
    m.free(0x7000_0000);
}

/// R1.18: for equal sizes the oldest segment wins, in whatever order the addresses come (A.6;
/// test_nccl_mem_alloc_addresses_in_random_order).
#[test]
fn r1_18_random_addresses_do_not_change_the_order() {
    let order_of_use = |addresses: [u64; 4]| {
        let m = machine(GIB, "");
        let custom = Scripted::new(&addresses.map(Some));
        let pool = with_custom(&m, &custom);
        let blocks = [24 * MIB; 4].map(|size| alloc_in(&m, &pool, size));
        assert_eq!(blocks, addresses);
        m.free_all(blocks.iter().rev().copied());
        let again = [24 * MIB; 4].map(|size| alloc_in(&m, &pool, size));
        m.free_all(again);
        again.map(|addr| addresses.iter().position(|&a| a == addr).unwrap())
    };
    let at = |slots: [u64; 4]| slots.map(|slot| 0x7000_0000 + slot * 64 * MIB);
    assert_eq!(order_of_use(at([0, 1, 2, 3])), [0, 1, 2, 3]);
    assert_eq!(order_of_use(at([3, 1, 0, 2])), [0, 1, 2, 3]);
}

#[test]
fn r5_18_unaligned_addresses_are_taken_as_they_come() {
    let m = machine(GIB, "");
    let custom = Scripted::new(&[Some(0x7000_0001), Some(0x9000_0100)]);
    let pool = with_custom(&m, &custom);
    let [a, b] = [4 * MIB; 2].map(|size| alloc_in(&m, &pool, size));
    assert_eq!([a, b], [0x7000_0001, 0x7000_0001 + 4 * MIB]);
    assert_eq!(m.a.base_allocation(b).unwrap(), (0x7000_0001, 20 * MIB));
    m.free_all([a, b]);
    drop(pool);
    assert_eq!(*custom.returned.lock().unwrap(), [(0x7000_0001, 20 * MIB)]);
}

/// R2.14: the custom allocator is asked on the caller's current stream, whatever stream the block is for.
#[test]
fn r2_14_a_custom_allocator_is_called_on_the_current_stream() {
    let m = machine(GIB, "");
    let custom = Scripted::new(&[Some(0x7000_0000)]);
    let pool = with_custom(&m, &custom);
    let _scope = pool.enter().unwrap();
    m.a.alloc(4 * MIB, stream(3), &on(2)).unwrap();
    assert_eq!(*custom.asked.lock().unwrap(), [(20 * MIB, 2)]);
}

#[test]
fn r4_18_expandable_segments_do_not_serve_a_pool_with_a_custom_allocator() {
    let m = machine(GIB, "expandable_segments:True");
    let custom = Scripted::new(&[Some(0x7000_0000)]);
    let pool = with_custom(&m, &custom);
    let (inside, outside) = (alloc_in(&m, &pool, 4 * MIB), m.alloc(4 * MIB));
    assert_eq!((inside, outside), (0x7000_0000, BASE));
    assert_eq!(m.calls(CallKind::Create), 1);
    let segments = m.a.segments();
    assert_eq!(segments.iter().map(|segment| segment.expandable).collect::<Vec<_>>(), [false, true]);
    // R1.13: for that pool the ordinary rule of large pools decides.
    m.free(inside);
    assert_eq!(m.a.size_of(alloc_in(&m, &pool, 19 * MIB)).unwrap().1, 20 * MIB);
}
