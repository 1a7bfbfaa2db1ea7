//! What a run came to: peaks and when they were, errors, driver calls and what they cost, what is held in the end.

mod account;
mod holdings;
mod peaks;

use std::collections::BTreeMap;

use serde::Serialize;

pub use account::{Account, account, driver_calls, driver_time_us};
pub use holdings::{ExpandableHolding, SegmentHolding};

/// What a run came to. Sizes are bytes, times microseconds, requests counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// The version of this form.
    pub schema: u32,
    /// Requests made; of a snapshot, the requests of its trace.
    pub events: u64,
    /// The most that live blocks held.
    pub peak_allocated: u64,
    /// The first request after which they did.
    pub peak_allocated_at: u64,
    /// The most that blocks live or waiting for events held.
    pub peak_active: u64,
    /// The first request after which they did.
    pub peak_active_at: u64,
    /// The most that callers had asked for.
    pub peak_requested: u64,
    /// The first request after which they had.
    pub peak_requested_at: u64,
    /// The most that was held from the driver.
    pub peak_reserved: u64,
    /// The first request after which it was.
    pub peak_reserved_at: u64,
    /// Held by live blocks in the end.
    pub final_allocated: u64,
    /// Held from the driver in the end.
    pub final_reserved: u64,
    /// Out-of-memory errors, rejections by policy included.
    pub ooms: u64,
    /// The first out-of-memory error.
    pub first_oom: Option<FirstOom>,
    /// Requests that failed otherwise.
    pub errors: u64,
    /// Allocations tried again after the synchronising release (R2.10).
    pub retries: u64,
    /// Driver calls of the allocator, by the names that recordings use.
    pub driver_calls: BTreeMap<&'static str, u64>,
    /// What these calls cost by the cost table.
    pub driver_time_us: u64,
    /// The segments in the end, by address.
    pub segments: Vec<SegmentHolding>,
    /// The expandable segments in the end, oldest first.
    pub expandable: Vec<ExpandableHolding>,
}

/// An out-of-memory error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FirstOom {
    /// The request.
    pub request: u64,
    /// Its text.
    pub text: String,
}
