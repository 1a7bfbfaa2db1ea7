//! Damaged and hostile files: a named error or a bounded result, soon, and never a panic.

mod common;

use std::time::Instant;

use common::{all_pickles, pickle, unpacked, written};
use millpond_snapshot::pickle::{PickleError, read};
use millpond_snapshot::{LoadError, Snapshot};

/// Seconds this thread has run; on other systems than Linux, seconds that have passed.
fn seconds(since: Instant) -> f64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat");
    let ns = counted.ok().and_then(|counted| {
        let ns = counted.split_whitespace().next()?;
        ns.parse::<f64>().ok()
    });
    ns.map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// What a file gives, which must come within a second, or five where it is not optimised.
fn load(file: &[u8]) -> Result<Snapshot, LoadError> {
    let start = Instant::now();
    let before = seconds(start);
    let loaded = Snapshot::from_bytes(file);
    let took = seconds(start) - before;
    let most = if cfg!(debug_assertions) { 5.0 } else { 1.0 };
    assert!(took < most, "took {took} s");
    loaded
}

fn pickle_error(file: &[u8]) -> PickleError {
    match load(file) {
        Err(LoadError::Pickle(error)) => error,
        other => panic!("not a pickle error: {other:?}"),
    }
}

#[test]
fn truncated_files_give_a_named_error() {
    for path in all_pickles() {
        let file = unpacked(&path);
        for len in [file.len() / 10, file.len() / 2, file.len() - 1, 0, 1, 2, 10] {
            let error = load(&file[..len]).unwrap_err();
            assert!(
                matches!(
                    error,
                    LoadError::Empty | LoadError::Pickle(PickleError::NoStop { .. } | PickleError::Truncated { .. })
                ),
                "{}, {len} bytes: {error}",
                path.display()
            );
        }
        let packed = std::fs::read(&path).unwrap();
        if packed != file {
            for len in [packed.len() / 10, packed.len() / 2, packed.len() - 1] {
                let error = load(&packed[..len]).unwrap_err();
                assert!(matches!(error, LoadError::Unpack { .. }), "{error}");
            }
        }
    }
}

#[test]
fn flipped_bytes_never_panic_and_what_loads_can_be_written() {
    for path in common::examples() {
        let file = unpacked(&path);
        // A step that is no power of two, so that all opcodes are met.
        for at in (0..file.len()).step_by(211) {
            for flip in [0x01, 0x80, 0xff] {
                let mut file = file.clone();
                file[at] ^= flip;
                if let Ok(snapshot) = load(&file) {
                    snapshot.summary();
                    let again = Snapshot::from_bytes(&written(&snapshot)).unwrap();
                    assert_eq!(again, snapshot, "byte {at} flipped by {flip:#x}");
                }
            }
        }
    }
}

#[test]
fn flipped_bytes_of_all_recordings_never_panic() {
    for path in all_pickles() {
        let file = unpacked(&path);
        for at in (0..file.len()).step_by(file.len() / 23) {
            let mut file = file.clone();
            file[at] ^= 0x55;
            if let Ok(snapshot) = load(&file) {
                snapshot.summary();
            }
        }
    }
}

#[test]
fn code_in_a_snapshot_is_refused_with_its_offset() {
    let file = pickle(&[b"\x80\x04}\x8c\x08segments", b"cos\nsystem\n\x8c\x02id\x85Rs."]);
    assert_eq!(pickle_error(&file), PickleError::Code { offset: 13, opcode: "GLOBAL" });
    let file = pickle(&[b"\x80\x04}\x8c\x08segments", b"K\x01\x8c\x02id\x85Rs."]);
    assert_eq!(pickle_error(&file), PickleError::Code { offset: 20, opcode: "REDUCE" });
}

/// `segments` empty, and `value` under an unknown key.
fn with_unknown(value: &[u8]) -> Vec<u8> {
    pickle(&[b"\x80\x04}(\x8c\x08segments]\x8c\x01x", value, b"u."])
}

#[test]
fn a_million_nested_lists_are_read_written_compared_and_dropped_without_recursion() {
    let depth = 1_000_000;
    let nested = [b"]".repeat(depth), b"a".repeat(depth - 1)].concat();
    let snapshot = load(&with_unknown(&nested)).unwrap();
    assert_eq!(snapshot.values.len(), depth + 1);
    let again = load(&written(&snapshot)).unwrap();
    assert_eq!(again, snapshot);
    let depth = depth / 2;
    let tuples = [b"N".to_vec(), b"\x85".repeat(depth)].concat();
    assert!(load(&with_unknown(&tuples)).is_ok());
    let dicts = [b"}K\x01".repeat(depth), b"N".to_vec(), b"s".repeat(depth)].concat();
    assert!(load(&with_unknown(&dicts)).is_ok());
    let error = load(&[b"]".repeat(depth), b"a".repeat(depth - 1), b".".to_vec()].concat());
    assert!(error.unwrap_err().to_string().starts_with("segments[0]: a dict"));
    assert!(load(&b"(".repeat(depth)).is_err());
}

#[test]
fn lengths_of_2_to_the_63_are_refused() {
    for opcode in [0x8d, 0x8e, 0x95, 0x96] {
        let file = pickle(&[&[0x80, 4, opcode], &(1_u64 << 63).to_le_bytes(), b"abc."]);
        assert!(matches!(
            pickle_error(&file),
            PickleError::Truncated { needed, left: 4, .. } if needed == 1 << 63
        ));
    }
    for opcode in *b"XTB\x8b" {
        let file = pickle(&[&[opcode], &u32::MAX.to_le_bytes(), b"abc."]);
        assert!(matches!(pickle_error(&file), PickleError::Truncated { .. }));
    }
}

/// `a0 = []; a1 = [a0, a0]; …`: unfolded it has two to the power of `levels` members.
fn bomb(levels: u8) -> Vec<u8> {
    let mut file = b"]\x94".to_vec();
    for level in 1..=levels {
        file.extend_from_slice(&[b'0', b']', 0x94, b'(', b'h', level - 1, b'h', level - 1, b'e']);
    }
    file
}

#[test]
fn memo_bombs_stay_shared_when_read_converted_written_and_compared() {
    let bomb = bomb(40);
    let (values, _) = read(&[bomb.as_slice(), b"."].concat()).unwrap();
    assert_eq!(values.len(), 41);
    let snapshot = load(&with_unknown(&bomb)).unwrap();
    let file = written(&snapshot);
    assert!(file.len() < 2 * bomb.len() + 300);
    let again = load(&file).unwrap();
    assert_eq!(again, snapshot);
    assert_eq!(again.values.len(), snapshot.values.len());
    // As settings it reaches the JSON of `stats`.
    let file = pickle(&[b"}\x8c\x12allocator_settings}\x8c\x01x", &bomb, b"ss."]);
    let json = load(&file).unwrap().summary().settings.to_string();
    assert!(json.len() < 100_000, "{}", json.len());
}

#[test]
fn memo_bombs_in_the_typed_parts_are_refused() {
    let bomb = bomb(40);
    for key in [&b"segments"[..], b"device_traces", b"external_annotations", b"host_segments", b"host_traces"] {
        let file = pickle(&[b"}\x8c", &[key.len() as u8], key, &bomb, b"s."]);
        assert!(load(&file).is_err());
    }
    // A thousand segments, each with the same thousand blocks, the same as a thousand lists.
    let many = |item: &[u8]| [b"](", item.repeat(100_000).as_slice(), b"e"].concat();
    let blocks = many(b"h\x00");
    let file = pickle(&[b"}\x940](", b"}\x8c\x06blocks", &blocks, b"s\x94", &b"h\x01".repeat(100_000), b"e."]);
    let error = load(&file).unwrap_err();
    assert!(error.to_string().contains("memory"), "a square of blocks: {error}");
}

#[test]
fn containers_that_hold_themselves_are_refused() {
    for (value, wanted) in [
        (&b"]\x94h\x00a"[..], "holds itself"),
        (b"]\x94(h\x00e", "holds itself"),
        (b"}\x94K\x01h\x00s", "holds itself"),
        (b"]\x94]\x94h\x00aa", "holds itself"),
    ] {
        let error = load(&with_unknown(value)).unwrap_err();
        assert!(error.to_string().contains(wanted), "{value:?}: {error}");
    }
    let own_root = load(b"]\x94h\x00a.").unwrap_err();
    assert!(own_root.to_string().starts_with("segments[0]: a dict"));
    // An entry that holds itself, as its own frames.
    let entry = b"}\x94(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x05\x8c\x04sizeK\x08\x8c\x06streamK\x00";
    let holding = |more: &[u8]| pickle(&[b"}\x8c\x0ddevice_traces]](", entry, more, b"eas."]);
    let frames = load(&holding(b"\x8c\x06framesh\x00u")).unwrap_err();
    assert!(frames.to_string().starts_with("device_traces[0][0].frames: a list of frames"), "{frames}");
    assert_eq!(pickle_error(&holding(b"\x8c\x01xh\x00u")), PickleError::SelfReference);
    assert_eq!(pickle_error(&holding(b"\x8c\x01x]h\x00au")), PickleError::SelfReference);
}

#[test]
fn an_entry_cannot_be_changed_once_it_is_in_a_trace() {
    let entry = b"}\x94(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x05\x8c\x04sizeK\x08\x8c\x06streamK\x00u";
    let file = pickle(&[b"](", entry, b"h\x00K\x01K\x02s0e."]);
    assert!(matches!(pickle_error(&file), PickleError::ChangedAfterUse { opcode: "SETITEM", .. }));
}

#[test]
fn files_whose_work_is_a_square_of_their_size_end_soon() {
    let text = |text: &[u8]| [b"X", (text.len() as u32).to_le_bytes().as_slice(), text, b"\x94"].concat();
    let long = text(&b"x".repeat(1 << 20));
    let entry = |more: &[u8]| {
        [b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x05\x8c\x04sizeK\x08\x8c\x06streamK\x00", more, b"u"].concat()
    };
    let trace = |memo: &[u8], entries: &[u8]| pickle(&[memo, b"0}\x8c\x0ddevice_traces](](", entries, b"ees."]);
    // A long text in every entry, under a known and an unknown key, and in every frame.
    let known = entry(b"\x8c\x0duser_metadatah\x00").repeat(20_000);
    load(&trace(&long, &known)).unwrap();
    let unknown = entry(b"\x8c\x01xh\x00").repeat(20_000);
    load(&trace(&long, &unknown)).unwrap();
    let frames: Vec<u8> = (0..20_000_u16)
        .flat_map(|line| {
            let line = [&b"M"[..], &line.to_le_bytes()].concat();
            let frame = [b"}(\x8c\x04nameh\x00\x8c\x08filenameh\x00\x8c\x04line", line.as_slice(), b"u"];
            entry(&[b"\x8c\x06frames](", frame.concat().as_slice(), b"e"].concat())
        })
        .collect();
    let snapshot = load(&trace(&long, &frames)).unwrap();
    let again = load(&written(&snapshot)).unwrap();
    assert!(again == snapshot);
    // A long list of frames that is none, in every entry.
    let frame = b"}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01f\x8c\x04lineK\x01u\x94";
    let bad = [b"]\x94(", frame.as_slice(), &b"h\x01".repeat(500_000), b"Ne"].concat();
    let entries = entry(b"\x8c\x06framesh\x00").repeat(20_000);
    assert!(load(&trace(&bad, &entries)).is_err());
    // A large dict as every segment.
    let dict = [
        b"}\x94(".to_vec(),
        (0..200_000_u32).flat_map(|key| [b"J".as_slice(), &key.to_le_bytes(), b"N"].concat()).collect(),
        b"u".to_vec(),
    ]
    .concat();
    let file = pickle(&[&dict, b"0](", &b"h\x00".repeat(200_000), b"e."]);
    assert!(load(&file).is_err());
    // Many unknown keys.
    let file = pickle(&[b"}\x94(\x8c\x08segments]", &dict[3..dict.len() - 1], b"u."]);
    assert_eq!(load(&file).unwrap().extra.len(), 200_000);
}
