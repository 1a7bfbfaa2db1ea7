//! The opcodes of protocol 0, whose arguments are lines of text.

use super::error::PickleError;
use super::machine::{At, Fold, Machine};
use super::word::Word;

/// One opcode with its line.
pub(crate) fn step<F: Fold>(machine: &mut Machine<'_, F>, at: At, opcode: u8, line: &[u8]) -> Result<(), PickleError> {
    let malformed = PickleError::Malformed { offset: at.offset, opcode: at.opcode };
    if opcode == b'V' {
        let text = unescape(line).ok_or(malformed)?;
        let word = machine.arena.keep_text(text.as_bytes());
        return machine.push(word);
    }
    let line = std::str::from_utf8(line).map_err(|_| malformed.clone())?;
    match opcode {
        b'I' if line == "00" => machine.push(Word::bool(false)),
        b'I' if line == "01" => machine.push(Word::bool(true)),
        b'I' | b'L' => {
            let value = decimal(line).ok_or(malformed)?;
            match value.and_then(|value| machine.arena.keep_int(value)) {
                Some(word) => machine.push(word),
                None => Err(PickleError::IntTooBig { offset: at.offset }),
            }
        }
        b'F' => {
            let value = line.trim().parse().map_err(|_| malformed)?;
            let word = machine.arena.keep_float(value);
            machine.push(word)
        }
        b'S' => {
            // Python 2's quoted text. One with escapes is not written by any snapshot.
            let text = quoted(line).ok_or(malformed)?;
            let word = machine.arena.keep_text(text.as_bytes());
            machine.push(word)
        }
        b'p' => {
            let index = line.trim().parse().map_err(|_| malformed)?;
            machine.put(at, index)
        }
        _ => {
            let index = line.trim().parse().map_err(|_| malformed)?;
            machine.get(at, index)
        }
    }
}

/// `None`: not a number. `Some(None)`: a number, but too long for `i128`.
fn decimal(line: &str) -> Option<Option<i128>> {
    let line = line.trim();
    let line = line.strip_suffix('L').unwrap_or(line);
    let digits = line.strip_prefix(['-', '+']).unwrap_or(line);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(line.parse().ok())
}

fn quoted(line: &str) -> Option<&str> {
    let quote = line.chars().next().filter(|&c| c == '\'' || c == '"')?;
    let text = line.strip_prefix(quote)?.strip_suffix(quote)?;
    (text.is_ascii() && !text.contains('\\')).then_some(text)
}

/// Python's raw-unicode-escape: `\uXXXX` and `\UXXXXXXXX`; every other byte is a character of
/// Latin-1.
fn unescape(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let width = match (byte, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(byte.into());
                continue;
            }
        };
        let digits = std::str::from_utf8(tail.get(1..1 + width)?).ok()?;
        text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        rest = &tail[1 + width..];
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_raw_unicode() {
        assert_eq!(unescape(b"a\\u005cb\\U0001f600"), Some("a\\b😀".into()));
        assert_eq!(unescape(b"a\\b\xe9"), Some("a\\bé".into()));
        assert_eq!(unescape(b"\\u00"), None);
        assert_eq!(unescape(b"\\ud800"), None);
    }

    #[test]
    fn numbers_as_python_writes_them() {
        assert_eq!(decimal("-12"), Some(Some(-12)));
        assert_eq!(decimal("18446744073709551615L"), Some(Some(u64::MAX.into())));
        assert_eq!(decimal("1x"), None);
        assert_eq!(decimal(&"9".repeat(99)), Some(None));
    }
}
