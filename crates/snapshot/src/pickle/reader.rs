//! From the bytes of a pickle to the steps of the machine: one opcode after the other.

use super::arena::{Kind, long};
use super::error::PickleError;
use super::machine::{At, Fold, Machine};
use super::protocol0;
use super::word::Word;

/// The newest protocol there is.
const NEWEST_PROTOCOL: u8 = 5;

/// NULs that may follow a pickle: PyTorch's viewer page pads to a multiple of three (R9.31).
const PADDING: usize = 2;

/// The bytes of a pickle, read from the front.
pub(crate) struct Reader<'a> {
    input: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    fn take(&mut self, at: At, count: u64) -> Result<&'a [u8], PickleError> {
        let rest = &self.input[self.position..];
        let taken = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let Some(taken) = taken else {
            return Err(PickleError::Truncated {
                offset: at.offset,
                opcode: at.opcode,
                needed: count,
                left: rest.len(),
            });
        };
        self.position += taken.len();
        Ok(taken)
    }

    /// An unsigned number of `width` bytes, little end first.
    fn number(&mut self, at: At, width: u64) -> Result<u64, PickleError> {
        let bytes = self.take(at, width)?;
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(wide))
    }

    /// The bytes up to the next line end, which is passed over.
    pub fn line(&mut self, at: At) -> Result<&'a [u8], PickleError> {
        let rest = &self.input[self.position..];
        let Some(len) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(PickleError::Truncated {
                offset: at.offset,
                opcode: at.opcode,
                needed: rest.len() as u64 + 1,
                left: rest.len(),
            });
        };
        self.position += len + 1;
        Ok(&rest[..len])
    }

    /// Passes over what an opcode with a length of `width` bytes holds; a text must be UTF-8.
    fn counted(&mut self, at: At, width: u64, is_text: bool) -> Result<(), PickleError> {
        let len = self.number(at, width)?;
        let bytes = self.take(at, len)?;
        if is_text && std::str::from_utf8(bytes).is_err() {
            return Err(PickleError::Utf8 { offset: at.offset });
        }
        Ok(())
    }
}

/// Runs a whole pickle; the value it stands for is on top of the machine's stack.
pub(crate) fn run<'a, F: Fold>(machine: &mut Machine<'a, F>, input: &'a [u8]) -> Result<At, PickleError> {
    let mut reader = Reader { input, position: 0 };
    loop {
        let offset = reader.position;
        let Some(&opcode) = input.get(offset) else {
            return Err(PickleError::NoStop { offset });
        };
        reader.position += 1;
        let at = At { offset, opcode: name(opcode) };
        if opcode == b'.' {
            check_rest(&input[reader.position..], reader.position)?;
            return Ok(at);
        }
        step(machine, &mut reader, at, opcode)?;
    }
}

fn check_rest(rest: &[u8], offset: usize) -> Result<(), PickleError> {
    if rest.len() <= PADDING && rest.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(PickleError::TrailingBytes { offset, count: rest.len() })
}

fn step<F: Fold>(machine: &mut Machine<'_, F>, reader: &mut Reader<'_>, at: At, opcode: u8) -> Result<(), PickleError> {
    match opcode {
        // Most frequent first: what a snapshot is made of.
        b'h' => {
            let index = reader.number(at, 1)?;
            machine.get(at, index)
        }
        b'j' => {
            let index = reader.number(at, 4)?;
            machine.get(at, index)
        }
        0x94 => machine.memoize(at),
        b'q' => {
            let index = reader.number(at, 1)?;
            machine.put(at, index)
        }
        b'r' => {
            let index = reader.number(at, 4)?;
            machine.put(at, index)
        }

        // Numbers.
        b'K' => small_int(machine, reader.number(at, 1)? as i64),
        b'M' => small_int(machine, reader.number(at, 2)? as i64),
        b'J' => small_int(machine, (reader.number(at, 4)? as u32 as i32).into()),
        0x8a => {
            let len = reader.number(at, 1)?;
            let bytes = reader.take(at, len)?;
            long_int(machine, at, bytes)
        }
        0x8b => {
            let len = reader.number(at, 4)?;
            let bytes = reader.take(at, len)?;
            long_int(machine, at, bytes)
        }
        b'G' => {
            reader.take(at, 8)?;
            machine.push(Word::float(at.offset))
        }
        b'N' => machine.push(Word::NONE),
        0x88 => machine.push(Word::bool(true)),
        0x89 => machine.push(Word::bool(false)),

        // Texts and bytes.
        0x8c | b'U' => text(machine, reader, at, 1),
        b'X' | b'T' => text(machine, reader, at, 4),
        0x8d => text(machine, reader, at, 8),
        b'C' => bytes(machine, reader, at, 1),
        b'B' => bytes(machine, reader, at, 4),
        0x8e | 0x96 => bytes(machine, reader, at, 8),

        // Containers.
        b'(' => machine.mark(),
        b']' => machine.push_empty(Kind::List),
        b')' => machine.push_empty(Kind::Tuple),
        b'}' => machine.push_empty(Kind::Dict),
        b'l' => machine.gather(at, Kind::List),
        b't' => machine.gather(at, Kind::Tuple),
        b'd' => machine.gather_dict(at),
        0x85 => machine.tuple(at, 1),
        0x86 => machine.tuple(at, 2),
        0x87 => machine.tuple(at, 3),
        b'a' => machine.append(at),
        b'e' => machine.appends(at),
        b's' => machine.set_item(at),
        b'u' => machine.set_items(at),
        b'0' => machine.pop_value_or_mark(at),
        b'1' => machine.pop_mark(at),
        b'2' => machine.duplicate(at),

        // The frame of the file itself.
        0x80 => match reader.number(at, 1)? as u8 {
            version if version <= NEWEST_PROTOCOL => Ok(()),
            version => Err(PickleError::Protocol { offset: at.offset, version }),
        },
        0x95 => {
            let len = reader.number(at, 8)?;
            let left = reader.input.len() - reader.position;
            if len > left as u64 {
                return Err(PickleError::Truncated { offset: at.offset, opcode: at.opcode, needed: len, left });
            }
            Ok(())
        }

        b'I' | b'L' | b'F' | b'S' | b'V' | b'p' | b'g' => {
            let line = reader.line(at)?;
            protocol0::step(machine, at, opcode, line)
        }

        b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | 0x82 | 0x83 | 0x84 => {
            Err(PickleError::Code { offset: at.offset, opcode: at.opcode })
        }
        b'P' | b'Q' | 0x8f | 0x90 | 0x91 | 0x97 | 0x98 => {
            Err(PickleError::NotPlain { offset: at.offset, opcode: at.opcode })
        }
        byte => Err(PickleError::UnknownOpcode { offset: at.offset, byte }),
    }
}

fn small_int<F: Fold>(machine: &mut Machine<'_, F>, value: i64) -> Result<(), PickleError> {
    machine.push(Word::int(value).unwrap_or(Word::NONE))
}

fn long_int<F: Fold>(machine: &mut Machine<'_, F>, at: At, bytes: &[u8]) -> Result<(), PickleError> {
    let word = long(bytes).and_then(|value| machine.arena.keep_int(value));
    match word {
        Some(word) => machine.push(word),
        None => Err(PickleError::IntTooBig { offset: at.offset }),
    }
}

fn text<F: Fold>(machine: &mut Machine<'_, F>, reader: &mut Reader<'_>, at: At, width: u64) -> Result<(), PickleError> {
    reader.counted(at, width, true)?;
    machine.push(Word::text(at.offset))
}

fn bytes<F: Fold>(
    machine: &mut Machine<'_, F>,
    reader: &mut Reader<'_>,
    at: At,
    width: u64,
) -> Result<(), PickleError> {
    reader.counted(at, width, false)?;
    machine.push(Word::bytes(at.offset))
}

/// An opcode's name in Python's `pickletools`.
fn name(opcode: u8) -> &'static str {
    match opcode {
        b'(' => "MARK",
        b')' => "EMPTY_TUPLE",
        b'.' => "STOP",
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'B' => "BINBYTES",
        b'C' => "SHORT_BINBYTES",
        b'F' => "FLOAT",
        b'G' => "BINFLOAT",
        b'I' => "INT",
        b'J' => "BININT",
        b'K' => "BININT1",
        b'L' => "LONG",
        b'M' => "BININT2",
        b'N' => "NONE",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        b'R' => "REDUCE",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'X' => "BINUNICODE",
        b']' => "EMPTY_LIST",
        b'a' => "APPEND",
        b'b' => "BUILD",
        b'c' => "GLOBAL",
        b'd' => "DICT",
        b'e' => "APPENDS",
        b'g' => "GET",
        b'h' => "BINGET",
        b'i' => "INST",
        b'j' => "LONG_BINGET",
        b'l' => "LIST",
        b'o' => "OBJ",
        b'p' => "PUT",
        b'q' => "BINPUT",
        b'r' => "LONG_BINPUT",
        b's' => "SETITEM",
        b't' => "TUPLE",
        b'u' => "SETITEMS",
        b'}' => "EMPTY_DICT",
        0x80 => "PROTO",
        0x81 => "NEWOBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x85 => "TUPLE1",
        0x86 => "TUPLE2",
        0x87 => "TUPLE3",
        0x88 => "NEWTRUE",
        0x89 => "NEWFALSE",
        0x8a => "LONG1",
        0x8b => "LONG4",
        0x8c => "SHORT_BINUNICODE",
        0x8d => "BINUNICODE8",
        0x8e => "BINBYTES8",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x92 => "NEWOBJ_EX",
        0x93 => "STACK_GLOBAL",
        0x94 => "MEMOIZE",
        0x95 => "FRAME",
        0x96 => "BYTEARRAY8",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => "an unknown opcode",
    }
}
