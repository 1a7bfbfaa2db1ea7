//! What the allocator writes, read by Python: one snapshot for every golden recording, at the recording's last request.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use millpond::HistoryOptions;
use millpond_replay::parity::{Recording, find};
use millpond_replay::{Machine, Runner};
use millpond_snapshot::{Action, Segment, Snapshot, TraceEntry};
use serde_json::{Map, Value, json};

/// Loads each file named and prints it as a line of JSON. Stops at an opcode that PyTorch's viewer does not take (R9.26).
const PRINT: &str = r#"
import json, pickle, pickletools, sys

OPCODES = set("""PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST
    DICT APPEND APPENDS SETITEM SETITEMS BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE
    BYTEARRAY8""".split())

for name in sys.argv[1:]:
    data = open(name, "rb").read()
    unknown = {op.name for op, _, _ in pickletools.genops(data)} - OPCODES
    if unknown:
        sys.exit(f"{name}: opcodes the viewer does not take: {unknown}")
    print(json.dumps(pickle.loads(data)))
"#;

/// The files as Python sees them; nothing, with a note, where there is no Python.
fn python(files: &[impl AsRef<Path>]) -> Option<Vec<Value>> {
    let mut command = Command::new("python3");
    command.arg("-c").arg(PRINT).args(files.iter().map(AsRef::as_ref)).stdin(Stdio::null());
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn frames(snapshot: &Snapshot, stack: millpond_snapshot::StackId) -> Value {
    let frames = snapshot.stacks.frames(stack);
    frames.map(|frame| json!({"name": &*frame.name, "filename": &*frame.filename, "line": frame.line})).collect()
}

fn segment(snapshot: &Snapshot, segment: &Segment) -> Value {
    let blocks = segment.blocks.iter().map(|block| {
        json!({
            "address": block.address,
            "size": block.size,
            "requested_size": block.requested_size,
            "state": block.state.as_str(),
            "frames": frames(snapshot, block.stack),
        })
    });
    json!({
        "device": segment.device,
        "address": segment.address,
        "total_size": segment.total_size,
        "allocated_size": segment.allocated_size,
        "active_size": segment.active_size,
        "requested_size": segment.requested_size,
        "stream": segment.stream,
        "segment_type": segment.segment_type.as_str(),
        "segment_pool_id": segment.pool.unwrap().pair(),
        "is_expandable": segment.is_expandable,
        "frames": frames(snapshot, segment.stack),
        "blocks": blocks.collect::<Value>(),
    })
}

fn entry(snapshot: &Snapshot, entry: &TraceEntry) -> Value {
    let mut object = Map::new();
    object.insert("action".into(), entry.action.as_str().into());
    object.insert(if entry.action == Action::Oom { "device_free" } else { "addr" }.into(), entry.addr.into());
    object.insert("size".into(), entry.size.into());
    object.insert("stream".into(), entry.stream.into());
    object.insert("time_us".into(), entry.time_us.unwrap().get().into());
    object.insert("pool_id".into(), json!(entry.pool.unwrap().pair()));
    if let Some(stack) = entry.stack {
        object.insert("frames".into(), frames(snapshot, stack));
    }
    let notes = snapshot.notes.get(entry.notes);
    for (key, text) in [("compile_context", &notes.compile_context), ("user_metadata", &notes.user_metadata)] {
        if let Some(text) = text {
            object.insert(key.into(), (&**text).into());
        }
    }
    object.into()
}

/// The model in the keys of R9.4–R9.14, put together without the writer.
fn model(snapshot: &Snapshot) -> Value {
    let traces = snapshot.device_traces.iter();
    json!({
        "segments": snapshot.segments.iter().map(|it| segment(snapshot, it)).collect::<Value>(),
        "device_traces": traces.map(|trace| trace.iter().map(|it| entry(snapshot, it)).collect::<Value>()).collect::<Value>(),
        "allocator_settings": snapshot.settings.to_json(&snapshot.values),
        "external_annotations": [],
        "host_segments": snapshot.host_segments.iter().map(|it| segment(snapshot, it)).collect::<Value>(),
        "host_traces": snapshot.host_traces.iter().map(|it| entry(snapshot, it)).collect::<Value>(),
    })
}

#[test]
fn r9_26_python_reads_the_snapshot_of_every_golden_recording() {
    let Some(golden) = common::shared("golden") else { return };
    let cases = find(&[golden]).unwrap();
    assert_eq!(cases.len(), 71);
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut models = Vec::new();
    let mut entries = 0;
    for case in &cases {
        let recording = Recording::open(case).unwrap();
        let machine = Machine::new(&recording.setup().unwrap()).unwrap();
        machine.allocator().record_history(Some(HistoryOptions::default()));
        let mut runner = Runner::new(&machine);
        for op in &recording.workload.ops {
            runner.step(op).unwrap();
        }
        let snapshot = machine.allocator().snapshot(None, true);
        entries += snapshot.device_traces.iter().map(Vec::len).sum::<usize>();
        let file = folder.path().join(format!("{}.pickle", files.len()));
        snapshot.write_pickle(std::fs::File::create(&file).unwrap()).unwrap();
        assert_eq!(Snapshot::open(&file).unwrap(), snapshot, "{}", case.outcome.display());
        models.push(model(&snapshot));
        files.push(file);
    }
    assert!(entries > 100_000, "only {entries} entries of traces were written");
    let Some(read) = python(&files) else { return };
    assert_eq!(read.len(), models.len());
    for ((case, read), model) in cases.iter().zip(&read).zip(&models) {
        assert!(read == model, "{}: {}", case.outcome.display(), first_difference(read, model, "snapshot"));
    }
}

/// Where two values differ first, for the message of a failure.
fn first_difference(read: &Value, model: &Value, path: &str) -> String {
    match (read, model) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys());
            let key = keys.into_iter().find(|key| a.get(*key) != b.get(*key)).unwrap();
            let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
            first_difference(a, b, &format!("{path}.{key}"))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let index = (0..a.len()).find(|&i| a[i] != b[i]).unwrap();
            first_difference(&a[index], &b[index], &format!("{path}[{index}]"))
        }
        _ => format!("{path} is {read}, in the model {model}"),
    }
}
