//! The forms a snapshot takes: versions, missing and unknown keys, JSON, packed files.

mod common;

use std::io::Write;

use common::{pickle, written};
use millpond_snapshot::{
    Action, BlockState, Frame, LoadError, LoadOptions, ModelError, Notes, Plain, PoolId, Segment, SegmentType,
    Snapshot, StackId, TimeUs, TraceEntry,
};

/// A snapshot from JSON, which the viewer tries first (R9.26) and is easiest to read here.
fn json(text: &str) -> Snapshot {
    let snapshot = Snapshot::from_bytes(text.as_bytes()).unwrap();
    assert_eq!(Snapshot::from_bytes(&written(&snapshot)).unwrap(), snapshot, "what was read is written and read equal");
    snapshot
}

fn json_error(text: &str) -> String {
    match Snapshot::from_bytes(text.as_bytes()) {
        Err(error) => error.to_string(),
        Ok(snapshot) => panic!("{text} is {snapshot:?}"),
    }
}

#[test]
fn r9_1_keys_may_come_in_any_order_and_be_missing() {
    let snapshot = json(
        r#"{"device_traces": [[{"stream": 3, "size": 512, "addr": 8, "action": "alloc"}]],
            "segments": [{"blocks": [{"state": "inactive", "size": 512}], "address": 8}]}"#,
    );
    let segment = &snapshot.segments[0];
    assert_eq!((segment.address, segment.total_size), (8, 512));
    assert_eq!((segment.blocks[0].address, segment.blocks[0].size), (8, 512));
    assert_eq!(segment.blocks[0].requested_size, 512);
    let entry = snapshot.trace(0)[0];
    assert_eq!((entry.addr, entry.size, entry.stream), (8, 512, 3));
    assert_eq!(snapshot.trace(1), []);
    json(r#"{"segments": []}"#);
    json(r#"{"segments": [], "device_traces": []}"#);
    json(r#"{"segments": [{}], "device_traces": [[], []]}"#);
}

#[test]
fn c75_the_root_may_be_a_bare_list_of_segments() {
    let snapshot = json(r#"[{"address": 4096, "total_size": 1024, "segment_type": "small"}]"#);
    assert_eq!(snapshot.segments[0].segment_type, SegmentType::Small);
    assert!(json("[]").segments.is_empty());
}

#[test]
fn c75_frames_and_requested_size_may_stand_in_the_history() {
    let snapshot = json(
        r#"[{"address": 4096, "total_size": 1536, "blocks": [
            {"size": 512, "state": "active_allocated", "history":
                [{"addr": 4096, "real_size": 500,
                  "frames": [{"name": "f", "filename": "a.py", "line": 3}]}]},
            {"size": 1024, "state": "inactive"}]}]"#,
    );
    let [first, second] = &snapshot.segments[0].blocks[..] else {
        panic!("two blocks");
    };
    assert_eq!(first.requested_size, 500);
    assert_eq!(second.address, 4096 + 512);
    let frame = snapshot.stacks.frames(first.stack).next().unwrap();
    assert_eq!(*frame, Frame::new("f", "a.py", 3));
    // The rest of the history is kept as it is.
    let (key, _) = first.extra[0];
    assert_eq!(snapshot.values.text(key), Some("history"));
}

#[test]
fn r9_2_and_r9_7_segments_and_blocks() {
    let snapshot = json(
        r#"{"segments": [{"device": 1, "address": 1024, "total_size": 100, "allocated_size": 40,
            "active_size": 60, "requested_size": 55, "stream": 7, "segment_type": "large",
            "segment_pool_id": [0, 3], "is_expandable": true, "frames": [],
            "forward_frames": ["a", "b"], "blocks": [
              {"address": 1024, "size": 40, "requested_size": 38, "state": "active_allocated"},
              {"address": 1064, "size": 20, "requested_size": 17, "state": "active_pending_free"},
              {"address": 1084, "size": 40, "requested_size": 9, "state": "inactive"}]}]}"#,
    );
    let segment = &snapshot.segments[0];
    assert_eq!(segment.pool, Some(PoolId::new(0, 3)));
    assert_eq!((segment.device, segment.stream), (1, 7));
    assert!(segment.is_expandable);
    assert_eq!(segment.stack, StackId::EMPTY);
    let states: Vec<BlockState> = segment.blocks.iter().map(|block| block.state).collect();
    assert_eq!(states, [BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive]);
    assert_eq!(snapshot.values.text(segment.extra[0].0), Some("forward_frames"));
    let summary = snapshot.summary();
    assert_eq!(summary.problems, []);
    assert_eq!(summary.devices[0].active, 60);
    assert_eq!(summary.devices[0].device, 1);
}

#[test]
fn r9_9_an_oom_has_device_free_in_place_of_addr() {
    let snapshot = json(
        r#"{"device_traces": [[{"action": "oom", "device_free": 77, "size": 512, "stream": 0},
                               {"action": "alloc", "addr": 5, "size": 512, "stream": 0}]]}"#,
    );
    assert_eq!(snapshot.trace(0)[0].device_free(), Some(77));
    assert_eq!(snapshot.trace(0)[1].device_free(), None);
}

#[test]
fn r9_9_all_of_an_entry() {
    let snapshot = json(
        r#"{"device_traces": [[{"action": "alloc", "addr": 5, "size": 512, "stream": 2,
            "time_us": 0, "compile_context": "N/A", "user_metadata": "", "pool_id": [4, 0],
            "internal_metadata": "x", "forward_frames": ["f"],
            "frames": [{"name": "f", "filename": "a.py", "line": 3, "fx_node_op": "call"}]},
            {"action": "free_requested", "addr": 5, "size": 512, "stream": 2, "user_metadata": null},
            {"action": "alloc_on_mars", "addr": 5, "size": 512, "stream": 2}]]}"#,
    );
    let [alloc, free, mars] = snapshot.trace(0) else {
        panic!("three entries");
    };
    assert_eq!(alloc.time_us, Some(TimeUs::new(0)));
    assert_eq!(alloc.pool, Some(PoolId::new(4, 0)));
    let notes = snapshot.notes.get(alloc.notes);
    assert_eq!(notes.compile_context.as_deref(), Some("N/A"));
    assert_eq!(notes.user_metadata.as_deref(), Some(""));
    assert_eq!(notes.internal_metadata.as_deref(), Some("x"));
    assert_eq!(snapshot.values.text(notes.extra[0].0), Some("forward_frames"));
    let frame = snapshot.stacks.frames(alloc.stack.unwrap()).next().unwrap();
    let fx = frame.fx.as_deref().unwrap();
    assert_eq!((fx.op.as_deref(), fx.name.as_deref()), (Some("call"), None));
    assert_eq!((free.stack, free.time_us, free.pool), (None, None, None));
    assert_eq!(mars.action, Action::Other);
    let word = snapshot.notes.get(mars.notes).action.as_deref();
    assert_eq!(word, Some("alloc_on_mars"));
}

#[test]
fn r9_14_settings_keys() {
    let snapshot = json(
        r#"{"segments": [], "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1,
            "garbage_collection_threshold": 0.5, "expandable_segments": true,
            "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": false,
            "pinned_use_cuda_host_register": false, "graph_capture_record_stream_reuse": true,
            "max_round_threshold": -1, "max_cached_size": 9,
            "roundup_power2_divisions": {"1": 0, "2": 8}, "of_next_year": [1, 2]}}"#,
    );
    let settings = &snapshot.settings;
    assert_eq!(settings.conf.as_deref(), Some("expandable_segments:True"));
    assert_eq!(settings.max_split_size, Some(-1));
    assert_eq!(settings.garbage_collection_threshold, Some(0.5));
    assert_eq!(settings.expandable_segments, Some(true));
    assert_eq!(settings.graph_capture_record_stream_reuse, Some(true));
    assert_eq!(settings.roundup_power2_divisions, [(1, 0), (2, 8)]);
    assert_eq!(
        settings.to_json(&snapshot.values),
        serde_json::json!({
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1,
            "garbage_collection_threshold": 0.5, "expandable_segments": true,
            "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": false,
            "pinned_use_cuda_host_register": false, "graph_capture_record_stream_reuse": true,
            "max_round_threshold": -1, "max_cached_size": 9,
            "roundup_power2_divisions": {"1": 0, "2": 8}, "of_next_year": [1, 2]
        })
    );
    // A known key with a value of another kind is kept like an unknown one.
    let odd = json(r#"{"segments": [], "allocator_settings": {"max_split_size": "much"}}"#);
    assert_eq!(odd.settings.max_split_size, None);
    assert_eq!(odd.settings.extra.len(), 1);
}

#[test]
fn r9_15_to_r9_17_annotations_and_the_host() {
    let snapshot = json(
        r#"{"segments": [], "external_annotations": [
              {"stage": "START", "name": "step", "device": 0, "time_us": 12}],
            "host_segments": [{"device": -1, "address": 16, "total_size": 8, "blocks": [
              {"address": 16, "size": 8, "state": "inactive"}]}],
            "host_traces": [{"action": "segment_alloc", "addr": 16, "size": 8, "stream": 0}]}"#,
    );
    assert_eq!(snapshot.annotations[0].name, "step");
    assert_eq!(snapshot.annotations[0].time_us, Some(12));
    assert_eq!(snapshot.host_segments[0].device, -1);
    assert_eq!(snapshot.host_traces[0].action, Action::SegmentAlloc);
    assert!(snapshot.summary().devices.is_empty());
    let nested = json(
        r#"{"host_traces": [[{"action": "alloc", "addr": 1, "size": 8, "stream": 0}],
                            [{"action": "alloc", "addr": 2, "size": 8, "stream": 0}]]}"#,
    );
    assert_eq!(nested.host_traces.len(), 2);
}

#[test]
fn unknown_keys_are_kept_everywhere() {
    let snapshot = json(
        r#"{"of_root": {"a": [1, 2.5, null, true]}, "segments": [{"of_segment": "s", "blocks": [
              {"size": 8, "state": "inactive", "of_block": [[]]}]}],
            "device_traces": [[{"action": "alloc", "addr": 1, "size": 8, "stream": 0, "of_event": 7}]],
            "external_annotations": [{"name": "n", "stage": "END", "of_annotation": 1}]}"#,
    );
    let key = |extra: &millpond_snapshot::Extra| snapshot.values.text(extra[0].0).unwrap().to_owned();
    let segment = &snapshot.segments[0];
    assert_eq!(key(&snapshot.extra), "of_root");
    assert_eq!(key(&segment.extra), "of_segment");
    assert_eq!(key(&segment.blocks[0].extra), "of_block");
    assert_eq!(key(&snapshot.annotations[0].extra), "of_annotation");
    let notes = snapshot.notes.get(snapshot.trace(0)[0].notes);
    assert_eq!(key(&notes.extra), "of_event");
    assert!(matches!(snapshot.values.get(notes.extra[0].1), Plain::Int(7)));
}

#[test]
fn entries_under_unknown_keys_are_kept_as_dicts() {
    let snapshot = json(
        r#"{"segments": [], "copied": [{"action": "alloc", "addr": 1, "size": 8, "stream": 0,
            "frames": [{"name": "f", "filename": "a.py", "line": 3}]}]}"#,
    );
    assert_eq!(
        snapshot.values.to_json(snapshot.extra[0].1),
        serde_json::json!([{"action": "alloc", "addr": 1, "size": 8, "stream": 0,
            "frames": [{"name": "f", "filename": "a.py", "line": 3}]}])
    );
}

#[test]
fn a_dict_that_only_looks_like_a_frame_or_an_entry_stays_as_it_is() {
    let odd = r#"[{"name": "f", "filename": "a.py", "line": "three"}, {"filename": "a.py"},
        {"action": "alloc"}, {"action": "alloc", "addr": -1.5, "size": 8, "stream": 0}]"#;
    let snapshot = json(&format!(r#"{{"segments": [], "odd": {odd}}}"#));
    assert_eq!(snapshot.values.to_json(snapshot.extra[0].1), serde_json::from_str::<serde_json::Value>(odd).unwrap());
}

#[test]
fn what_a_row_cannot_give_back_exactly_stays_a_dict() {
    // Under an unknown key: a signed address, a pool id that is a list, frames that are none, a
    // figure under the other action's key, a frame without a name.
    let odd = r#"[{"action": "alloc", "addr": -5, "size": 8, "stream": 0},
        {"action": "alloc", "addr": 5, "size": 8, "stream": 0, "pool_id": [0, 0]},
        {"action": "alloc", "addr": 5, "size": 8, "stream": 0, "frames": null},
        {"action": "alloc", "device_free": 5, "size": 8, "stream": 0},
        {"action": "oom", "addr": 5, "size": 8, "stream": 0},
        {"action": "alloc", "addr": 5, "size": 8, "stream": 0, "frames": [{"filename": "a.py", "line": 3}]}]"#;
    let snapshot = json(&format!(r#"{{"segments": [], "odd": {odd}}}"#));
    let kept = snapshot.extra[0].1;
    assert_eq!(snapshot.values.to_json(kept), serde_json::from_str::<serde_json::Value>(odd).unwrap());
    let Plain::List(entries) = snapshot.values.get(kept) else { panic!("a list") };
    let Plain::Dict(second) = snapshot.values.get(entries[1]) else { panic!("a dict") };
    assert!(matches!(snapshot.values.get(second[9]), Plain::List(_)), "not a tuple");
    // In a trace they are entries like any other.
    let trace = json(&format!(r#"{{"device_traces": [{odd}]}}"#));
    assert_eq!(trace.trace(0).len(), 6);
    assert_eq!(trace.trace(0)[1].pool, Some(PoolId::DEFAULT));
    assert_eq!(trace.stacks.frames(trace.trace(0)[5].stack.unwrap()).next().unwrap().line, 3);
}

#[test]
fn segments_and_settings_with_the_keys_of_entries_and_frames_are_still_those() {
    let frame = r#""name": "f", "filename": "a.py", "line": 3"#;
    let entry = r#""action": "alloc", "addr": 5, "size": 8, "stream": 0"#;
    let snapshot = json(&format!(
        r#"{{"segments": [{{"blocks": [{{"state": "inactive", {entry}}}, {{"state": "inactive", {frame}}}], {frame}}}],
            "allocator_settings": {{{frame}}}, "external_annotations": [{{"stage": "END", {frame}}}]}}"#
    ));
    assert_eq!(snapshot.segments[0].blocks[0].size, 8);
    assert_eq!(snapshot.segments[0].blocks[1].extra.len(), 3);
    assert_eq!(snapshot.settings.extra.len(), 3);
    assert_eq!(snapshot.annotations[0].name, "f");
    let said = json_error(&format!(r#"{{"external_annotations": [{{{frame}}}]}}"#));
    assert_eq!(said, "external_annotations[0]: a dict is needed here, but this is a frame");
}

#[test]
fn dicts_are_equal_in_any_order() {
    let snapshot = json(r#"{"segments": [], "x": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}"#);
    let Plain::List([first, second]) = snapshot.values.get(snapshot.extra[0].1) else { panic!("two dicts") };
    assert_eq!(first, second);
}

#[test]
fn one_stack_of_many_entries_is_held_once() {
    let entry = r#"{"action": "alloc", "addr": 1, "size": 8, "stream": 0,
        "frames": [{"name": "f", "filename": "a.py", "line": 3}]}"#;
    let snapshot = json(&format!(r#"{{"device_traces": [[{entry}, {entry}], [{entry}]]}}"#));
    assert_eq!(snapshot.stacks.len(), 2, "this one and the empty one");
    assert_eq!(snapshot.device_traces[1].len(), 1);
}

#[test]
fn traces_may_share_entries() {
    // e = {...}; [[e, e], [e], t, t]
    let entry = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x05\x8c\x04sizeK\x08\x8c\x06streamK\x00u\x94";
    let file = pickle(&[b"\x80\x04}\x8c\x0ddevice_traces](](", entry, b"h\x00e](h\x00e](h\x00e\x94h\x01es."]);
    let snapshot = Snapshot::from_bytes(&file).unwrap();
    let lengths: Vec<usize> = snapshot.device_traces.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 1, 1, 1]);
    assert!(snapshot.device_traces.iter().flatten().all(|entry| entry.addr == 5));
}

#[test]
fn c73_addresses_above_2_to_the_63_and_negative_integers() {
    let high = 0xffff_8000_0000_0000_u64;
    let snapshot = json(&format!(
        r#"{{"device_traces": [[
            {{"action": "alloc", "addr": {high}, "size": 8, "stream": {high}}},
            {{"action": "alloc", "addr": -140737488355328, "size": 8, "stream": 0}}]]}}"#
    ));
    let [unsigned, signed] = snapshot.trace(0) else {
        panic!("two entries");
    };
    assert_eq!((unsigned.addr, unsigned.stream), (high, high));
    // PyTorch's own pickler has signed integers only: the same 64 bits.
    assert_eq!(signed.addr, high);
    let text = json_error(r#"{"device_traces": [[{"action": "alloc", "addr": 1, "size": -8, "stream": 0}]]}"#);
    assert_eq!(text, "device_traces[0][0].size: an integer of 0 or more is needed here, but this is the integer -8");
}

#[test]
fn errors_name_the_place() {
    for (text, said) in [
        (r#"{"segments": 3}"#, "segments: a list is needed here, but this is the integer 3"),
        (
            r#"[{"blocks": [{"state": "free"}]}]"#,
            "segments[0].blocks[0].state: \"active_allocated\", \"active_pending_free\" or \
             \"inactive\" is needed here, but this is the text \"free\"",
        ),
        (
            r#"[{"frames": [{"line": "x"}]}]"#,
            "segments[0].frames[0].line: an integer of 64 bits with sign is needed here, but this \
             is the text \"x\"",
        ),
        (r#"{"device_traces": [[{"addr": 1}]]}"#, "device_traces[0][0]: the key \"action\" is missing"),
        (
            r#"[{"segment_pool_id": [1]}]"#,
            "segments[0].segment_pool_id: a pool id (two integers of 0 or more) is needed here, \
             but this is a list",
        ),
        (
            r#"{"weights": []}"#,
            "this is a dict, not a memory snapshot; a snapshot is a dict with the key \
             \"segments\", or a list of segments, as torch.cuda.memory._dump_snapshot writes it",
        ),
    ] {
        assert_eq!(json_error(text), said);
    }
    let number = Snapshot::from_bytes(b"\x80\x04K\x01.");
    assert!(matches!(number, Err(LoadError::Model(ModelError::NotASnapshot { .. }))));
}

#[test]
fn damaged_json_is_said_to_be_json() {
    assert!(json_error("{\"segments\": [").starts_with("the file begins as JSON but is not"));
    assert!(json_error("[1] 2").contains("trailing"));
    assert!(json_error(&"[".repeat(100_000)).contains("recursion"));
    assert!(json_error("").starts_with("the file is empty"));
    json("\u{feff} []");
}

#[test]
fn packed_files_are_known_by_their_first_bytes() {
    let plain = std::fs::read(&common::examples()[0]).unwrap();
    let expected = Snapshot::from_bytes(&plain).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(Snapshot::from_bytes(&gzip).unwrap(), expected);
    let zstandard = zstd(&plain);
    assert_eq!(Snapshot::from_bytes(&zstandard).unwrap(), expected);
    for cut in [&gzip[..gzip.len() / 2], &zstandard[..zstandard.len() / 2]] {
        let error = Snapshot::from_bytes(cut).unwrap_err();
        assert!(matches!(error, LoadError::Unpack { .. }), "{error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &zstandard).unwrap();
    assert_eq!(Snapshot::open(file.path()).unwrap(), expected);
    let missing = Snapshot::open("/nowhere/snapshot.pickle").unwrap_err();
    assert!(missing.to_string().starts_with("/nowhere/snapshot.pickle: "));
}

#[test]
fn a_file_may_unpack_to_64_times_its_size_and_more_only_when_asked() {
    let big = [b"[".as_slice(), &vec![b' '; 4 << 20], b"]"].concat();
    for packed in [zstd(&big), {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&big).unwrap();
        gzip.finish().unwrap()
    }] {
        let error = Snapshot::from_bytes(&packed).unwrap_err();
        assert!(matches!(error, LoadError::Expansion { .. }), "{error}");
        assert!(error.to_string().contains("64 times"), "{error}");
        let trusted = LoadOptions::default().allow_expansion(true).read(&packed);
        assert!(trusted.unwrap().segments.is_empty());
    }
}

#[test]
fn a_snapshot_made_by_hand_reads_back_equal() {
    let mut snapshot = Snapshot::default();
    let frames = [Frame::new("f", "a.py", 3), Frame::new("main", "a.py", 9)];
    let stack = snapshot.stacks.intern(&frames);
    let notes = snapshot.notes.intern(Notes {
        compile_context: Some("N/A".into()),
        user_metadata: Some("".into()),
        ..Notes::default()
    });
    snapshot.segments.push(Segment {
        address: 0x2000_0000_0000,
        total_size: 2 << 20,
        pool: Some(PoolId::DEFAULT),
        stack,
        ..Segment::default()
    });
    let alloc = TraceEntry {
        addr: 0x2000_0000_0000,
        size: 512,
        time_us: Some(TimeUs::new(5)),
        pool: Some(PoolId::new(2, 0)),
        stack: Some(stack),
        notes,
        ..TraceEntry::default()
    };
    let free = TraceEntry { action: Action::FreeRequested, ..alloc };
    snapshot.device_traces = vec![Vec::new(), vec![alloc, free]];
    snapshot.settings.conf = Some(String::new());
    let again = Snapshot::from_bytes(&written(&snapshot)).unwrap();
    assert_eq!(again, snapshot);
    assert_eq!(again.trace(1).len(), 2);
    // Frames made twice with texts of their own are still written once.
    let file = written(&snapshot);
    assert_eq!(file.windows(4).filter(|window| window == b"a.py").count(), 1);
}

#[test]
fn problems_are_reported_not_asserted() {
    let snapshot = json(
        r#"[{"address": 0, "total_size": 100, "allocated_size": 1, "blocks": [
              {"address": 8, "size": 10, "requested_size": 20, "state": "active_allocated"},
              {"address": 40, "size": 10, "state": "inactive"}]},
            {"address": 50, "total_size": 10, "blocks": [
              {"address": 50, "size": 10, "state": "inactive"}]}]"#,
    );
    let said: Vec<String> = snapshot.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "device 0: block 0 of the segment at 0x0 begins at 0x8, but the blocks before it end at 0x0",
            "device 0: the live block at 0x8 has 10 bytes, but 20 were asked for",
            "device 0: block 1 of the segment at 0x0 begins at 0x28, but the blocks before it end at 0x12",
            "device 0: the blocks of the segment at 0x0 add up to 20 bytes, but the segment has 100",
            "device 0: the segment at 0x0 states allocated_size 1, but its blocks add up to 10 bytes",
            "device 0: the segments at 0x0 and 0x32 overlap",
        ]
    );
    let many = format!("[{}]", vec![r#"{"address": 0, "total_size": 9}"#; 300].join(","));
    let problems = json(&many).problems();
    assert_eq!(problems.len(), 101);
    assert_eq!(problems[100].to_string(), "and 499 more");
}

#[test]
fn the_summary_serialises_under_the_keys_of_stats() {
    let summary = Snapshot::open(&common::examples()[1]).unwrap().summary();
    let json = serde_json::to_value(&summary).unwrap();
    let keys: Vec<&String> = json["devices"][0].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "active",
            "allocated",
            "blocks",
            "device",
            "free_in_used_segments",
            "largest_free_large",
            "largest_free_small",
            "releasable",
            "requested",
            "reserved",
            "segments",
            "trace_events"
        ]
    );
    assert_eq!(json["problems"], serde_json::json!([]));
    assert_eq!(json["settings"]["max_split_size"], -1);
}

/// Packed with zstd.
fn zstd(plain: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
}
