//! Requests as JSON objects: which fields each has. The slow and exact reader, for every line that the scanner declines.

use serde_json::{Map, Value};

use super::error::Fault;
use super::op::{Launch, Op};

macro_rules! kinds {
    ($($name:ident $op:literal [$($field:literal),*];)*) => {
        /// The operations, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($name,)*
        }

        impl Kind {
            const ALL: &[Kind] = &[$(Kind::$name),*];

            pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => $op,)* }
            }

            /// The fields beside `op`.
            const fn fields(self) -> &'static [&'static str] {
                match self { $(Kind::$name => &[$($field),*],)* }
            }
        }
    };
}

kinds! {
    Alloc "alloc" ["id", "size", "stream", "pool"];
    Free "free" ["id"];
    RecordStream "record_stream" ["id", "stream"];
    Complete "complete" ["id"];
    Advance "advance" ["n"];
    Sync "sync" [];
    StreamSync "stream_sync" ["stream"];
    ForkJoin "fork_join" ["a", "b"];
    EventRecord "event_record" ["event", "stream"];
    EventWait "event_wait" ["event", "stream"];
    Work "work" ["id", "stream"];
    Launch "launch" ["stream", "us", "reads", "writes", "label"];
    EmptyCache "empty_cache" [];
    Checkpoint "checkpoint" [];
    PoolCreate "pool_create" ["pool", "use_on_oom", "no_split"];
    PoolDestroy "pool_destroy" ["pool"];
    PoolEnter "pool_enter" ["pool"];
    PoolLeave "pool_leave" ["pool"];
    SetFraction "set_fraction" ["fraction"];
    SetConf "set_conf" ["conf"];
    CaptureBegin "capture_begin" ["graph", "share", "stream"];
    CaptureEnd "capture_end" ["graph"];
    Replay "replay" ["graph"];
    GraphReset "graph_reset" ["graph"];
    Device "device" ["device"];
}

impl Kind {
    /// All names, for an error.
    pub fn names() -> String {
        Self::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }

    /// The operation whose name is at most two letters from `op`.
    pub fn nearest(op: &str) -> Option<&'static str> {
        let named = Self::ALL.iter().map(|kind| (distance(op, kind.name()), kind.name()));
        named.min().filter(|&(distance, _)| distance <= 2).map(|(_, name)| name)
    }
}

/// The edit distance of two short texts; long ones count as far apart.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 32 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// How many devices there may be, so that a file does not decide how many are simulated.
const DEVICES: u32 = 64;

/// The fields of one request, taken one by one.
struct Fields {
    kind: Kind,
    map: Map<String, Value>,
}

impl Fields {
    fn bad<T>(&self, field: &'static str, wanted: &'static str, got: &Value) -> Result<T, Fault> {
        Err(Fault::BadValue { op: self.kind.name(), field, wanted, got: got.to_string() })
    }

    fn number(&mut self, field: &'static str) -> Result<Option<u64>, Fault> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => self.bad(field, "a whole number from 0 to 2^64 − 1", &value),
            },
        }
    }

    /// A number that names a stream, pool, graph, event or device.
    fn name(&mut self, field: &'static str) -> Result<Option<u32>, Fault> {
        match self.number(field)?.map(|number| (u32::try_from(number), number)) {
            None => Ok(None),
            Some((Ok(name), _)) => Ok(Some(name)),
            Some((Err(_), number)) => self.bad(field, "a whole number below 2^32", &Value::from(number)),
        }
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, Fault> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(value) => self.bad(field, "true or false", &value),
        }
    }

    fn text(&mut self, field: &'static str) -> Result<Option<Box<str>>, Fault> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.into())),
            Some(value) => self.bad(field, "a text", &value),
        }
    }

    fn ids(&mut self, field: &'static str) -> Result<Vec<u64>, Fault> {
        const WANTED: &str = "a list of allocation ids";
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(ids)) => match ids.iter().map(Value::as_u64).collect() {
                Some(ids) => Ok(ids),
                None => self.bad(field, WANTED, &Value::Array(ids)),
            },
            Some(value) => self.bad(field, WANTED, &value),
        }
    }

    fn fraction(&mut self) -> Result<f64, Fault> {
        let value = self.map.remove("fraction");
        match value.as_ref().and_then(Value::as_f64) {
            Some(fraction) => Ok(fraction),
            None => self.need("fraction", None).or_else(|fault| match value {
                Some(value) => self.bad("fraction", "a number from 0 to 1", &value),
                None => Err(fault),
            }),
        }
    }

    fn need<T>(&self, field: &'static str, value: Option<T>) -> Result<T, Fault> {
        value.ok_or(Fault::Missing { op: self.kind.name(), field })
    }

    fn id(&mut self) -> Result<u64, Fault> {
        let id = self.number("id")?;
        self.need("id", id)
    }

    /// A name without a default.
    fn named(&mut self, field: &'static str) -> Result<u32, Fault> {
        let name = self.name(field)?;
        self.need(field, name)
    }

    /// The stream; the default one when absent.
    fn stream(&mut self) -> Result<u32, Fault> {
        Ok(self.name("stream")?.unwrap_or(0))
    }
}

/// The request of one line.
pub(super) fn parse(line: &[u8]) -> Result<Op, Fault> {
    let mut map: Map<String, Value> = serde_json::from_slice(line).map_err(Fault::Json)?;
    let op = match map.remove("op") {
        Some(Value::String(op)) => op,
        Some(other) => return Err(Fault::UnknownOp { op: other.to_string() }),
        None => return Err(Fault::Missing { op: "a request", field: "op" }),
    };
    let Some(&kind) = Kind::ALL.iter().find(|kind| kind.name() == op) else { return Err(Fault::UnknownOp { op }) };
    if let Some(field) = map.keys().find(|field| !kind.fields().contains(&field.as_str())) {
        return Err(Fault::UnknownField { op: kind.name(), field: field.clone(), allowed: kind.fields() });
    }
    let mut fields = Fields { kind, map };
    let f = &mut fields;
    Ok(match kind {
        Kind::Alloc => {
            let size = f.number("size")?;
            Op::Alloc { id: f.id()?, size: f.need("size", size)?, stream: f.stream()?, pool: f.name("pool")? }
        }
        Kind::Free => Op::Free { id: f.id()? },
        Kind::RecordStream => Op::RecordStream { id: f.id()?, stream: f.named("stream")? },
        Kind::Complete => Op::Complete { id: f.id()? },
        Kind::Advance => Op::Advance { n: f.number("n")?.unwrap_or(1) },
        Kind::Sync => Op::Sync,
        Kind::StreamSync => Op::StreamSync { stream: f.stream()? },
        Kind::ForkJoin => Op::ForkJoin { a: f.named("a")?, b: f.named("b")? },
        Kind::EventRecord => Op::EventRecord { event: f.named("event")?, stream: f.stream()? },
        Kind::EventWait => Op::EventWait { event: f.named("event")?, stream: f.stream()? },
        Kind::Work => Op::Work { id: f.id()?, stream: f.stream()? },
        Kind::Launch => Op::Launch(Box::new(Launch {
            stream: f.stream()?,
            us: f.number("us")?.unwrap_or(0),
            reads: f.ids("reads")?,
            writes: f.ids("writes")?,
            label: f.text("label")?.unwrap_or_default(),
        })),
        Kind::EmptyCache => Op::EmptyCache,
        Kind::Checkpoint => Op::Checkpoint,
        Kind::PoolCreate => {
            Op::PoolCreate { pool: f.named("pool")?, use_on_oom: f.flag("use_on_oom")?, no_split: f.flag("no_split")? }
        }
        Kind::PoolDestroy => Op::PoolDestroy { pool: f.named("pool")? },
        Kind::PoolEnter => Op::PoolEnter { pool: f.named("pool")? },
        Kind::PoolLeave => Op::PoolLeave { pool: f.named("pool")? },
        Kind::SetFraction => Op::SetFraction { fraction: f.fraction()? },
        Kind::SetConf => {
            let conf = f.text("conf")?;
            Op::SetConf { conf: f.need("conf", conf)? }
        }
        Kind::CaptureBegin => {
            let graph = f.named("graph")?;
            Op::CaptureBegin { graph, share: f.name("share")?.unwrap_or(graph), stream: f.named("stream")? }
        }
        Kind::CaptureEnd => Op::CaptureEnd { graph: f.named("graph")? },
        Kind::Replay => Op::Replay { graph: f.named("graph")? },
        Kind::GraphReset => Op::GraphReset { graph: f.named("graph")? },
        Kind::Device => match f.named("device")? {
            device if device < DEVICES => Op::Device { device },
            device => return f.bad("device", "a device's index, below 64", &Value::from(device)),
        },
    })
}
