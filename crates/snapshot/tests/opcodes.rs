//! Every opcode of the pickle machine, and every error with the offset it names.

mod common;

use common::pickle;
use millpond_snapshot::pickle::{PickleError, read, write};
use millpond_snapshot::{Plain, ValueId, Values};

/// The value as Python would print it.
fn show(values: &Values, id: ValueId) -> String {
    let list = |items: &[ValueId]| -> Vec<String> { items.iter().map(|&item| show(values, item)).collect() };
    match values.get(id) {
        Plain::None => "None".into(),
        Plain::Bool(true) => "True".into(),
        Plain::Bool(false) => "False".into(),
        Plain::Int(value) => value.to_string(),
        Plain::Float(value) => format!("{value:?}"),
        Plain::Str(text) => format!("{text:?}"),
        Plain::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Plain::List(items) => format!("[{}]", list(items).join(", ")),
        Plain::Tuple(items) => format!("({})", list(items).join(", ")),
        Plain::Dict(items) => {
            let pairs: Vec<String> = list(items).chunks(2).map(|pair| format!("{}: {}", pair[0], pair[1])).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

fn value_of(bytes: &[u8]) -> String {
    let (values, root) = read(bytes).unwrap_or_else(|error| panic!("{bytes:?}: {error}"));
    show(&values, root)
}

fn error_of(bytes: &[u8]) -> PickleError {
    match read(bytes) {
        Err(error) => error,
        Ok((values, root)) => panic!("{bytes:?} is {}", show(&values, root)),
    }
}

#[test]
fn numbers() {
    for (bytes, shown) in [
        (&b"N."[..], "None"),
        (b"\x88.", "True"),
        (b"\x89.", "False"),
        (b"K\xff.", "255"),
        (b"M\xff\xff.", "65535"),
        (b"J\xff\xff\xff\xff.", "-1"),
        (b"J\x00\x00\x00\x80.", "-2147483648"),
        (b"\x8a\x00.", "0"),
        (b"\x8a\x01\x80.", "-128"),
        (b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", "9223372036854775807"),
        (b"\x8b\x02\x00\x00\x00\xff\x00.", "255"),
        (b"G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5"),
        (b"I12\n.", "12"),
        (b"I-12\n.", "-12"),
        (b"I01\n.", "True"),
        (b"I00\n.", "False"),
        (b"L123L\n.", "123"),
        (b"F1.5\n.", "1.5"),
        (b"F-inf\n.", "-inf"),
    ] {
        assert_eq!(value_of(bytes), shown, "{bytes:?}");
    }
}

#[test]
fn c73_numbers_of_nine_bytes_and_negative_ones_are_exact() {
    let unsigned = b"\x8a\x09\x00\x00\x00\x00\x00\x80\xff\xff\x00.";
    assert_eq!(value_of(unsigned), 0xffff_8000_0000_0000_u64.to_string());
    let most = b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.";
    assert_eq!(value_of(most), u64::MAX.to_string());
    let least = b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.";
    assert_eq!(value_of(least), i64::MIN.to_string());
    for too_big in [
        &b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."[..],
        b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff.",
        b"L18446744073709551616L\n.",
        b"I-9223372036854775809\n.",
    ] {
        assert_eq!(error_of(too_big), PickleError::IntTooBig { offset: 0 });
    }
}

#[test]
fn texts_and_bytes() {
    for (bytes, shown) in [
        (&b"\x8c\x02ab."[..], "\"ab\""),
        (b"X\x02\x00\x00\x00ab.", "\"ab\""),
        (b"\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab.", "\"ab\""),
        (b"U\x02ab.", "\"ab\""),
        (b"T\x02\x00\x00\x00ab.", "\"ab\""),
        (b"C\x02ab.", "b\"ab\""),
        (b"B\x02\x00\x00\x00ab.", "b\"ab\""),
        (b"\x8e\x02\x00\x00\x00\x00\x00\x00\x00ab.", "b\"ab\""),
        (b"\x96\x02\x00\x00\x00\x00\x00\x00\x00ab.", "b\"ab\""),
        (b"S'ab'\n.", "\"ab\""),
        (b"S\"ab\"\n.", "\"ab\""),
        (b"Va\\u00e9b\n.", "\"aéb\""),
        (b"\x8c\x02\xc3\xa9.", "\"é\""),
    ] {
        assert_eq!(value_of(bytes), shown, "{bytes:?}");
    }
}

#[test]
fn containers() {
    for (bytes, shown) in [
        (&b"]."[..], "[]"),
        (b").", "()"),
        (b"}.", "{}"),
        (b"(l.", "[]"),
        (b"(K\x01K\x02l.", "[1, 2]"),
        (b"(K\x01K\x02t.", "(1, 2)"),
        (b"(K\x01K\x02K\x03K\x04t.", "(1, 2, 3, 4)"),
        (b"(K\x01K\x02d.", "{1: 2}"),
        (b"K\x01\x85.", "(1)"),
        (b"K\x01K\x02\x86.", "(1, 2)"),
        (b"K\x01N\x86.", "(1, None)"),
        (b"J\xff\xff\xff\xffK\x02\x86.", "(-1, 2)"),
        (b"K\x01K\x02K\x03\x87.", "(1, 2, 3)"),
        (b"]K\x01aK\x02a.", "[1, 2]"),
        (b"](K\x01K\x02e(K\x03e.", "[1, 2, 3]"),
        (b"}K\x01K\x02s.", "{1: 2}"),
        (b"}(K\x01K\x02K\x03K\x04u.", "{1: 2, 3: 4}"),
        (b"}(K\x01K\x02K\x03K\x04K\x01K\x05u.", "{1: 5, 3: 4}"),
        (b"}(K\x01K\x02\x86K\x03u.", "{(1, 2): 3}"),
        (b"](e.", "[]"),
    ] {
        assert_eq!(value_of(bytes), shown, "{bytes:?}");
    }
}

#[test]
fn the_stack_and_the_memo() {
    for (bytes, shown) in [
        (&b"K\x01K\x020."[..], "1"),
        (b"K\x01(K\x02K\x031.", "1"),
        (b"K\x01(0.", "1"),
        (b"K\x012\x86.", "(1, 1)"),
        (b"]\x94K\x01ah\x00\x86.", "([1], [1])"),
        (b"]q\x07K\x01ah\x07\x86.", "([1], [1])"),
        (b"]r\x00\x01\x00\x00K\x01aj\x00\x01\x00\x00\x86.", "([1], [1])"),
        (b"]p12\nK\x01ag12\n\x86.", "([1], [1])"),
        (b"\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x01.", "1"),
        (b"\x80\x02N.", "None"),
        (b"N.\0\0", "None"),
    ] {
        assert_eq!(value_of(bytes), shown, "{bytes:?}");
    }
}

#[test]
fn a_shared_list_that_grows_later_grows_everywhere() {
    // a = []; b = [a]; a.append(1): Python writes a before b is finished.
    assert_eq!(value_of(b"]\x94]\x94h\x00ah\x00K\x01a0."), "[[1]]");
}

#[test]
fn code_is_refused_where_it_stands() {
    for (bytes, offset, opcode) in [
        (&b"cos\nsystem\n."[..], 0, "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93.", 12, "STACK_GLOBAL"),
        (b"K\x01)R.", 3, "REDUCE"),
        (b"K\x01}b.", 3, "BUILD"),
        (b"(ios\nsystem\n.", 1, "INST"),
        (b"(K\x01o.", 3, "OBJ"),
        (b"K\x01)\x81.", 3, "NEWOBJ"),
        (b"K\x01)}\x92.", 4, "NEWOBJ_EX"),
        (b"\x82\x01.", 0, "EXT1"),
        (b"\x83\x01\x00.", 0, "EXT2"),
        (b"\x84\x01\x00\x00\x00.", 0, "EXT4"),
    ] {
        assert_eq!(error_of(bytes), PickleError::Code { offset, opcode }, "{bytes:?}");
    }
}

#[test]
fn what_is_no_plain_data_is_refused_where_it_stands() {
    for (bytes, offset, opcode) in [
        (&b"P12\n."[..], 0, "PERSID"),
        (b"K\x01Q.", 2, "BINPERSID"),
        (b"\x8f.", 0, "EMPTY_SET"),
        (b"\x8f(K\x01\x90.", 0, "EMPTY_SET"),
        (b"(K\x01\x91.", 3, "FROZENSET"),
        (b"\x97.", 0, "NEXT_BUFFER"),
        (b"K\x01\x98.", 2, "READONLY_BUFFER"),
    ] {
        assert_eq!(error_of(bytes), PickleError::NotPlain { offset, opcode }, "{bytes:?}");
    }
}

#[test]
fn damage_is_named_with_its_offset() {
    use PickleError::*;
    for (bytes, error) in [
        (&b""[..], NoStop { offset: 0 }),
        (b"N", NoStop { offset: 1 }),
        (b"\xff.", UnknownOpcode { offset: 0, byte: 0xff }),
        (b"\x80\x06N.", Protocol { offset: 0, version: 6 }),
        (b"N.N", TrailingBytes { offset: 2, count: 1 }),
        (b"N.\0\0\0", TrailingBytes { offset: 2, count: 3 }),
        (b"\x8c\x05ab.", Truncated { offset: 0, opcode: "SHORT_BINUNICODE", needed: 5, left: 3 }),
        (
            b"\x8d\x00\x00\x00\x00\x00\x00\x00\x80ab.",
            Truncated { offset: 0, opcode: "BINUNICODE8", needed: 1 << 63, left: 3 },
        ),
        (
            b"\x96\xff\xff\xff\xff\xff\xff\xff\xff.",
            Truncated { offset: 0, opcode: "BYTEARRAY8", needed: u64::MAX, left: 1 },
        ),
        (b"\x95\x00\x00\x00\x00\x00\x00\x00\x80N.", Truncated { offset: 0, opcode: "FRAME", needed: 1 << 63, left: 2 }),
        (b"K", Truncated { offset: 0, opcode: "BININT1", needed: 1, left: 0 }),
        (b"I12", Truncated { offset: 0, opcode: "INT", needed: 3, left: 2 }),
        (b".", StackUnderflow { offset: 0, opcode: "STOP" }),
        (b"(.", StackUnderflow { offset: 1, opcode: "STOP" }),
        (b"0.", StackUnderflow { offset: 0, opcode: "POP" }),
        (b"2.", StackUnderflow { offset: 0, opcode: "DUP" }),
        (b"\x94.", StackUnderflow { offset: 0, opcode: "MEMOIZE" }),
        (b"]a.", StackUnderflow { offset: 1, opcode: "APPEND" }),
        (b"K\x01](a.", StackUnderflow { offset: 4, opcode: "APPEND" }),
        (b"K\x01\x86.", StackUnderflow { offset: 2, opcode: "TUPLE2" }),
        (b"(e.", StackUnderflow { offset: 1, opcode: "APPENDS" }),
        (b"}K\x01s.", StackUnderflow { offset: 3, opcode: "SETITEM" }),
        (b"e.", NoMark { offset: 0, opcode: "APPENDS" }),
        (b"u.", NoMark { offset: 0, opcode: "SETITEMS" }),
        (b"d.", NoMark { offset: 0, opcode: "DICT" }),
        (b"t.", NoMark { offset: 0, opcode: "TUPLE" }),
        (b"1.", NoMark { offset: 0, opcode: "POP_MARK" }),
        (b"h\x05.", NoMemo { offset: 0, index: 5 }),
        (b"Nq\x05h\x04.", NoMemo { offset: 3, index: 4 }),
        (b"g5\n.", NoMemo { offset: 0, index: 5 }),
        (b"K\x01K\x02a.", WrongContainer { offset: 4, opcode: "APPEND", wanted: "list" }),
        (b"](K\x01K\x02u.", WrongContainer { offset: 6, opcode: "SETITEMS", wanted: "dict" }),
        (b"}(K\x01u.", KeyWithoutValue { offset: 4, opcode: "SETITEMS" }),
        (b"(K\x01d.", KeyWithoutValue { offset: 3, opcode: "DICT" }),
        (b"\x8c\x01\xff.", Utf8 { offset: 0 }),
        (b"I1x\n.", Malformed { offset: 0, opcode: "INT" }),
        (b"Fx\n.", Malformed { offset: 0, opcode: "FLOAT" }),
        (b"S'a\\n'\n.", Malformed { offset: 0, opcode: "STRING" }),
        (b"Sab\n.", Malformed { offset: 0, opcode: "STRING" }),
        (b"V\\ud800\n.", Malformed { offset: 0, opcode: "UNICODE" }),
        (b"]px\n.", Malformed { offset: 1, opcode: "PUT" }),
        (b"]\x94h\x00a.", SelfReference),
        (b"]\x94h\x00\x85a.", SelfReference),
        (b"}\x94K\x01h\x00s.", SelfReference),
        (b"}]K\x01s.", UnhashableKey),
        (b"}(]\x85K\x01u.", UnhashableKey),
        (b"}(}K\x01u.", UnhashableKey),
        (b"}(C\x01aK\x01u.", UnhashableKey),
    ] {
        assert_eq!(error_of(bytes), error, "{bytes:?}");
    }
}

#[test]
fn every_byte_after_a_valid_beginning_is_an_opcode_or_a_named_error() {
    for byte in 0..=255 {
        let file = pickle(&[b"\x80\x04](K\x01}", &[byte], b"\x01\x01\x01\x01\x01\x01\x01\x01e."]);
        if let Err(error) = read(&file) {
            assert!(error.to_string().len() > 20, "{error}");
        }
    }
}

#[test]
fn a_value_is_written_with_its_shared_parts_once() {
    let mut values = Values::default();
    let text = values.str("a text that comes twice");
    let inner = values.list(&[text, text]);
    let key = values.str("key");
    let dict = values.dict(&[key, inner]);
    let root = values.tuple(&[inner, dict, inner]);
    let mut file = Vec::new();
    write(&values, root, &mut file).unwrap();
    let needle = b"a text that comes twice";
    let found = file.windows(needle.len()).filter(|window| window == needle);
    assert_eq!(found.count(), 1);
    let (again, again_root) = read(&file).unwrap();
    assert_eq!(show(&again, again_root), show(&values, root));
}

#[test]
fn errors_are_sentences_with_the_place() {
    assert_eq!(
        error_of(b"cos\nsystem\n.").to_string(),
        "byte 0: GLOBAL asks to import or call Python code, which was not done; a memory snapshot \
         holds plain data only, so this is not one, or it has been tampered with"
    );
    assert_eq!(
        error_of(b"\x8c\x05ab.").to_string(),
        "byte 0: SHORT_BINUNICODE needs 5 more bytes but only 3 are left; the file is cut off or \
         damaged"
    );
}
