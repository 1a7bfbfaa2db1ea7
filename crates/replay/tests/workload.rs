//! The workload format: what is read, what is refused, what is written.

mod common;

use std::io::Write;

use millpond_replay::workload::{Fault, ReadOptions};
use millpond_replay::{Launch, Op, Workload, WorkloadError};

fn read(text: impl AsRef<[u8]>) -> Result<Workload, WorkloadError> {
    Workload::read(text.as_ref(), ReadOptions::default())
}

fn every_op() -> Workload {
    let launch = Launch { stream: 2, us: 7, reads: vec![1, 2], writes: vec![], label: "a \"b\"".into() };
    Workload {
        ops: vec![
            Op::Alloc { id: 0, size: 512, stream: 0, pool: None },
            Op::Alloc { id: u64::MAX, size: u64::MAX, stream: u32::MAX, pool: Some(3) },
            Op::Free { id: 0 },
            Op::RecordStream { id: 1, stream: 2 },
            Op::Complete { id: 1 },
            Op::Advance { n: 4 },
            Op::Sync,
            Op::StreamSync { stream: 1 },
            Op::ForkJoin { a: 1, b: 2 },
            Op::EventRecord { event: 9, stream: 1 },
            Op::EventWait { event: 9, stream: 2 },
            Op::Work { id: 1, stream: 1 },
            Op::Launch(Box::new(launch)),
            Op::Launch(Box::default()),
            Op::EmptyCache,
            Op::Checkpoint,
            Op::PoolCreate { pool: 1, use_on_oom: true, no_split: false },
            Op::PoolCreate { pool: 2, use_on_oom: false, no_split: true },
            Op::PoolDestroy { pool: 1 },
            Op::PoolEnter { pool: 2 },
            Op::PoolLeave { pool: 2 },
            Op::SetFraction { fraction: 0.078125 },
            Op::SetConf { conf: "roundup_power2_divisions:[64:8,>:2]".into() },
            Op::CaptureBegin { graph: 1, share: 0, stream: 3 },
            Op::CaptureEnd { graph: 1 },
            Op::Replay { graph: 1 },
            Op::GraphReset { graph: 1 },
            Op::Device { device: 1 },
        ],
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut text = Vec::new();
    every_op().write(&mut text).unwrap();
    assert_eq!(read(&text).unwrap(), every_op());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).unwrap();
    assert_eq!(read(gzip.finish().unwrap()).unwrap(), every_op());
    assert_eq!(read(zstd(text.as_slice())).unwrap(), every_op());
    assert_eq!(every_op().devices(), 2);
}

#[test]
fn the_order_of_fields_and_white_space_do_not_matter_and_defaults_fill_in() {
    let text = "\n {\"size\": 512,\r\"id\": 3 , \"op\": \"alloc\"}  \r\n\n{\"op\":\"capture_begin\",\"graph\":1,\"stream\":1}\n\
                {\"op\":\"advance\"}\n{\"op\":\"pool_create\",\"pool\":0,\"use_on_oom\":false}\n{\"op\":\"launch\"}";
    let ops = [
        Op::Alloc { id: 3, size: 512, stream: 0, pool: None },
        Op::CaptureBegin { graph: 1, share: 1, stream: 1 },
        Op::Advance { n: 1 },
        Op::PoolCreate { pool: 0, use_on_oom: false, no_split: false },
        Op::Launch(Box::default()),
    ];
    assert_eq!(read(text).unwrap().ops, ops);
}

#[test]
fn common_lines_read_the_same_in_any_spelling() {
    for (quick, exact, op) in [
        (r#"{"op":"free","id":7}"#, r#"{"op":"free", "id":7}"#, Op::Free { id: 7 }),
        (
            r#"{"op":"record_stream","id":7,"stream":0}"#,
            r#"{"id":7,"op":"record_stream","stream":0}"#,
            Op::RecordStream { id: 7, stream: 0 },
        ),
        (
            r#"{"op":"alloc","id":7,"size":18446744073709551615,"stream":1}"#,
            r#"{"op":"alloc","size":18446744073709551615,"id":7,"stream":1}"#,
            Op::Alloc { id: 7, size: u64::MAX, stream: 1, pool: None },
        ),
    ] {
        assert_eq!(read(quick).unwrap().ops, std::slice::from_ref(&op), "{quick}");
        assert_eq!(read(exact).unwrap().ops, [op], "{exact}");
    }
    for wrong in [
        r#"{"op":"free","id":07}"#,
        r#"{"op":"free","id":}"#,
        r#"{"op":"free","id":7}}"#,
        r#"{"op":"alloc","id":7,"size":18446744073709551616,"stream":1}"#,
        r#"{"op":"alloc","id":7,"size":1,"stream":4294967296}"#,
        r#"{"op":"alloc","id":7,"size":1,"stream":1,"pool":0,"pool":"x"}"#,
    ] {
        assert_eq!(read(wrong).unwrap_err().line, 1, "{wrong}");
    }
}

#[test]
fn errors_name_the_line_and_what_is_allowed() {
    let error = |line: &str| read(format!("{{\"op\":\"sync\"}}\n\n{line}\n")).unwrap_err();
    for (line, parts) in [
        (r#"{"op":"alocate","id":1}"#, &["line 3", "'alocate'", "alloc, free"][..]),
        (r#"{"op":"aloc","id":1}"#, &["did you mean 'alloc'"]),
        (r#"{"op":1}"#, &["unknown op '1'"]),
        (r#"{"id":1}"#, &["needs the field 'op'"]),
        (r#"{"op":"alloc","id":1}"#, &["'alloc' needs the field 'size'"]),
        (r#"{"op":"alloc","id":1,"sise":4,"size":4}"#, &["no field 'sise'", "id, size, stream, pool"]),
        (r#"{"op":"alloc","id":-1,"size":4}"#, &["'id' of 'alloc' is a whole number", "not -1"]),
        (r#"{"op":"alloc","id":1,"size":4,"stream":4294967296}"#, &["'stream'", "below 2^32"]),
        (r#"{"op":"set_fraction"}"#, &["'set_fraction' needs the field 'fraction'"]),
        (r#"{"op":"set_fraction","fraction":"half"}"#, &["a number from 0 to 1", "\"half\""]),
        (r#"{"op":"launch","reads":[1,"x"]}"#, &["a list of allocation ids"]),
        (r#"{"op":"pool_create","pool":1,"no_split":1}"#, &["true or false, not 1"]),
        (r#"{"op":"device","device":64}"#, &["'device' of 'device' is a device's index, below 64, not 64"]),
        (r#"["op"]"#, &["a request is a JSON object"]),
        (r#"{"op":"sync""#, &["a request is a JSON object"]),
    ] {
        let text = error(line).to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{line}: {text}");
    }
}

#[test]
fn hostile_files_are_refused_within_bounds() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b'\n'; 8 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    let error = read(&bomb).unwrap_err();
    assert!(matches!(error.fault, Fault::Unpacks { factor: 64 }), "{error}");
    assert_eq!(Workload::read(bomb.as_slice(), ReadOptions { unpack_factor: None }).unwrap().ops, []);

    let error = read(vec![b' '; 2 << 20]).unwrap_err();
    assert!(matches!(error.fault, Fault::LongLine { .. }) && error.line == 1, "{error}");
    assert!(matches!(read("[".repeat(100_000)).unwrap_err().fault, Fault::Json(_)));
    assert!(matches!(read(&bomb[..bomb.len() / 2]).unwrap_err().fault, Fault::Io(_) | Fault::Unpacks { .. }));
    assert!(matches!(read([0x1f, 0x8b, 8, 1, 2, 3]).unwrap_err().fault, Fault::Io(_)));
}

#[test]
fn recorded_workloads_are_read_whole() {
    let Some(file) = common::shared("workloads/w05_fsdp.req.jsonl.gz") else { return };
    let workload = Workload::open(&file, ReadOptions::default()).unwrap();
    let mut text = Vec::new();
    workload.write(&mut text).unwrap();
    assert!(workload.ops.len() > 10_000);
    assert_eq!(read(&text).unwrap(), workload);
}

/// Packed with zstd.
fn zstd(plain: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn a_request_takes_32_bytes() {
    // The memory that a workload takes is bounded by this: its shortest line has 14 bytes.
    assert_eq!(size_of::<Op>(), 32);
}

#[test]
fn the_examples_of_the_format_s_page_are_workloads() {
    let page = include_str!("../../../docs/workload-format.md");
    let examples: Vec<&str> = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 3);
    for example in &examples {
        assert!(!read(example).unwrap().ops.is_empty(), "{example}");
    }
    // Every operation has its row.
    for op in every_op().ops {
        let line = op.to_string();
        let name = line.split('"').nth(3).unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
}
