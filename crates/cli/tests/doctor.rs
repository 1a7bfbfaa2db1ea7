//! `millpond doctor`: real cases from the public record end to end, and what is asked of every report.

mod common;

use std::fmt::Write;
use std::io::Read;

use common::{assert_fails, file, json, ok, root, run};
use serde_json::{Value, json};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Requests, as a workload has them.
#[derive(Default)]
struct Script(String);

impl Script {
    fn alloc(mut self, id: u64, bytes: u64) -> Self {
        let _ = writeln!(self.0, "{{\"op\":\"alloc\",\"id\":{id},\"size\":{bytes},\"stream\":0}}");
        self
    }

    fn free(mut self, id: u64) -> Self {
        let _ = writeln!(self.0, "{{\"op\":\"free\",\"id\":{id}}}");
        self
    }

    fn op(mut self, line: &str) -> Self {
        self.0 += line;
        self.0 += "\n";
        self
    }

    /// The snapshot that a program with these requests writes.
    fn snapshot(&self, options: &[&str]) -> Snapshot {
        let (folder, requests) = file("case.req.jsonl", self.0.as_bytes());
        let path = folder.path().join("case.pickle").display().to_string();
        let command = ["export", &requests, "--to", "pickle", "-o", &path];
        ok(&command.iter().chain(options).copied().collect::<Vec<_>>());
        Snapshot { _folder: folder, path }
    }
}

/// A snapshot in a folder of its own.
struct Snapshot {
    _folder: TempDir,
    path: String,
}

impl Snapshot {
    /// The report without its line breaks.
    fn text(&self) -> String {
        flat(&ok(&["doctor", &self.path]))
    }

    /// What `--json` says of its one device.
    fn diagnosis(&self, options: &[&str]) -> Value {
        let command = ["doctor", &self.path, "--json"];
        let answer = json(&run(&command.iter().chain(options).copied().collect::<Vec<_>>()));
        let devices = answer["devices"].as_array().expect("devices");
        assert_eq!(devices.len(), 1);
        check(&devices[0]);
        devices[0].clone()
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every byte once: live blocks, pending ones and the causes are what is reserved.
fn check(device: &Value) {
    let account = &device["account"];
    let bytes = |value: &Value| value.as_u64().expect("bytes");
    let causes: u64 = account["causes"].as_array().expect("causes").iter().map(|cause| bytes(&cause["bytes"])).sum();
    let held = bytes(&account["allocated"]) + bytes(&account["pending"]) + causes;
    assert_eq!(held, bytes(&account["reserved"]), "{account}");
    assert!(bytes(&account["rounding"]) <= bytes(&account["allocated"]), "{account}");
}

/// The bytes under a cause, and 0 without it.
fn cause(device: &Value, kind: &str) -> u64 {
    let causes = device["account"]["causes"].as_array().unwrap();
    causes.iter().find(|cause| cause["kind"] == kind).map_or(0, |cause| cause["bytes"].as_u64().unwrap())
}

fn verdict(device: &Value) -> (&str, &str) {
    (device["verdict"]["kind"].as_str().unwrap(), device["verdict"]["cause"].as_str().unwrap())
}

/// The settings that are advised.
fn fixes(device: &Value) -> Vec<&str> {
    let fixes = device["fixes"].as_array().unwrap();
    fixes.iter().filter(|fix| fix["fits"] == true).map(|fix| fix["conf"].as_str().unwrap()).collect()
}

/// That the best fix survives, run as the report says.
fn assert_the_fix_fits(snapshot: &str, device: &Value) {
    let Some(best) = fixes(device).first().copied() else { return };
    let index = device["device"].to_string();
    let fits = ["replay", snapshot, "--conf", best, "--device-index", &index, "--assert", "ooms == 0"];
    let mut fits = fits.to_vec();
    let (capacity, others) = (device["treatment"]["capacity"].to_string(), device["treatment"]["others"].to_string());
    assert_eq!(run(&[&fits[..], &["--capacity", &capacity, "--others", &others]].concat()).status, 0, "{best}");
    // Without a capacity it is that of the error.
    if device["moment"]["when"] == "oom" && others == "0" {
        assert_eq!(run(&fits).status, 0, "{best}");
        fits.extend(["--capacity", "2MiB"]);
        assert_ne!(run(&fits).status, 0, "a device of nothing cannot be enough");
    }
}

fn c01() -> Script {
    let mut script = Script::default().alloc(0, 11_643_387_904).free(0);
    for id in 1..=30 {
        script = script.alloc(id, 16_515_072);
    }
    script.alloc(31, 11_643_387_904)
}

#[test]
fn c01_small_blocks_pin_the_segment_that_the_large_one_left() {
    let snapshot = c01().snapshot(&["--capacity", "16GiB"]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(verdict(&device), ("fragmentation", "pinned"));
    assert_eq!(device["account"]["reserved"], 11_104 * MIB);
    assert_eq!(device["account"]["allocated"], 945 * MIB / 2);
    assert_eq!(cause(&device, "pinned"), 21_263 * MIB / 2);
    let named = device["account"]["causes"][0]["blocks"].as_array().unwrap();
    assert_eq!((named.len(), &named[0]["size"]), (30, &json!(16_515_072)));
    let fixes = fixes(&device);
    assert!(fixes.contains(&"max_split_size_mb:512") && fixes.contains(&"expandable_segments:True"), "{fixes:?}");
    assert_the_fix_fits(&snapshot.path, &device);
}

#[test]
fn c01_under_a_fix_nothing_fails() {
    for conf in ["max_split_size_mb:512", "expandable_segments:True"] {
        let device = c01().snapshot(&["--capacity", "16GiB", "--conf", conf]).diagnosis(&[]);
        assert_eq!(verdict(&device), ("none", "none"), "{conf}");
    }
}

#[test]
fn c03_segments_of_another_size_are_not_joined() {
    let mut script = Script::default();
    for id in 0..8 {
        script = script.alloc(id, 16 * MIB);
    }
    for id in 0..8 {
        script = script.free(id);
    }
    for id in 8..12 {
        script = script.alloc(id, 32 * MIB);
    }
    let device = script.snapshot(&[]).diagnosis(&[]);
    assert_eq!(verdict(&device), ("none", "none"));
    assert_eq!(device["account"]["reserved"], 256 * MIB);
    assert_eq!(cause(&device, "other_segments"), 128 * MIB);
    // Expandable segments need 140 MiB, whole pages: more than the default, which clears its cache on a device of 128.
    assert!(!fixes(&device).iter().any(|conf| conf.contains("expandable")), "{:?}", fixes(&device));
}

#[test]
fn c05_every_earlier_size_stays_cached() {
    let mut script = Script::default();
    for id in 1..=10 {
        script = script.alloc(id, id * 100 * MIB).free(id);
    }
    let snapshot = script.snapshot(&["--capacity", "100GiB"]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(verdict(&device), ("none", "none"));
    assert_eq!(device["account"]["reserved"], 5500 * MIB);
    assert_eq!(cause(&device, "other_segments"), 4500 * MIB);
    assert_eq!(device["end"]["returnable"], 5500 * MIB);
    assert!(snapshot.text().contains("cached and returnable"), "{}", snapshot.text());
    // On a small device the cache is cleared, and that is no failure.
    let device = script.snapshot(&["--capacity", "4096MiB"]).diagnosis(&[]);
    assert_eq!(verdict(&device), ("none", "none"));
    assert_eq!(device["account"]["reserved"], 3600 * MIB);
}

#[test]
fn c07_small_and_large_blocks_share_nothing() {
    let script = Script::default().alloc(0, 2 * MIB).alloc(1, MIB / 2);
    let device = script.snapshot(&["--capacity", "20MiB"]).diagnosis(&[]);
    assert_eq!(verdict(&device), ("fragmentation", "other_pool"));
    assert_eq!(cause(&device, "other_size"), 18 * MIB);
    assert_eq!(device["moment"]["pool"]["class"], "small");
}

#[test]
fn c09_a_pool_that_grows_in_pieces_cannot_hand_out_the_last_ones() {
    let mut script = Script::default();
    for id in 0..8 {
        script = script.alloc(id, 8 * MIB);
    }
    let snapshot = script.snapshot(&["--capacity", "64MiB"]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(verdict(&device), ("fragmentation", "other_segments"));
    assert_eq!(cause(&device, "other_segments"), 12 * MIB);
    assert_eq!(device["verdict"]["largest_free"], 4 * MIB);
    // Pages of 20 MiB serve the seventh; the eighth failed as well, and what would have become of it nobody knows.
    assert!(fixes(&device).contains(&"expandable_segments:True"), "{:?}", fixes(&device));
    assert_the_fix_fits(&snapshot.path, &device);
    let device = script.snapshot(&["--capacity", "64MiB", "--conf", "expandable_segments:True"]).diagnosis(&[]);
    assert_eq!(verdict(&device), ("fragmentation", "other_segments"));
    let device = script.snapshot(&["--capacity", "80MiB"]).diagnosis(&[]);
    assert_eq!(verdict(&device), ("none", "none"));
}

fn c67() -> Script {
    let mut script = Script::default().alloc(0, 1100 * MIB).free(0);
    for row in 1..=11 {
        script = script.alloc(2 * row - 1, 2 * MIB).alloc(2 * row, 98 * MIB);
    }
    for row in 1..=11 {
        script = script.free(2 * row);
    }
    script.alloc(99, 300 * MIB)
}

#[test]
fn c67_the_largest_free_block_decides_and_what_would_join_them_is_named() {
    let snapshot = c67().snapshot(&["--capacity", "1200MiB"]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(verdict(&device), ("fragmentation", "pinned"));
    assert_eq!(cause(&device, "pinned"), 1078 * MIB);
    assert_eq!(device["verdict"]["largest_free"], 98 * MIB);
    // Two of the blocks between make 298 MiB, so three have to go.
    assert_eq!(device["verdict"]["relief"]["count"], 3);
    assert_eq!(device["verdict"]["relief"]["bytes"], 6 * MIB);
    assert!(fixes(&device).contains(&"expandable_segments:True"), "{:?}", fixes(&device));
    assert_the_fix_fits(&snapshot.path, &device);
    let text = snapshot.text();
    assert!(text.contains("3 blocks, together of 6MiB"), "{text}");
}

#[test]
fn c39_what_is_on_is_not_advised() {
    let script = Script::default().alloc(0, 200 * MIB);
    let snapshot = script.snapshot(&["--capacity", "100MiB", "--conf", "expandable_segments:True"]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(verdict(&device), ("true_shortage", "none"));
    assert_eq!(fixes(&device), [""; 0]);
    assert!(!snapshot.text().contains("export PYTORCH_CUDA_ALLOC_CONF"), "{}", snapshot.text());
    // The other way round: a failure that another setting would have spared, under one that is on.
    let snapshot = c01().snapshot(&["--capacity", "16GiB", "--conf", "roundup_power2_divisions:16"]);
    let device = snapshot.diagnosis(&[]);
    for conf in fixes(&device) {
        assert_ne!(conf, "roundup_power2_divisions:16");
    }
    assert!(!fixes(&device).is_empty());
    assert_the_fix_fits(&snapshot.path, &device);
}

#[test]
fn c63_a_limit_is_named_as_the_cause() {
    let script =
        Script::default().op("{\"op\":\"set_fraction\",\"fraction\":0.5}").alloc(0, 39 << 30).alloc(1, 2 << 30);
    let snapshot = script.snapshot(&["--capacity", "80GiB"]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(device["account"]["device_free"], 41u64 << 30);
    assert_eq!(device["account"]["reserved"], 39u64 << 30);
    assert_eq!(device["verdict"]["behind"], "limit");
    assert!(snapshot.text().contains("The cause is a limit"), "{}", snapshot.text());
    // Who knows the limit hears its size.
    let known = ["--conf", "per_process_memory_fraction:0.5", "--capacity", "80GiB"];
    let device = snapshot.diagnosis(&known);
    assert_eq!(device["verdict"]["behind"], "limit");
    assert_eq!(device["verdict"]["room"]["limit"]["stated"]["bytes"], 40u64 << 30);
    assert_eq!(fixes(&device), ["per_process_memory_fraction:1.0"]);
    let text = flat(&ok(&[&["doctor", &snapshot.path][..], &known].concat()));
    assert!(text.contains("limit of 40GiB") && text.contains("41GiB free"), "{text}");
}

#[test]
fn c73_numbers_of_nine_bytes_are_exact() {
    let address = 0xFFFF_8000_0000_0000u64;
    let snapshot = json!({
        "segments": [segment(address, address)],
        "device_traces": [[
            { "action": "segment_alloc", "addr": address, "size": 20 * MIB, "stream": address },
            { "action": "alloc", "addr": address, "size": 2 * MIB, "stream": address },
        ]],
        "allocator_settings": { "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1 },
    });
    let (folder, path) = file("nine.pickle", &pickle(&snapshot));
    let nine = Snapshot { _folder: folder, path: path.clone() };
    let device = nine.diagnosis(&[]);
    assert_eq!(device["moment"]["pool"]["stream"], address);
    assert_eq!(device["account"]["reserved"], 20 * MIB);
    assert_eq!(device["account"]["allocated"], 2 * MIB);
    // More than 64 bits are an error that says so.
    let mut bytes = pickle(&snapshot);
    let at = bytes.windows(2).position(|pair| pair == [0x8a, 9]).expect("a number of nine bytes");
    bytes[at + 10] = 1;
    std::fs::write(&path, bytes).unwrap();
    let answer = run(&["doctor", &path]);
    assert_eq!((answer.status, answer.stdout.as_str()), (2, ""), "{}", answer.stderr);
    assert!(answer.stderr.starts_with("error[MP"), "{}", answer.stderr);
}

#[test]
fn c75_the_form_of_2023_is_read() {
    // A bare list; blocks without addresses, with a history in place of frames; no pool ids.
    let history = json!([{ "addr": 0x7000_0000_0000u64, "real_size": 2 * MIB, "frames": [
        { "filename": "train.py", "line": 7, "name": "forward" }
    ] }]);
    let snapshot = json!([{
        "device": 0, "address": 0x7000_0000_0000u64, "total_size": 20 * MIB, "allocated_size": 2 * MIB,
        "active_size": 2 * MIB, "stream": 0, "segment_type": "large",
        "blocks": [
            { "size": 4 * MIB, "state": "inactive" },
            { "size": 2 * MIB, "requested_size": 2 * MIB - 512, "state": "active_allocated", "history": history },
            { "size": 14 * MIB, "state": "inactive" },
        ],
    }]);
    let (folder, path) = file("old.pickle", &pickle(&snapshot));
    let snapshot = Snapshot { _folder: folder, path };
    let device = snapshot.diagnosis(&[]);
    assert_eq!(verdict(&device), ("none", "none"));
    assert_eq!(cause(&device, "pinned"), 18 * MIB);
    assert_eq!(device["account"]["rounding"], 512);
    let pinning = &device["account"]["causes"][0]["blocks"][0];
    assert_eq!(pinning["address"], 0x7000_0000_0000u64 + 4 * MIB);
    assert_eq!(pinning["stack"], json!(["train.py:7 forward"]));
    // Without a trace nothing is advised, and it is said how to record one.
    assert!(snapshot.text().contains("torch.cuda.memory._record_memory_history("), "{}", snapshot.text());
    assert_eq!(device["fixes"], json!([]));
    assert_eq!(device["trust"]["decisions"], 0);
}

#[test]
fn c83_what_is_cached_is_no_leak() {
    let script = Script::default().alloc(0, 4_000_000).free(0).alloc(1, 4_000_000).free(1);
    let snapshot = script.snapshot(&[]);
    let device = snapshot.diagnosis(&[]);
    assert_eq!(device["end"], json!({ "reserved": 20 * MIB, "allocated": 0, "returnable": 20 * MIB }));
    let text = snapshot.text();
    assert!(text.contains("cached and returnable") && text.contains("no leak"), "{text}");
    let emptied = Script(script.0).op("{\"op\":\"empty_cache\"}").snapshot(&[]).diagnosis(&[]);
    assert_eq!(emptied["end"]["reserved"], 0);
}

#[test]
fn c85_who_has_only_the_text_of_an_error_hears_what_to_record() {
    let (_folder, path) = file("log.txt", b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n");
    let answer = run(&["doctor", &path]);
    assert_fails(&answer, "MP0011", "neither a snapshot nor a workload");
    for word in ["_record_memory_history", "_dump_snapshot", "reserved", "free"] {
        assert!(answer.stderr.contains(word), "{}", answer.stderr);
    }
}

#[test]
fn a_page_has_the_verdict_and_the_place() {
    let (folder, _) = file("unused", b"");
    let page = folder.path().join("page.mpv").display().to_string();
    ok(&["view", "examples/pinned.pickle", "-o", &page]);
    let bytes = std::fs::read(&page).unwrap();
    let packed = bytes.strip_prefix(b"MPVIEW1\n").expect("a page's columns");
    let mut columns = Vec::new();
    flate2::read::ZlibDecoder::new(packed).read_to_end(&mut columns).unwrap();
    let text = String::from_utf8_lossy(&columns);
    let device = &json(&run(&["doctor", "examples/pinned.pickle", "--json"]))["devices"][0];
    assert!(text.contains("free bytes are pinned inside segments"), "no title");
    assert!(text.contains(&format!("\"verdict\":{{\"at\":{}", device["moment"]["entry"])), "no place");
    assert!(text.contains("would have to go"), "no marks");
}

/// A segment of 20 MiB with a live block of 2 MiB.
fn segment(address: u64, stream: u64) -> Value {
    json!({
        "device": 0, "address": address, "total_size": 20 * MIB, "allocated_size": 2 * MIB, "active_size": 2 * MIB,
        "requested_size": 2 * MIB, "stream": stream, "segment_type": "large", "segment_pool_id": [0, 0],
        "is_expandable": false,
        "blocks": [
            { "address": address, "size": 2 * MIB, "requested_size": 2 * MIB, "state": "active_allocated", "frames": [] },
            { "address": address.wrapping_add(2 * MIB), "size": 18 * MIB, "requested_size": 0, "state": "inactive", "frames": [] },
        ],
    })
}

/// A value as a pickle of protocol 2, as Python writes it.
fn pickle(value: &Value) -> Vec<u8> {
    fn put(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Null => out.push(b'N'),
            Value::Bool(yes) => out.push(if *yes { 0x88 } else { 0x89 }),
            Value::Number(number) => {
                // LONG1, with a byte more where the top bit would be the sign.
                let number = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)).expect("whole");
                let bytes = number.to_le_bytes();
                let len = (1..16).find(|&len| number >> (8 * len - 1) == number >> 127).unwrap_or(16);
                out.extend([0x8a, len as u8]);
                out.extend(&bytes[..len]);
            }
            Value::String(text) => {
                out.push(b'X');
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
            }
            Value::Array(items) => {
                out.extend(b"](");
                items.iter().for_each(|item| put(item, out));
                out.push(b'e');
            }
            Value::Object(items) => {
                out.extend(b"}(");
                for (key, item) in items {
                    put(&json!(key), out);
                    put(item, out);
                }
                out.push(b'u');
            }
        }
    }
    let mut out = vec![0x80, 2];
    put(value, &mut out);
    out.push(b'.');
    out
}

/// Recordings of others, which lie beside the project and not in it.
fn shared(folder: &str) -> Vec<String> {
    let folder = root().join("../shared").join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let is_pickle = |path: &String| path.ends_with(".pickle") || path.ends_with(".pickle.gz");
    let mut files: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.path().display().to_string())).filter(is_pickle).collect();
    files.sort();
    files
}

/// Of every device of every file, that the account adds up and the best fix survives.
fn assert_all_hold(folder: &str) {
    for path in shared(folder) {
        let answer = json(&run(&["doctor", &path, "--json"]));
        for device in answer["devices"].as_array().expect("devices") {
            check(device);
            assert_eq!(device["not_replayed"], Value::Null, "{path}");
            assert_the_fix_fits(&path, device);
        }
        let text = ok(&["doctor", &path]);
        for part in SECTIONS.iter().chain(&CHECKS) {
            assert!(text.contains(part), "{path}: no {part} in {text}");
        }
    }
}

/// What every report has, in this order.
const SECTIONS: [&str; 4] = ["what happened", "the account at that moment", "verdict", "how far this can be trusted"];

/// The six checks by name.
const CHECKS: [&str; 6] =
    ["two ledgers", "which kind", "settings", "streams and pools", "outside the allocator", "managed memory"];

#[test]
fn every_byte_once_and_fixes_fit_over_files_from_real_devices() {
    assert_all_hold("real");
}

#[test]
fn every_byte_once_and_fixes_fit_over_recordings_of_pytorch() {
    assert_all_hold("golden/pickles");
}

#[test]
fn every_byte_once_and_fixes_fit_over_workloads() {
    assert_all_hold("workloads");
}

#[test]
fn the_kind_agrees_with_the_rule_of_the_recordings() {
    let files = shared("workloads");
    let Some(folder) = files.first().and_then(|path| std::path::Path::new(path).parent()) else { return };
    let index: Value = serde_json::from_slice(&std::fs::read(folder.join("INDEX.json")).unwrap()).unwrap();
    let mut compared = 0;
    for case in index.as_array().unwrap() {
        let kind = match case["first_oom"]["diag"]["kind"].as_str() {
            None => continue,
            Some("true shortage") => ("true_shortage", "none"),
            Some("pinned inside segments") => ("fragmentation", "pinned"),
            Some("slack over many segments") => ("fragmentation", "other_segments"),
            Some(_) => ("fragmentation", "other_pool"),
        };
        let name = [&case["scenario"], &case["config_name"]].map(|name| name.as_str().unwrap());
        let path = folder.join(format!("{}__{}.pickle.gz", name[0], name[1])).display().to_string();
        if files.contains(&path) {
            let answer = json(&run(&["doctor", &path, "--json"]));
            assert_eq!(verdict(&answer["devices"][0]), kind, "{path}");
            compared += 1;
        }
    }
    assert_eq!(compared, 11);
}

#[test]
fn several_devices_are_told_apart() {
    let mut second = segment(0x7100_0000_0000, 0);
    second["device"] = json!(1);
    let snapshot = json!({ "segments": [segment(0x7000_0000_0000, 0), second], "device_traces": [[], []] });
    let (_folder, path) = file("two.pickle", &pickle(&snapshot));
    let answer = json(&run(&["doctor", &path, "--json"]));
    let devices: Vec<&Value> = answer["devices"].as_array().unwrap().iter().map(|device| &device["device"]).collect();
    assert_eq!(devices, [0, 1]);
    let text = ok(&["doctor", &path]);
    assert!(text.contains("GPU 0: ") && text.contains("GPU 1: "), "{text}");
    let one = ok(&["doctor", &path, "--device-index", "1"]);
    assert!(!one.contains("GPU 0: ") && one.contains("GPU 1: "), "{one}");
    assert_fails(&run(&["doctor", &path, "--device-index", "2"]), "MP0023", "no device 2");
}

#[test]
fn a_report_goes_from_what_is_sure_to_what_follows() {
    let text = ok(&["doctor", "examples/oom.pickle"]);
    let places: Vec<Option<usize>> =
        SECTIONS.iter().chain(&CHECKS).map(|part| text.find(&format!("{part}\n"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
    assert!(text.contains("train_demo.py:12 forward"), "{text}");
    // Written after the error had unwound the stack: the error counts, not what is left.
    let device = &json(&run(&["doctor", "examples/oom.pickle", "--json"]))["devices"][0];
    assert_eq!(device["trust"]["after_unwind"], true);
    assert_eq!(device["trust"]["reproduced"], device["trust"]["decisions"]);
    assert!(device["account"]["reserved"].as_u64() > Some(device["end"]["allocated"].as_u64().unwrap()));
}

#[test]
fn the_smallest_device_is_enough_and_one_step_less_is_not() {
    let device = &json(&run(&["doctor", "examples/oom.pickle", "--json"]))["devices"][0];
    let enough = device["verdict"]["enough"].as_u64().unwrap();
    let step = device["treatment"]["step"].as_u64().unwrap();
    let replay = |capacity: u64| {
        run(&["replay", "examples/oom.pickle", "--capacity", &capacity.to_string(), "--assert", "ooms == 0"]).status
    };
    assert_eq!(replay(enough), 0);
    assert_ne!(replay(enough - step), 0);
}

#[test]
fn a_capacity_tells_what_others_hold() {
    let device = &json(&run(&["doctor", "examples/oom.pickle", "--capacity", "3GiB", "--json"]))["devices"][0];
    assert_eq!(device["account"]["outside"], 2u64 << 30);
    assert_eq!(device["verdict"]["behind"], "outside");
    assert_fails(&run(&["doctor", "examples/oom.pickle", "--capacity", "1000MiB"]), "MP0020", "--capacity");
}

#[test]
fn what_is_no_snapshot_is_refused_in_a_sentence() {
    let (_folder, path) = file("w.jsonl", b"{\"op\":\"alloc\",\"id\":0,\"size\":209715200}\n");
    assert_fails(&run(&["doctor", &path]), "MP0011", "the doctor looks at snapshots");
    assert_fails(&run(&["doctor", "nope.pickle"]), "MP0002", "nope.pickle");
    assert_fails(&run(&["doctor", "examples/oom.pickle", "--conf", "no_such_key:1"]), "MP0013", "no_such_key");
    let (_folder, path) = file("none.pickle", &pickle(&json!({ "segments": [], "device_traces": [[]] })));
    assert_fails(&run(&["doctor", &path]), "MP0023", "nothing to look at");
}

#[test]
fn cut_off_files_are_an_error_and_no_panic() {
    let whole = std::fs::read(root().join("examples/oom.pickle")).unwrap();
    for part in 1..8 {
        let (_folder, path) = file("cut.pickle", &whole[..whole.len() * part / 8]);
        assert_fails(&run(&["doctor", &path]), "MP0007", "cut.pickle");
    }
}

#[test]
fn hostile_numbers_are_told_and_no_panic() {
    let top = u64::MAX - 511;
    let entry =
        |action: &str, addr: u64, size: u64| json!({ "action": action, "addr": addr, "size": size, "stream": 0 });
    let actions = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "oom"];
    for (addr, size) in [(0, top), (top, top), (0x7000_0000_0000, top), (top, 0), (0, 0), (1 << 63, 1 << 63), (7, 1)] {
        let mut trace: Vec<Value> = actions.iter().map(|action| entry(action, addr, size)).collect();
        for _ in 0..2 {
            let snapshot = json!({ "segments": [segment(0x7000_0000_0000, 0)], "device_traces": [trace] });
            let (_folder, path) = file("hostile.pickle", &pickle(&snapshot));
            let answer = run(&["doctor", &path, "--json"]);
            assert!(matches!(answer.status, 0 | 2), "{addr:#x} {size:#x}: {}", answer.stderr);
            trace.reverse();
        }
        let mut odd = segment(addr, 0);
        odd["total_size"] = json!(size);
        odd["blocks"][0]["size"] = json!(size);
        let (_folder, path) = file("hostile.pickle", &pickle(&json!({ "segments": [odd], "device_traces": [[]] })));
        let answer = run(&["doctor", &path, "--json"]);
        assert!(matches!(answer.status, 0 | 2), "{addr:#x} {size:#x}: {}", answer.stderr);
    }
}
