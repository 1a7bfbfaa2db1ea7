//! The vectors of the law's appendix (A.1–A.8) and the facts about fragmentation (F1–F5), through the allocator.

mod common;

use common::{BASE, GIB, MIB, Machine, machine, on, stream};
use millpond::BlockUse::{Free, Live};
use millpond::{Error, MemPool};
use millpond_sim::CallKind;

/// (rounded size, segment size) of one request on an empty device.
fn sizes(conf: &str, request: u64) -> (u64, u64) {
    let m = machine(4 * GIB, conf);
    let addr = m.alloc(request);
    let rounded = m.stat("active_bytes.all.current") as u64;
    let is_whole = m.a.size_of(addr).unwrap() == (request, rounded);
    assert!(is_whole);
    (rounded, m.reserved())
}

#[test]
fn a1_rounding_and_segment_sizes() {
    for (request, rounded, segment) in [
        (1, 512, 2_097_152),
        (511, 512, 2_097_152),
        (512, 512, 2_097_152),
        (513, 1024, 2_097_152),
        (1_048_576, 1_048_576, 2_097_152),
        (1_048_577, 1_049_088, 20_971_520),
        (10_485_248, 10_485_248, 20_971_520),
        (10_485_249, 10_485_760, 10_485_760),
        (10_485_760, 10_485_760, 10_485_760),
        // A remainder of 2 MiB − 512 is split off.
        (10_485_761, 10_486_272, 12_582_912),
        (16_777_216, 16_777_216, 16_777_216),
    ] {
        assert_eq!(sizes("", request), (rounded, segment), "{request}");
    }
}

#[test]
fn a2_division_rounding() {
    for (request, divisions, rounded) in [
        (1200, 2, 1536),
        (1200, 4, 1536),
        (2048, 4, 2048),
        (2049, 4, 2560),
        (3000, 4, 3072),
        (700_000, 8, 720_896),
        (88_080_384, 4, 100_663_296),
        (88_080_384, 8, 92_274_688),
        (419_430_400, 2, 536_870_912),
        (419_430_400, 1, 419_430_400),
    ] {
        let (got, _) = sizes(&format!("roundup_power2_divisions:{divisions}"), request);
        assert_eq!(got, rounded, "{request} with {divisions}");
    }
}

/// A.3, and E5: the next string without the key turns rounding off.
#[test]
fn a3_the_list_of_divisions() {
    let list = "roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]";
    for (request, rounded) in [
        (9 * MIB, 9 * MIB),
        (65 * MIB, 72 * MIB),
        (129 * MIB, 192 * MIB),
        (600 * MIB, 768 * MIB),
        (1030 * MIB, 1030 * MIB),
        (2500 * MIB, 2500 * MIB),
    ] {
        assert_eq!(sizes(list, request).0, rounded, "{request}");
    }
    let gaps = "roundup_power2_divisions:[64:8,1024:4]";
    for (request, rounded) in
        [(65 * MIB, 72 * MIB), (130 * MIB, 130 * MIB), (1030 * MIB, 1280 * MIB), (2050 * MIB, 2050 * MIB)]
    {
        assert_eq!(sizes(gaps, request).0, rounded, "{request}");
    }
    let m = machine(4 * GIB, "roundup_power2_divisions:4");
    let [before, after] = [(); 2].map(|()| {
        let before = m.stat("active_bytes.all.current");
        m.alloc(84 * MIB);
        m.a.world().configure("", millpond::config::Dialect::Torch).unwrap();
        m.stat("active_bytes.all.current") - before
    });
    assert_eq!((before, after), (96 << 20, 84 << 20));
    assert_eq!(m.stat("requested_bytes.all.current"), 168 << 20);
}

#[test]
fn a4_splitting() {
    // Large, a segment of 20 MiB: 18 MiB leave 2 MiB, which is split off; 19 MiB leave 1 MiB, which is not.
    for (request, block) in [(18 * MIB, 18 * MIB), (19 * MIB, 20 * MIB), (19 * MIB - 512, 19 * MIB - 512)] {
        let m = machine(64 * MIB, "");
        m.free(m.alloc(20 * MIB));
        let addr = m.alloc(request);
        assert_eq!(m.a.size_of(addr).unwrap().1, block, "{request}");
    }
    let m = machine(64 * MIB, "");
    m.alloc(1_048_576);
    assert_eq!(m.blocks(), [(0, MIB, Live), (MIB, MIB, Free)]);
    m.alloc(MIB - 512);
    assert_eq!(m.blocks(), [(0, MIB, Live), (MIB, MIB - 512, Live), (2 * MIB - 512, 512, Free)]);
    // Expandable: 512 bytes are enough in any pool.
    let m = machine(64 * MIB, "expandable_segments:True");
    m.alloc(20 * MIB - 512);
    assert_eq!(m.mapped_blocks(millpond::PoolId::DEFAULT), [(0, 20 * MIB - 512, Live), (20 * MIB - 512, 512, Free)]);
}

#[test]
fn a5_the_limit_is_checked_with_the_segment_size() {
    for conf in ["", "expandable_segments:True"] {
        let m = machine(80 * GIB, conf);
        m.a.set_memory_fraction(0.5).unwrap();
        // 40 GiB are 2048 pages; 10 MiB and 0 MiB below the limit.
        let held = if conf.is_empty() { 40 * GIB - 10 * MIB } else { 40 * GIB - 20 * MIB };
        m.alloc(held);
        if !conf.is_empty() {
            assert_eq!(m.reserved(), held);
            m.alloc_on(1000, 1);
        }
        let Error::OutOfMemory(oom) = m.try_alloc(MIB + 1).unwrap_err() else { panic!("no OOM") };
        assert_eq!((oom.limit, oom.alloc_size, oom.rounded), (Some(40 * GIB), 20 * MIB, MIB + 512), "{conf}");
        assert!(m.reserved() + 2 * MIB <= 40 * GIB, "1 MiB + 1 would have fitted");
    }
}

/// A.6: X is older and lies higher. Addresses are the lowest that fit, so a hole is made for Y.
#[test]
fn a6_the_oldest_segment_wins_a_tie() {
    let m = machine(GIB, "");
    let hole = m.alloc(30 * MIB);
    let x = m.alloc(24 * MIB);
    m.free(hole);
    m.empty();
    let y = m.alloc(24 * MIB);
    assert!(y < x);
    m.free(y);
    m.free(x);
    assert_eq!([m.alloc(24 * MIB), m.alloc(24 * MIB)], [x, y]);
}

#[test]
fn a7_oversize_blocks() {
    let cached = || {
        let m = machine(GIB, "max_split_size_mb:200,max_non_split_rounding_mb:20");
        m.free(m.alloc(250 * MIB));
        m
    };
    let m = cached();
    m.alloc(100 * MIB);
    assert_eq!(m.calls(CallKind::Malloc), 2, "the block is oversize, the request is not");
    let m = cached();
    m.alloc(230 * MIB);
    assert_eq!(m.calls(CallKind::Malloc), 2, "250 ≥ 230 + 20");
    let m = cached();
    let addr = m.alloc(231 * MIB);
    assert_eq!((addr, m.a.size_of(addr).unwrap().1, m.calls(CallKind::Malloc)), (BASE, 250 * MIB, 1));
    assert_eq!((m.stat("oversize_allocations.current"), m.stat("oversize_allocations.allocated")), (1, 2));
    assert_eq!((m.stat("oversize_segments.current"), m.stat("max_split_size")), (1, 200 << 20));
    m.free(addr);
    assert_eq!(m.stat("oversize_allocations.current"), 0);
}

/// A.8 and R2.46: the whole text. The pool caches a little more than 1 GiB, for that alone would be written as 1024.00 MiB
/// (R2.45).
#[test]
fn a8_the_figures_of_an_oom() {
    let m = machine(14 * GIB + 514 * MIB, "");
    m.free(m.alloc(13 * GIB));
    m.alloc(10 * GIB);
    let pool = MemPool::for_graphs(&m.a).unwrap();
    let scope = pool.enter().unwrap();
    m.free(m.alloc(GIB + 2 * MIB));
    drop(scope);
    let error = m.try_alloc(4 * GIB).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 14.50 GiB of which 512.00 MiB is \
         free. Including non-PyTorch memory, this process has 14.00 GiB memory in use. Of the allocated memory 11.00 GiB is \
         allocated by PyTorch, with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), and 3.00 GiB is reserved by \
         PyTorch but unallocated. If reserved but unallocated memory is large try setting \
         PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  \
         (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    );
}

fn all(m: &Machine, count: usize, size: u64) -> (Vec<u64>, Vec<u64>) {
    (0..count).map(|_| (m.alloc(size), m.reserved() / MIB)).unzip()
}

#[test]
fn f1_segments_do_not_join() {
    for (first, second, reserved) in [((8, 16), (4, 32), 256), ((4, 32), (8, 16), 128)] {
        let m = machine(GIB, "");
        let (blocks, _) = all(&m, first.0, first.1 * MIB);
        m.free_all(blocks);
        assert_eq!(m.reserved(), 128 * MIB);
        all(&m, second.0, second.1 * MIB);
        assert_eq!(m.reserved(), reserved * MIB);
    }
}

#[test]
fn f2_an_expandable_segment_grows_by_pages() {
    let m = machine(GIB, "expandable_segments:True");
    let (blocks, reserved) = all(&m, 8, 16 * MIB);
    assert_eq!(reserved, [20, 40, 60, 80, 80, 100, 120, 140]);
    m.free_all(blocks);
    assert_eq!(m.mapped_blocks(millpond::PoolId::DEFAULT), [(0, 140 * MIB, Free)]);
    assert_eq!(all(&m, 4, 32 * MIB).1, [140; 4]);
}

#[test]
fn f3_holes_do_not_serve_their_sum() {
    let m = machine(GIB, "");
    m.free(m.alloc(60 * MIB));
    let [a, _, c] = [20 * MIB; 3].map(|size| m.alloc(size));
    assert_eq!(m.reserved(), 60 * MIB);
    m.free_all([a, c]);
    m.alloc(40 * MIB);
    assert_eq!(m.reserved(), 100 * MIB);
}

#[test]
fn f4_one_byte_decides_the_pool() {
    let m = machine(GIB, "");
    m.alloc(MIB);
    assert_eq!(
        (m.stat("reserved_bytes.small_pool.current"), m.stat("reserved_bytes.large_pool.current")),
        (2 << 20, 0)
    );
    m.alloc(MIB + 1);
    assert_eq!(m.stat("reserved_bytes.large_pool.current"), 20 << 20);
}

#[test]
fn f5_three_requests_share_a_segment() {
    let m = machine(GIB, "");
    for rest in [16, 12, 8] {
        m.alloc(4 * MIB);
        assert_eq!(m.blocks().last().unwrap(), &((20 - rest) * MIB, rest * MIB, Free));
    }
    assert_eq!(m.reserved(), 20 * MIB);
    assert_eq!(m.a.alloc(4 * MIB, stream(0), &on(0)).unwrap(), BASE + 12 * MIB);
}
