//! `millpond export`: what other tools read says what the replay says, and `--until` means what it means there.

mod common;

use std::collections::HashMap;
use std::io::Read;
use std::process::Command;

use common::{assert_fails, file, json, ok, run};
use serde_json::Value;

/// Python's own reading of a pickle: what memory_viz and `torch.cuda._memory_viz` look at, as JSON.
const READ: &str = r#"
import json, pickle, sys
with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
states = {"active_allocated", "active_pending_free", "inactive"}
for segment in snapshot["segments"]:
    for key in ("device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream"):
        assert type(segment[key]) is int, (key, segment[key])
    assert segment["segment_type"] in ("small", "large") and type(segment["is_expandable"]) is bool
    assert len(segment["segment_pool_id"]) == 2
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at and block["state"] in states, block
        assert type(block["requested_size"]) is int and block["requested_size"] <= block["size"]
        at += block["size"]
        for frame in block["frames"]:
            assert type(frame["name"]) is str and type(frame["filename"]) is str and type(frame["line"]) is int
    assert at == segment["address"] + segment["total_size"], "blocks tile their segment"
actions = {}
for trace in snapshot["device_traces"]:
    for entry in trace:
        actions[entry["action"]] = actions.get(entry["action"], 0) + 1
        assert type(entry["size"]) is int and type(entry["stream"]) is int and type(entry["frames"]) is list
        assert type(entry["device_free" if entry["action"] == "oom" else "addr"]) is int
total = lambda key: sum(segment[key] for segment in snapshot["segments"])
print(json.dumps({
    "reserved": total("total_size"), "allocated": total("allocated_size"), "requested": total("requested_size"),
    "actions": actions, "devices": len(snapshot["device_traces"]), "settings": snapshot["allocator_settings"],
    "frames": sum(len(entry["frames"]) for trace in snapshot["device_traces"] for entry in trace),
}))
"#;

/// What Python reads in a pickle; `None` where there is no Python.
fn read(pickle: &str) -> Option<Value> {
    let Ok(output) = Command::new("python3").args(["-c", READ, pickle]).output() else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Sources with what their replay is asked: a snapshot under other settings, one that fails, a workload.
const SOURCES: [&[&str]; 3] = [
    &["examples/train.pickle", "--conf", "expandable_segments:True"],
    &["examples/oom.pickle", "--conf", "max_split_size_mb:20"],
    &["examples/pinned.req.jsonl", "--conf", "", "--capacity", "1200MiB"],
];

fn replayed(source: &[&str], more: &[&str]) -> Value {
    json(&run(&[&["replay", "--json"][..], source, more].concat()))
}

fn exported(source: &[&str], more: &[&str], format: &str) -> String {
    ok(&[&["export", "--to", format][..], source, more].concat())
}

#[test]
fn a_pickle_has_what_pytorchs_viewer_reads() {
    let (folder, _) = file("unused", b"");
    for source in SOURCES {
        let path = folder.path().join("out.pickle").display().to_string();
        exported(source, &["-o", &path], "pickle");
        let Some(read) = read(&path) else { return };
        let replay = replayed(source, &[]);
        assert_eq!(read["reserved"], replay["final_reserved"], "{source:?}");
        assert_eq!(read["allocated"], replay["final_allocated"], "{source:?}");
        assert_eq!(read["actions"]["oom"].as_u64().unwrap_or(0), number(&replay["ooms"]), "{source:?}");
        assert_eq!(read["settings"]["PYTORCH_CUDA_ALLOC_CONF"], source[2], "{source:?}");
        assert!(number(&read["actions"]["alloc"]) > 0 && number(&read["devices"]) == 1, "{read}");
        // Requests of a workload have no stacks.
        assert_eq!(number(&read["frames"]) > 0, source[0].ends_with(".pickle"), "{source:?}");
        // And what was exported is a recording as good as any.
        let again = json(&run(&["replay", &path, "--json"]));
        assert_eq!(again["trust"]["decisions"], again["trust"]["reproduced"], "{source:?}");
        assert_eq!(again["peak_reserved"], replay["peak_reserved"], "{source:?}");
    }
}

#[test]
fn a_perfetto_trace_counts_what_the_replay_counts() {
    for source in SOURCES {
        let trace: Value = serde_json::from_str(&exported(source, &[], "perfetto")).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let replay = replayed(source, &[]);
        let counters = |name: &str, sum: fn(&Value) -> u64| {
            let of = events.iter().filter(|event| event["ph"] == "C" && event["name"] == name);
            let values: Vec<(u64, u64)> = of.map(|event| (number(&event["ts"]), sum(&event["args"]))).collect();
            assert!(values.is_sorted_by_key(|&(at, _)| at), "{source:?}: {name} goes back in time");
            let peak = values.iter().map(|&(_, value)| value).max().expect("a counter");
            (peak, values.last().expect("a counter").1)
        };
        let reserved = counters("reserved", |args| number(&args["bytes"]));
        let allocated = counters("in use", |args| number(&args["allocated"]));
        let active = counters("in use", |args| number(&args["allocated"]) + number(&args["waiting"]));
        let figure = |name: &str| number(&replay[name]);
        assert_eq!(reserved, (figure("peak_reserved"), figure("final_reserved")), "{source:?}");
        assert_eq!(allocated, (figure("peak_allocated"), figure("final_allocated")), "{source:?}");
        assert_eq!(active.0, figure("peak_active"), "{source:?}");
        let marks = events.iter().filter(|event| event["ph"] == "i" && event["name"] == "oom").count() as u64;
        assert_eq!(marks, figure("ooms"), "{source:?}");
        // Every life that begins ends, and not before.
        let mut open: HashMap<String, u64> = HashMap::new();
        for event in events {
            let id = || event["id2"]["local"].as_str().expect("an id").to_owned();
            match event["ph"].as_str() {
                Some("b") => assert!(open.insert(id(), number(&event["ts"])).is_none(), "{event}"),
                Some("e") => assert!(open.remove(&id()) <= Some(number(&event["ts"])), "{event}"),
                _ => {}
            }
        }
        assert!(open.is_empty(), "{source:?}: {open:?}");
    }
}

/// The lines of a table, column by name.
fn rows(csv: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a line of names").split(',').collect();
    lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn every_row_of_a_table_follows_from_the_one_before() {
    for source in SOURCES {
        let csv = exported(source, &[], "csv");
        let rows = rows(&csv);
        let lines = exported(source, &[], "jsonl");
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), objects.len(), "{source:?}");
        // What was there before the first event is seen from it.
        let is_fresh = source[0].ends_with("jsonl");
        let (mut requested, mut reserved) = (0i128, 0i128);
        let mut sizes: HashMap<i128, i128> = HashMap::new();
        for (index, (row, object)) in rows.iter().zip(&objects).enumerate() {
            let figure = |name: &str| row[name].parse::<i128>().expect("a number");
            for name in ["event", "at", "address", "size", "stream", "allocated", "active", "requested", "reserved"] {
                assert_eq!(Some(figure(name)), object[name].as_u64().map(i128::from), "{source:?} {index}: {name}");
            }
            assert_eq!(row["action"], object["action"], "{source:?} {index}");
            let size = figure("size");
            match row["action"] {
                "alloc" => {
                    requested += size;
                    sizes.insert(figure("address"), size);
                }
                "free_completed" => requested -= sizes.remove(&figure("address")).unwrap_or(size),
                "segment_alloc" | "segment_map" => reserved += size,
                "segment_free" | "segment_unmap" => reserved -= size,
                _ => {}
            }
            if index == 0 && !is_fresh {
                (requested, reserved) = (figure("requested"), figure("reserved"));
            }
            assert_eq!((requested, reserved), (figure("requested"), figure("reserved")), "{source:?}: row {index}");
            assert!(figure("allocated") <= figure("active") && figure("requested") <= figure("active"));
            assert!(figure("active") <= figure("reserved"), "{source:?}: row {index}");
        }
        let replay = replayed(source, &[]);
        let most = |name: &str| rows.iter().filter_map(|row| row[name].parse::<u64>().ok()).max().expect("rows");
        for name in ["allocated", "active", "requested", "reserved"] {
            assert_eq!(most(name), number(&replay[&format!("peak_{name}")]), "{source:?}: {name}");
        }
    }
}

#[test]
fn until_means_what_it_means_in_a_replay() {
    let (folder, _) = file("unused", b"");
    for source in SOURCES {
        let whole = exported(source, &[], "csv");
        let last = rows(&whole).last().expect("a row")["at"].parse::<u64>().expect("a number");
        for until in [0, last / 3, last / 2, last - 1, last, last + 7] {
            let until_text = until.to_string();
            let more = ["--until", until_text.as_str()];
            let part = exported(source, &more, "csv");
            let is_within = |line: &&str| {
                let at = line.split(',').nth(3).expect("a cell");
                at.parse::<u64>().is_ok_and(|at| at <= until)
            };
            let expected: Vec<&str> = whole.lines().skip(1).filter(is_within).collect();
            assert_eq!(part.lines().skip(1).collect::<Vec<_>>(), expected, "{source:?} until {until}");
            let path = folder.path().join("part.pickle").display().to_string();
            exported(source, &[&more[..], &["-o", &path]].concat(), "pickle");
            let replay = replayed(source, &more);
            let state = &json(&run(&["stats", &path, "--json"]))["devices"][0];
            let (reserved, allocated) = (&replay["final_reserved"], &replay["final_allocated"]);
            let held = |name: &str| state[name].as_u64().unwrap_or(0);
            assert_eq!(
                (held("reserved"), held("allocated")),
                (number(reserved), number(allocated)),
                "{source:?} {until}"
            );
        }
    }
}

#[test]
fn a_page_until_before_the_error_has_no_verdict() {
    let (folder, _) = file("unused", b"");
    let header = |more: &[&str]| {
        let path = folder.path().join("page.mpv").display().to_string();
        ok(&[&["view", "examples/oom.pickle", "-o", &path][..], more].concat());
        let bytes = std::fs::read(&path).expect("columns");
        let packed = bytes.strip_prefix(b"MPVIEW1\n").expect("a page's columns");
        let mut columns = Vec::new();
        flate2::read::ZlibDecoder::new(packed).read_to_end(&mut columns).expect("zlib");
        let length = u32::from_le_bytes(columns[..4].try_into().expect("four bytes")) as usize;
        let header: Value = serde_json::from_slice(&columns[4..4 + length]).expect("a header");
        header["panels"][0].clone()
    };
    let (whole, part) = (header(&[]), header(&["--until", "100"]));
    assert!(whole["verdict"].is_object() && part["verdict"].is_null(), "{}", part["verdict"]);
    assert_eq!((number(&whole["events"]["at"]["count"]), number(&part["events"]["at"]["count"])), (273, 101));
}

#[test]
fn one_run_of_a_device_makes_a_snapshot() {
    let two = ["export", "examples/oom.pickle", "--to", "pickle", "--conf", "", "--conf", "expandable_segments:True"];
    assert_fails(&run(&two), "MP0001", "one run of a device");
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_is_whole() {
    let (folder, _) = file("unused", b"");
    let path = folder.path().join("out.parquet").display().to_string();
    ok(&["export", "examples/oom.pickle", "--to", "parquet", "-o", &path]);
    let bytes = std::fs::read(&path).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}
