//! Which rules of the law decide what differs.

/// The rules behind a driver call.
pub(super) fn of_call(call: &str) -> &'static str {
    match call {
        "malloc" => "R1.10, R2.2, R2.14",
        "free" => "R2.18–R2.32",
        "reserve" => "R4.2, R4.3, R4.12",
        "addrfree" => "R4.22",
        "create" | "map" => "R4.9, R4.11, R4.14",
        "release" | "unmap" => "R4.9, R4.19, R4.20",
        _ => "R2.2",
    }
}

/// The rules behind a trace event.
pub(super) fn of_event(action: &str) -> &'static str {
    match action {
        "alloc" => "R2.50",
        "free_requested" => "R3.3",
        "free_completed" => "R3.8–R3.13, R3.16",
        "segment_alloc" => "R1.10, R2.14",
        "segment_free" => "R2.18–R2.34",
        "segment_map" => "R4.11–R4.15",
        "segment_unmap" => "R4.19–R4.21",
        "oom" => "R2.43",
        _ => "R9.9",
    }
}

/// The rules behind a statistic.
pub(super) fn of_statistic(name: &str) -> &'static str {
    match name.split('.').next().unwrap_or(name) {
        "inactive_split" | "inactive_split_bytes" => "R2.51, R3.11",
        "active" | "active_bytes" | "requested_bytes" => "R2.50, R3.12",
        "allocation" | "allocated_bytes" => "R2.50, R3.3",
        "segment" | "reserved_bytes" => "R2.16, R2.35, R4.15, R4.21",
        "reserved_bytes_by_private_pools" => "R8.7",
        "oversize_allocations" | "oversize_segments" => "R8.4",
        "num_alloc_retries" => "R2.10",
        "num_ooms" => "R2.43",
        "num_oom_rejections" => "R2.40",
        "num_sync_all_streams" => "R2.31",
        "num_device_alloc" | "num_device_free" => "R2.16, R4.15, R4.21",
        _ => "R8.1–R8.6",
    }
}

/// The rules behind an address.
pub(super) const ADDRESS: &str = "R1.17–R1.26, R4.11";
/// The rules behind whether an allocation succeeds.
pub(super) const SUCCESS: &str = "R2.2, R2.7, R2.11";
/// The rules behind the text of an out-of-memory error.
pub(super) const OOM_TEXT: &str = "R2.43–R2.48";
/// The rules behind a final segment.
pub(super) const SEGMENT: &str = "R9.4, R9.5";
/// The rules behind a final block.
pub(super) const BLOCK: &str = "R1.12–R1.16, R3.14";
