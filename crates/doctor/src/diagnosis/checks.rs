//! The facts behind the six questions that everybody asks of memory that ran out.

use millpond::config::{Dialect, explain};
use millpond_replay::snapshot::Recording;
use millpond_snapshot::{Action, PoolId, TraceEntry};
use serde::Serialize;

use super::account::PoolShare;
use super::moment::Held;

/// The facts.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// What each pool held, the largest first.
    pub pools: Vec<PoolShare>,
    /// Private pools that got memory from the driver while the trace was recorded.
    pub grown: Vec<Grown>,
    /// The settings in force.
    pub conf: String,
    /// What of the settings does nothing, or not what it seems to.
    pub conf_notices: Vec<String>,
    /// Bytes held more than the device has, where its memory is known: managed memory, or a driver that moves memory to the
    /// host.
    pub beyond_device: u64,
    /// Whether the device's memory is known.
    pub is_total_known: bool,
}

/// Memory that a private pool got from the driver. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// The pool.
    pub pool: (u64, u64),
    /// Whether it surely is a graph's: only a capture routes requests to such a pool, so it grew inside of one and there was
    /// no warm-up into it. Others are a `MemPool`'s or come from `graph_pool_handle`; a snapshot does not tell which (R5.1).
    pub in_capture: bool,
    /// Segments made, and runs of pages mapped.
    pub times: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Checks {
    /// Those of a recording at a moment. `conf` is the text of its settings, `total` the device's memory if it is known.
    pub fn of(recording: &Recording<'_>, held: &Held, conf: &str, total: Option<u64>) -> Self {
        let pools = PoolShare::all(held);
        let reserved: u64 = pools.iter().map(|pool| pool.reserved).sum();
        Checks {
            grown: grown(recording),
            conf: conf.to_owned(),
            conf_notices: notices(conf),
            beyond_device: total.map_or(0, |total| reserved.saturating_sub(total)),
            is_total_known: total.is_some(),
            pools,
        }
    }
}

fn grown(recording: &Recording<'_>) -> Vec<Grown> {
    let mut all: Vec<Grown> = Vec::new();
    let trace = recording.snapshot.trace(recording.device).iter();
    let is_new = |entry: &&TraceEntry| matches!(entry.action, Action::SegmentAlloc | Action::SegmentMap);
    for entry in trace.filter(is_new).filter(|entry| entry.pool.is_some_and(|pool| pool != PoolId::DEFAULT)) {
        let pool = entry.pool.unwrap_or_default().pair();
        let index = all.iter().position(|grown| grown.pool == pool).unwrap_or_else(|| {
            all.push(Grown { pool, in_capture: pool.0 > 0, times: 0, bytes: 0 });
            all.len() - 1
        });
        all[index].times += 1;
        all[index].bytes = all[index].bytes.saturating_add(entry.size);
    }
    all
}

fn notices(conf: &str) -> Vec<String> {
    let explanation = explain(conf, Dialect::Torch);
    let mut notices: Vec<String> = explanation.notices.into_iter().map(|notice| notice.message).collect();
    notices.extend(explanation.faults.iter().map(|fault| format!("PyTorch refuses it: {}", fault.error)));
    notices
}
