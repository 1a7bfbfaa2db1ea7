//! What a file is, told from its first bytes and not from its name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use millpond_replay::workload::Unpacked;

use crate::codes::Code;
use crate::failure::{Failure, is_damage};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A memory snapshot: a pickle or JSON.
    Snapshot,
    /// Requests.
    Workload,
}

/// How much of a file is looked at.
const LOOK: u64 = 1 << 16;

/// Looks into a file.
pub fn of(path: &Path) -> Result<Content, Failure> {
    // Opening a folder succeeds on some systems, and reading it fails.
    let file = File::open(path).map_err(|error| Failure::unreadable(path, &error))?;
    let mut start = Vec::new();
    let read = Unpacked::new(file, Some(u64::MAX)).and_then(|unpacked| unpacked.take(LOOK).read_to_end(&mut start));
    match read {
        Ok(_) => {}
        // What follows the damage does not matter here: whoever reads the file says where it is.
        Err(error) if is_damage(&error) && !start.is_empty() => {}
        Err(error) if is_damage(&error) => {
            let error = format!("it begins as packed data but cannot be unpacked: {error}; it is cut off or damaged");
            return Err(Failure::at(Code::DamagedPacking, path, error));
        }
        Err(error) => return Err(Failure::unreadable(path, &error)),
    }
    match kind(&start) {
        Kind::Snapshot => Ok(Content::Snapshot),
        Kind::Workload => Ok(Content::Workload),
        Kind::Empty => Err(Failure::at(Code::EmptyFile, path, "the file is empty")),
        Kind::Outcome => {
            let failure =
                Failure::at(Code::UnknownContent, path, "this is the recording of an outcome, not a workload");
            Err(failure.help("give the *.req.jsonl beside it, or compare with `millpond parity`"))
        }
        Kind::Unknown => Err(Failure::at(Code::UnknownContent, path, "this is neither a snapshot nor a workload")),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Snapshot,
    Workload,
    Outcome,
    Empty,
    Unknown,
}

fn kind(start: &[u8]) -> Kind {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = start.trim_ascii_start();
    match text.first() {
        None if start.is_empty() => Kind::Empty,
        None => Kind::Unknown,
        // A list is a snapshot of the oldest form.
        Some(b'[') => Kind::Snapshot,
        Some(b'{') => object(text),
        // The opcodes that pickles of all protocols begin with: PROTO, and of protocol 0 and 1 MARK, an empty list or dict.
        Some(0x80 | b'(' | b']' | b'}') => Kind::Snapshot,
        Some(_) => Kind::Unknown,
    }
}

/// An object on a line of its own is a request or the header of an outcome; else it is a snapshot.
fn object(text: &[u8]) -> Kind {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or(text);
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line) {
        Ok(object) if object.contains_key("op") => Kind::Workload,
        Ok(object) if object.contains_key("va_base") => Kind::Outcome,
        // A first line that is damaged or longer than the look.
        Err(_) if line.starts_with(b"{\"op\"") => Kind::Workload,
        _ => Kind::Snapshot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_what_they_hold() {
        for (start, expected) in [
            (&b""[..], Kind::Empty),
            (b"\x80\x04\x95", Kind::Snapshot),
            (b"(dp0\n", Kind::Snapshot),
            (b"[]", Kind::Snapshot),
            (b"{\"segments\": [", Kind::Snapshot),
            (b"{\n  \"segments\": [", Kind::Snapshot),
            (b"{\"op\":\"alloc\",\"id\":0,\"size\":512}\n", Kind::Workload),
            (b"\xef\xbb\xbf\n {\"size\": 512, \"op\": \"alloc\"}", Kind::Workload),
            (b"{\"op\":\"launch\",\"reads\":[1,2,", Kind::Workload),
            (b"{\"scenario\":\"x\",\"va_base\":0}\n", Kind::Outcome),
            (b"# Readme", Kind::Unknown),
            (b"\n\n", Kind::Unknown),
            (b"\x7fELF", Kind::Unknown),
        ] {
            assert_eq!(kind(start), expected, "{}", start.escape_ascii());
        }
    }
}
