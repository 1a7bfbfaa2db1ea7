//! What we write, we read back equal; and so does Python.

mod common;

use common::{all_pickles, python, written};
use millpond_snapshot::Snapshot;

#[test]
fn a_written_snapshot_reads_back_equal() {
    for file in all_pickles() {
        let snapshot = Snapshot::open(&file).unwrap();
        let again = written(&snapshot);
        assert_eq!(Snapshot::from_bytes(&again).unwrap(), snapshot, "{}", file.display());
    }
}

#[test]
fn sharing_is_kept_so_files_do_not_grow() {
    for file in all_pickles() {
        let snapshot = Snapshot::open(&file).unwrap();
        let (before, after) = (common::unpacked(&file).len(), written(&snapshot).len());
        assert!(after * 10 <= before * 11, "{} grew from {before} to {after}", file.display());
    }
}

#[test]
fn snapshots_that_differ_are_not_equal() {
    let [train, oom] = common::examples().map(|file| Snapshot::open(file).unwrap());
    assert_ne!(train, oom);
    let mut other = train.clone();
    assert_eq!(train, other);
    other.device_traces[0][7].size += 1;
    assert_ne!(train, other);
    let mut other = train.clone();
    other.segments[0].blocks[0].stack = Default::default();
    assert_ne!(train, other);
    let mut other = train.clone();
    let key = other.values.str("key");
    other.segments[1].extra.push((key, key));
    assert_ne!(train, other);
}

/// Compares two pickles: everything of the original must stand in ours. Ours may add keys: the
/// newest root keys, and to files of 2023 what their history says of blocks.
const COMPARE: &str = r#"
import gzip, pickle, pickletools, sys

def load(path):
    data = open(path, "rb").read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data, pickle.loads(data)

seen = set()

def same(theirs, ours, added, path="root"):
    if (id(theirs), id(ours)) in seen:
        return
    if isinstance(theirs, (dict, list)):
        seen.add((id(theirs), id(ours)))
    if type(theirs) is not type(ours):
        sys.exit(f"{path}: {type(theirs)} became {type(ours)}")
    if isinstance(theirs, dict):
        for key in theirs:
            same(theirs[key], ours[key], added, f"{path}.{key}")
        added.update(set(ours) - set(theirs))
    elif isinstance(theirs, (list, tuple)):
        if len(theirs) != len(ours):
            sys.exit(f"{path}: {len(theirs)} became {len(ours)}")
        for index, (a, b) in enumerate(zip(theirs, ours)):
            same(a, b, added, f"{path}[{index}]")
    elif theirs != ours:
        sys.exit(f"{path}: {theirs!r} became {ours!r}")

OPCODES = set("""PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST
    DICT APPEND APPENDS SETITEM SETITEMS BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE
    BYTEARRAY8""".split())

_, theirs = load(sys.argv[1])
data, ours = load(sys.argv[2])
added = set()
if isinstance(theirs, list):
    theirs = {"segments": theirs}
same(theirs, ours, added)
if "history" not in theirs["segments"][0]["blocks"][0]:
    added -= {"host_segments", "host_traces"}
    if added:
        sys.exit(f"made up: {added}")
unknown = {op.name for op, _, _ in pickletools.genops(data)} - OPCODES
if unknown:
    sys.exit(f"opcodes the viewer does not take: {unknown}")
print("same")
"#;

#[test]
fn r9_26_python_reads_what_we_write_and_finds_all_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    for file in all_pickles() {
        let snapshot = Snapshot::open(&file).unwrap();
        let ours = folder.path().join("ours.pickle");
        std::fs::write(&ours, written(&snapshot)).unwrap();
        let Some(said) = python(COMPARE, &[&file, &ours]) else {
            return;
        };
        assert_eq!(said, "same\n", "{}", file.display());
    }
}
