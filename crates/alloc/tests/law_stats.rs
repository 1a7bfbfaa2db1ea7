//! Statistics: R8.1, R8.2, R8.4, R8.6, R8.9 and the table of R8.10–R8.12.

mod common;

use common::{GIB, KIB, MIB, machine};
use millpond::config::Dialect;
use millpond::{Metric, memory_summary};

/// (current, peak, allocated, freed).
fn four(m: &common::Machine, key: &str) -> [i64; 4] {
    ["current", "peak", "allocated", "freed"].map(|field| m.stat(&format!("{key}.{field}")))
}

#[test]
fn r8_1_a_counter_has_a_value_a_peak_and_two_sums() {
    let m = machine(GIB, "");
    let blocks = [4 * MIB, 4 * MIB, 30 * MIB].map(|size| m.alloc(size));
    m.free(blocks[2]);
    m.free(m.alloc(1000));
    let mib = 1 << 20;
    assert_eq!(four(&m, "allocated_bytes.large_pool"), [8 * mib, 38 * mib, 38 * mib, 30 * mib]);
    assert_eq!(four(&m, "allocated_bytes.small_pool"), [0, 1024, 1024, 1024]);
    assert_eq!(four(&m, "allocated_bytes.all"), [8 * mib, 38 * mib, 38 * mib + 1024, 30 * mib + 1024]);
    m.a.reset_peak_stats();
    assert_eq!(four(&m, "allocated_bytes.all"), [8 * mib, 8 * mib, 38 * mib + 1024, 30 * mib + 1024]);
    m.a.reset_accumulated_stats();
    assert_eq!(four(&m, "allocated_bytes.all"), [8 * mib, 8 * mib, 0, 0]);
    m.free(blocks[0]);
    assert_eq!(four(&m, "allocated_bytes.all"), [4 * mib, 8 * mib, 0, 4 * mib]);
}

/// The sums of the pools' peaks are not the peak of the sum.
#[test]
fn r8_1_the_peak_of_all_is_its_own() {
    let m = machine(GIB, "");
    m.free(m.alloc(30 * MIB));
    m.alloc(MIB);
    assert_eq!(m.stat("allocated_bytes.all.peak"), 30 << 20);
    assert_eq!(m.stat("allocated_bytes.small_pool.peak"), 1 << 20);
    // Two streams and a private pool.
    let m = machine(GIB, "");
    let a = m.alloc_on(20 * MIB, 1);
    m.free(a);
    m.alloc_on(16 * MIB, 2);
    assert_eq!(m.stat("allocated_bytes.all.peak"), 20 << 20);
    m.alloc_on(10 * MIB, 3);
    assert_eq!(m.stat("allocated_bytes.all.peak"), 26 << 20);
}

#[test]
fn r8_6_what_the_resets_touch() {
    let m = machine(64 * MIB, "max_split_size_mb:20");
    let pool = millpond::MemPool::new(&m.a, Default::default()).unwrap();
    {
        let _scope = pool.enter().unwrap();
        m.free(m.alloc(4 * MIB));
    }
    m.free(m.alloc(30 * MIB));
    m.try_alloc(100 * MIB).unwrap_err();
    let ints = ["num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"];
    let before = ints.map(|key| m.stat(key));
    assert_eq!(before, [1, 1, 1, 2, 1]);
    let by_pool = "reserved_bytes_by_private_pools.0_1.all";
    assert_eq!(four(&m, by_pool), [20 << 20, 20 << 20, 20 << 20, 0]);
    assert_eq!(four(&m, "oversize_allocations"), [0, 1, 1, 1]);
    m.a.reset_accumulated_stats();
    assert_eq!(ints.map(|key| m.stat(key)), [0; 5]);
    assert_eq!((m.stat("num_oom_rejections"), m.stat("max_split_size")), (0, 20 << 20));
    assert_eq!(four(&m, by_pool), [20 << 20, 20 << 20, 0, 0]);
    assert_eq!(four(&m, "oversize_allocations"), [0, 1, 0, 0]);
    drop(pool);
    m.a.reset_peak_stats();
    assert_eq!(four(&m, by_pool), [0, 0, 0, 20 << 20]);
    assert_eq!(four(&m, "oversize_allocations"), [0, 0, 0, 0]);
}

#[test]
fn r8_2_max_split_size_is_that_of_the_start() {
    let m = machine(GIB, "");
    assert_eq!(m.stat("max_split_size"), -1);
    m.a.world().configure("max_split_size_mb:100", Dialect::Torch).unwrap();
    assert_eq!(m.stat("max_split_size"), -1);
}

/// R8.4: the oversize counters ask the setting of the moment, so they drift when it changes, also below 0.
#[test]
fn r8_4_oversize_counters_drift_with_the_setting() {
    let m = machine(GIB, "");
    let block = m.alloc(30 * MIB);
    m.a.world().configure("max_split_size_mb:20", Dialect::Torch).unwrap();
    m.free(block);
    m.empty();
    assert_eq!(four(&m, "oversize_allocations"), [-1, 0, 0, 1]);
    assert_eq!(four(&m, "oversize_segments"), [-1, 0, 0, 1]);
    let m = machine(GIB, "max_split_size_mb:20");
    let block = m.alloc(30 * MIB);
    m.a.world().configure("", Dialect::Torch).unwrap();
    m.free(block);
    m.empty();
    assert_eq!(four(&m, "oversize_allocations"), [1, 1, 1, 0]);
    assert_eq!(four(&m, "oversize_segments"), [1, 1, 1, 0]);
}

#[test]
fn r8_9_allocated_counts_blocks_and_requested_counts_requests() {
    let m = machine(GIB, "");
    m.free(m.alloc(20 * MIB));
    m.alloc(19 * MIB);
    m.alloc(700);
    assert_eq!(m.stat("allocated_bytes.all.current"), (20 << 20) + 1024);
    assert_eq!(m.stat("requested_bytes.all.current"), (19 << 20) + 700);
}

/// Every line of the table is 75 columns between bars.
#[test]
fn r8_10_the_layout_of_the_summary() {
    let m = machine(GIB, "");
    m.alloc(30 * MIB);
    m.alloc(MIB);
    m.try_alloc(2 * GIB).unwrap_err();
    for abbreviated in [false, true] {
        let text = memory_summary(&m.a.stats(), 0, abbreviated);
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines {
            assert!(line.len() == 77 && line.starts_with('|') && line.ends_with('|'), "{:?} has {}", line, line.len());
        }
        assert!(text.ends_with("|\n"));
        let rule = |c: &str| format!("|{}|", c.repeat(75));
        assert_eq!(lines[0], rule("="));
        assert_eq!(lines[1], "|                  PyTorch CUDA memory summary, device ID 0                 |");
        assert_eq!(lines[2], rule("-"));
        assert_eq!(lines[3], "|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |");
        assert_eq!(lines[4], rule("="));
        assert_eq!(lines[5], "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |");
        // Nine groups with a rule, and two single rows.
        assert_eq!(lines.len(), 6 + 9 * if abbreviated { 2 } else { 4 } + 2 * 2 + 1);
        assert_eq!(*lines.last().unwrap(), rule("="));
    }
}

#[test]
fn r8_11_the_groups_and_rows_in_order() {
    let text = memory_summary(&machine(GIB, "").a.stats(), 3, false);
    let names: Vec<_> =
        text.lines().skip(6).filter(|line| !line.starts_with("|-") && !line.starts_with("|=")).collect();
    let names: Vec<_> = names.iter().map(|line| line[1..24].trim_end()).collect();
    let mut expected = Vec::new();
    for group in [
        " Allocated memory",
        " Active memory",
        " Requested memory",
        " GPU reserved memory",
        " Non-releasable memory",
        " Allocations",
        " Active allocs",
        " GPU reserved segments",
        " Non-releasable allocs",
    ] {
        expected.extend([group, "       from large pool", "       from small pool"]);
    }
    expected.extend([" Oversize allocations", " Oversize GPU segments"]);
    assert_eq!(names, expected);
    assert!(text.lines().nth(1).unwrap().contains("device ID 3   "));
}

/// R8.12: the unit of a group is that of its "all" row; figures are divided with the remainder dropped.
#[test]
fn r8_12_units() {
    let mut stats = machine(GIB, "").a.stats();
    let row = |stats: &millpond::Stats, name: &str, nth: usize| {
        let text = memory_summary(stats, 0, false);
        let lines: Vec<_> = text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("| {name:<21} |"))).unwrap();
        lines[at + nth].to_owned()
    };
    let bytes = Metric::AllocatedBytes as usize;
    for (value, shown) in [
        (768 * KIB - 1, "786431 B  "),
        (768 * KIB, "   768 KiB"),
        (768 * MIB - 1, "786431 KiB"),
        (768 * MIB, "   768 MiB"),
        (80 * GIB, " 81920 MiB"),
    ] {
        stats.metrics[bytes][0].current = value as _;
        let expected = format!("| Allocated memory      | {shown} |      0 B   |      0 B   |      0 B   |");
        assert_eq!(row(&stats, "Allocated memory", 0), expected);
    }
    // 500 bytes of the small pool in a group that is shown in MiB.
    stats.metrics[bytes][1].current = 500;
    let expected = "|       from small pool |      0 MiB |      0 B   |      0 B   |      0 B   |";
    assert_eq!(row(&stats, "Allocated memory", 2), expected);
    let count = Metric::Allocation as usize;
    for (value, shown) in
        [(749_999, " 749999   "), (750_000, "    750 K "), (750_000_000, "    750 M "), (9_000_000_000, "   9000 M ")]
    {
        stats.metrics[count][0].current = value;
        let expected = format!("| Allocations           | {shown} |       0    |       0    |       0    |");
        assert_eq!(row(&stats, "Allocations", 0), expected);
    }
}
