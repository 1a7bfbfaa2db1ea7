//! The lines of an outcome file.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

/// The first line.
#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    /// The settings.
    #[serde(default)]
    pub config: String,
    /// The device's memory, with K, M or G.
    pub capacity: String,
    /// `immediate` or `manual`.
    pub events: String,
    /// The lowest address.
    pub va_base: u64,
    /// Memory that others use.
    #[serde(default)]
    pub used_outside: Option<String>,
    /// The size of the address space.
    #[serde(default)]
    pub va_size: Option<String>,
    /// Says which trace events the file holds, where it does not hold all.
    #[serde(default)]
    pub trace_lines: Option<String>,
}

/// Any other line: one of several things, told apart by which fields are there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub i: u64,
    pub id: u64,
    pub seg: Option<u64>,
    pub off: u64,
    pub va: u64,
    pub oom: Option<String>,
    pub error: Option<String>,
    pub stats: Option<BTreeMap<String, i64>>,
    pub final_stats: Option<BTreeMap<String, i64>>,
    pub segment: Option<Segment>,
    pub t: Option<Traced>,
    pub d: Option<Called>,
}

/// A final segment: a driver allocation, or a run of mapped pages of an expandable one. Bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Segment {
    pub seg: u64,
    pub off: u64,
    pub va: u64,
    pub size: u64,
    pub alloc: u64,
    pub active: u64,
    pub req: u64,
    pub stream: u64,
    #[serde(rename = "type")]
    pub class: String,
    pub pool: (u64, u64),
    pub exp: bool,
    pub blocks: Vec<Block>,
}

/// [offset, size, requested, state]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Block(pub u64, pub u64, pub u64, pub String);

/// A trace event of PyTorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Traced {
    pub request: u64,
    pub action: String,
    /// Minus the lowest address; 0 for an out-of-memory event.
    pub addr: u64,
    pub size: u64,
    pub stream: u64,
    pub pool: (u64, u64),
    pub device_free: Option<u64>,
}

/// A driver call of the allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Called {
    pub request: u64,
    pub call: String,
    /// Minus the lowest address.
    pub addr: u64,
    pub size: u64,
    /// The runtime's code; 2 is out of memory.
    pub error: Option<i32>,
}

/// What may stand at the end of a trace line.
#[derive(Deserialize)]
#[serde(untagged)]
enum Extra {
    Pool((u64, u64)),
    Free { device_free: u64 },
}

impl<'de> Deserialize<'de> for Traced {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Traced;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[request, action, address, size, stream, pool?, {device_free}?]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Traced, A::Error> {
                let mut traced = Traced {
                    request: next(&mut seq, 0)?,
                    action: next(&mut seq, 1)?,
                    addr: next(&mut seq, 2)?,
                    size: next(&mut seq, 3)?,
                    stream: next(&mut seq, 4)?,
                    pool: (0, 0),
                    device_free: None,
                };
                while let Some(extra) = seq.next_element()? {
                    match extra {
                        Extra::Pool(pool) => traced.pool = pool,
                        Extra::Free { device_free } => traced.device_free = Some(device_free),
                    }
                }
                Ok(traced)
            }
        }
        deserializer.deserialize_seq(Fields)
    }
}

impl<'de> Deserialize<'de> for Called {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Called;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[request, call, address, size, error?]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Called, A::Error> {
                Ok(Called {
                    request: next(&mut seq, 0)?,
                    call: next(&mut seq, 1)?,
                    addr: next(&mut seq, 2)?,
                    size: next(&mut seq, 3)?,
                    error: seq.next_element()?,
                })
            }
        }
        deserializer.deserialize_seq(Fields)
    }
}

fn next<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(seq: &mut A, index: usize) -> Result<T, A::Error> {
    seq.next_element()?.ok_or_else(|| A::Error::invalid_length(index, &"more elements"))
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traced { action, addr, size, stream, pool, device_free, .. } = self;
        write!(f, "{action} {size} at {addr}, stream {stream}, pool {pool:?}")?;
        device_free.map_or(Ok(()), |free| write!(f, ", device_free {free}"))
    }
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Called { call, addr, size, error, .. } = self;
        write!(f, "{call} {size} at {addr}")?;
        error.map_or(Ok(()), |error| write!(f, ", error {error}"))
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segment { seg, off, va, size, alloc, active, req, stream, class, pool, exp, blocks } = self;
        write!(
            f,
            "segment {seg}+{off} at {va}: {size} bytes, {alloc} allocated, {active} active, {req} requested, \
             stream {stream}, {class}, pool {pool:?}, expandable {exp}, {} blocks",
            blocks.len()
        )
    }
}
