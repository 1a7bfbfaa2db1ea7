//! The table of `torch.cuda.memory_summary` (R8.10–R8.12).

use super::{Metric, Stat, Stats};

/// Widths of PyTorch's table.
const WIDTH: usize = 75;

/// A group of rows: title, metric, whether it counts bytes.
const GROUPS: [(&str, Metric, bool); 9] = [
    ("Allocated memory", Metric::AllocatedBytes, true),
    ("Active memory", Metric::ActiveBytes, true),
    ("Requested memory", Metric::RequestedBytes, true),
    ("GPU reserved memory", Metric::ReservedBytes, true),
    ("Non-releasable memory", Metric::InactiveSplitBytes, true),
    ("Allocations", Metric::Allocation, false),
    ("Active allocs", Metric::Active, false),
    ("GPU reserved segments", Metric::Segment, false),
    ("Non-releasable allocs", Metric::InactiveSplit, false),
];

/// A figure in the unit that its group's total calls for (R8.12).
fn figure(value: i64, total: i64, bytes: bool) -> String {
    let (units, step, limit, width): (&[&str], i64, i64, usize) = if bytes {
        (&["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024, 768 * 1024, 6)
    } else {
        (&["  ", "K ", "M "], 1000, 750_000, 7)
    };
    let (mut value, mut total, mut unit) = (value, total, 0);
    // PyTorch moves on while the total is at or above the limit; what is below the first limit keeps the first unit.
    while total >= limit && unit + 1 < units.len() {
        (value, total, unit) = (value / step, total / step, unit + 1);
    }
    format!("{value:>width$} {}", units[unit])
}

fn row(name: &str, stat: Stat, total: Stat, bytes: bool) -> String {
    let cells = [
        figure(stat.current, total.current, bytes),
        figure(stat.peak as i64, total.peak as i64, bytes),
        figure(stat.allocated as i64, total.allocated as i64, bytes),
        figure(stat.freed as i64, total.freed as i64, bytes),
    ];
    format!("| {name:<21} | {} |", cells.join(" | "))
}

/// The table that `torch.cuda.memory_summary(device, abbreviated)` prints for these statistics (R8.10–R8.12).
pub fn memory_summary(stats: &Stats, device: u32, abbreviated: bool) -> String {
    let rule = |c: &str| format!("|{}|", c.repeat(WIDTH));
    let mut lines = vec![
        rule("="),
        format!("|                  PyTorch CUDA memory summary, device ID {device:<17} |"),
        rule("-"),
        format!(
            "|            CUDA OOMs: {:<12} |        cudaMalloc retries: {:<8}  |",
            stats.num_ooms, stats.num_alloc_retries
        ),
        rule("="),
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |".to_owned(),
    ];
    for (title, metric, bytes) in GROUPS {
        lines.push(rule("-"));
        let [all, small, large] = stats.metrics[metric as usize];
        lines.push(row(title, all, all, bytes));
        if !abbreviated {
            lines.push(row("      from large pool", large, all, bytes));
            lines.push(row("      from small pool", small, all, bytes));
        }
    }
    for (title, metric) in
        [("Oversize allocations", Metric::OversizeAllocations), ("Oversize GPU segments", Metric::OversizeSegments)]
    {
        lines.push(rule("-"));
        let stat = stats.all(metric);
        lines.push(row(title, stat, stat, false));
    }
    lines.push(rule("="));
    lines.join("\n") + "\n"
}
