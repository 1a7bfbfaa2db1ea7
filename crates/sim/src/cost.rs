//! What driver calls cost.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::calls::CallKind;

/// The table that comes with the crate.
const DEFAULT: &str = include_str!("../data/cost.json");

static DEFAULT_TABLE: LazyLock<CostTable> =
    LazyLock::new(|| CostTable::from_json(DEFAULT).unwrap_or_else(|_| CostTable::free()));

/// What each call costs: a fixed part, and parts by the handles and bytes it touches and by the ranges that are live.
///
/// The default is `data/cost.json`, which names the source of each figure; [`CostTable::from_json`] reads a table of the
/// same form.
#[derive(Clone, Debug)]
pub struct CostTable {
    calls: Box<[CallCost; CallKind::COUNT]>,
    sources: Arc<BTreeMap<String, String>>,
    /// Nanoseconds for each byte that a copy within a device moves.
    pub copy_ns_per_byte: f64,
    /// Nanoseconds for each byte that a copy between a device and the host, or two devices, moves.
    pub transfer_ns_per_byte: f64,
    /// Nanoseconds for each byte that a fill writes.
    pub fill_ns_per_byte: f64,
}

/// What one kind of call costs the host, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCost {
    /// For every call.
    pub fixed_ns: u64,
    /// For each handle that it touches.
    pub per_handle_ns: f64,
    /// For each byte that it touches.
    pub per_byte_ns: f64,
    /// For each range that is live on the device.
    pub per_live_range_ns: f64,
}

impl CallCost {
    /// The part that depends on what the call touches.
    pub fn variable_ns(&self, handles: u64, bytes: u64, live: u64) -> u64 {
        (self.per_handle_ns * handles as f64 + self.per_byte_ns * bytes as f64 + self.per_live_range_ns * live as f64)
            as u64
    }
}

/// A cost table that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// It is not JSON of the right form.
    #[error("not a cost table: {0}")]
    Json(#[from] serde_json::Error),
    /// It names a call that does not exist.
    #[error("a cost table has no call '{0}'; calls have CUDA's names, such as cuMemMap")]
    Call(String),
    /// A figure is negative, not finite or too large.
    #[error("the cost of '{call}' is {value} µs; a cost is between 0 and 10⁹ µs")]
    Value {
        /// The call.
        call: String,
        /// The figure.
        value: f64,
    },
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "about")]
    _about: serde::de::IgnoredAny,
    calls: BTreeMap<String, Entry>,
    work: BTreeMap<String, Work>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    fixed_us: f64,
    #[serde(default)]
    per_handle_us: f64,
    #[serde(default)]
    per_mib_us: f64,
    #[serde(default)]
    per_live_range_us: f64,
    source: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    gb_per_s: f64,
    source: String,
}

impl Default for CostTable {
    fn default() -> Self {
        DEFAULT_TABLE.clone()
    }
}

impl CostTable {
    /// Every call costs nothing, and copies take no time.
    pub fn free() -> Self {
        CostTable {
            calls: Box::new([CallCost::default(); CallKind::COUNT]),
            sources: Arc::default(),
            copy_ns_per_byte: 0.0,
            transfer_ns_per_byte: 0.0,
            fill_ns_per_byte: 0.0,
        }
    }

    /// Reads a table; calls that it leaves out cost nothing.
    ///
    /// # Errors
    /// Text of another form, unknown calls, impossible figures.
    pub fn from_json(text: &str) -> Result<Self, CostError> {
        let file: File = serde_json::from_str(text)?;
        let mut table = CostTable::free();
        let mut sources = BTreeMap::new();
        for (name, entry) in file.calls {
            let kind = CallKind::from_name(&name).ok_or_else(|| CostError::Call(name.clone()))?;
            for value in [entry.fixed_us, entry.per_handle_us, entry.per_mib_us, entry.per_live_range_us] {
                if !(0.0..=1e9).contains(&value) {
                    return Err(CostError::Value { call: name, value });
                }
            }
            table.calls[kind as usize] = CallCost {
                fixed_ns: (entry.fixed_us * 1e3) as u64,
                per_handle_ns: entry.per_handle_us * 1e3,
                per_byte_ns: entry.per_mib_us * 1e3 / f64::from(1u32 << 20),
                per_live_range_ns: entry.per_live_range_us * 1e3,
            };
            sources.insert(name, entry.source);
        }
        for (name, work) in file.work {
            if !(1e-3..=1e9).contains(&work.gb_per_s) {
                return Err(CostError::Value { call: name, value: work.gb_per_s });
            }
            match name.as_str() {
                "copy" => table.copy_ns_per_byte = 1.0 / work.gb_per_s,
                "transfer" => table.transfer_ns_per_byte = 1.0 / work.gb_per_s,
                "fill" => table.fill_ns_per_byte = 1.0 / work.gb_per_s,
                _ => return Err(CostError::Call(name)),
            }
            sources.insert(name, work.source);
        }
        table.sources = Arc::new(sources);
        Ok(table)
    }

    /// What `kind` costs.
    pub fn call(&self, kind: CallKind) -> &CallCost {
        &self.calls[kind as usize]
    }

    /// Where the figures of a call (by CUDA's name) or of `copy`, `transfer`, `fill` come from.
    pub fn source(&self, name: &str) -> Option<&str> {
        self.sources.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_crate_is_read_and_names_the_source_of_each_figure() {
        let table = CostTable::from_json(DEFAULT).unwrap();
        let listed = CallKind::ALL.into_iter().filter(|&kind| *table.call(kind) != CallCost::default());
        assert!(listed.clone().count() > 30);
        for name in listed.map(CallKind::name).chain(["copy", "transfer", "fill"]) {
            assert!(table.source(name).is_some_and(|source| source.len() > 7), "{name}");
        }
        // A page of 2 MiB through virtual memory management: create, map, set access.
        let page = |kind: CallKind| table.call(kind).fixed_ns + table.call(kind).variable_ns(1, 2 << 20, 0);
        let total: u64 = [CallKind::Create, CallKind::Map, CallKind::SetAccess].map(page).iter().sum();
        assert!((60_000..80_000).contains(&total), "{total} ns");
    }

    #[test]
    fn a_table_of_ones_own_may_leave_calls_out_but_not_invent_any() {
        let table = CostTable::from_json(
            r#"{"calls": {"cuMemMap": {"fixed_us": 1.5, "per_mib_us": 2, "source": "here"}}, "work": {}}"#,
        )
        .unwrap();
        assert_eq!(table.call(CallKind::Map).fixed_ns, 1500);
        assert_eq!(table.call(CallKind::Map).variable_ns(1, 3 << 20, 9), 6000);
        assert_eq!(table.call(CallKind::Unmap), &CallCost::default());
        let bad = |calls: &str| {
            CostTable::from_json(&format!(r#"{{"calls": {{{calls}}}, "work": {{}}}}"#)).unwrap_err().to_string()
        };
        assert!(bad(r#""cuMemMop": {"source": "x"}"#).contains("cuMemMop"));
        assert!(bad(r#""cuMemMap": {"fixed_us": -1, "source": "x"}"#).contains("cuMemMap"));
        assert!(bad(r#""cuMemMap": {"fixed_us": 1}"#).contains("source"));
    }
}
