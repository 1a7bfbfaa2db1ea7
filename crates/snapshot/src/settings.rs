//! The settings an allocator ran under, as a snapshot states them (R9.14).

use serde_json::{Map, Value};

use crate::convert::keys::Key;
use crate::model::Extra;
use crate::values::Values;

/// `allocator_settings` (R9.14). A key that the file does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `PYTORCH_CUDA_ALLOC_CONF`: the last settings string, whatever its source.
    pub conf: Option<String>,
    /// Bytes; −1 is unlimited.
    pub max_split_size: Option<i64>,
    /// A share of the limit; 0 is off.
    pub garbage_collection_threshold: Option<f64>,
    /// Whether segments are expandable.
    pub expandable_segments: Option<bool>,
    /// Threads that register pinned memory.
    pub pinned_num_register_threads: Option<i64>,
    /// Whether the lock is released around cudaMalloc.
    pub release_lock_on_cudamalloc: Option<bool>,
    /// Whether pinned memory comes from cudaHostRegister.
    pub pinned_use_cuda_host_register: Option<bool>,
    /// Whether deferred frees are reused in a capture (R5.9 of the law).
    pub graph_capture_record_stream_reuse: Option<bool>,
    /// Pinned memory: bytes up to which sizes are rounded; −1 is unlimited.
    pub max_round_threshold: Option<i64>,
    /// Pinned memory: bytes up to which blocks are cached; −1 is unlimited.
    pub max_cached_size: Option<i64>,
    /// Interval in MiB ("1", "2", … "32768") and its divisions; 0 is off. Empty when absent.
    pub roundup_power2_divisions: Vec<(u64, u64)>,
    /// Unknown keys, and known ones with a value of another kind.
    pub extra: Extra,
}

impl Settings {
    /// The settings under PyTorch's keys; an unknown key whose value is very large or deep is
    /// cut off with `…`.
    pub fn to_json(&self, values: &Values) -> Value {
        let mut map = Map::new();
        let mut put = |key: Key, value: Value| {
            map.insert(key.as_str().into(), value);
        };
        if let Some(conf) = &self.conf {
            put(Key::Conf, conf.as_str().into());
        }
        for (key, value) in self.integers() {
            if let Some(value) = value {
                put(key, value.into());
            }
        }
        if let Some(threshold) = self.garbage_collection_threshold {
            put(Key::GarbageCollectionThreshold, threshold.into());
        }
        for (key, value) in self.booleans() {
            if let Some(value) = value {
                put(key, value.into());
            }
        }
        if !self.roundup_power2_divisions.is_empty() {
            let divisions = self.roundup_power2_divisions.iter();
            let divisions = divisions.map(|(interval, count)| (interval.to_string(), (*count).into()));
            put(Key::RoundupPower2Divisions, Value::Object(divisions.collect()));
        }
        for &(key, value) in &self.extra {
            map.insert(values.key_text(key), values.to_json(value));
        }
        Value::Object(map)
    }
}
