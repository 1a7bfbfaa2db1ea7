//! What a file is, told from its first bytes and not from its name.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use millpond_snapshot::Unpacked;

use crate::codes::Code;
use crate::failure::{Failure, is_damage};

/// A file that was looked into, still to be read from its start. Pipes are files too, so it is opened once.
pub enum Content {
    /// A memory snapshot: a pickle or JSON.
    Snapshot(Whole),
    /// Requests.
    Workload(Whole),
}

/// All bytes of a file.
pub type Whole = io::Chain<io::Cursor<Vec<u8>>, File>;

/// How many bytes of a file are looked at: a packed block of zstd, which is 128 KiB at most, lies in them whole.
const LOOK: u64 = 1 << 18;

/// Looks into a file.
pub fn of(path: &Path) -> Result<Content, Failure> {
    let unreadable = |error| Failure::unreadable(path, &error);
    // Opening a folder succeeds on some systems, and reading it fails.
    let mut file = File::open(path).map_err(unreadable)?;
    let mut head = Vec::new();
    file.by_ref().take(LOOK).read_to_end(&mut head).map_err(unreadable)?;
    let mut start = Vec::new();
    let unpacked = Unpacked::new(head.as_slice(), None).and_then(|head| head.take(LOOK).read_to_end(&mut start));
    match unpacked {
        // Only the head was unpacked, so its end is no damage: whoever reads the file says where that is.
        Err(error) if start.is_empty() && is_damage(&error) => {
            let error = format!("it begins as packed data but cannot be unpacked: {error}; it is cut off or damaged");
            return Err(Failure::at(Code::DamagedPacking, path, error));
        }
        _ => {}
    }
    let is_empty = head.is_empty();
    let whole = io::Cursor::new(head).chain(file);
    match kind(&start) {
        Kind::Snapshot => Ok(Content::Snapshot(whole)),
        Kind::Workload => Ok(Content::Workload(whole)),
        Kind::Unknown if is_empty => Err(Failure::at(Code::EmptyFile, path, "the file is empty")),
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
    Unknown,
}

fn kind(start: &[u8]) -> Kind {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = start.trim_ascii_start();
    match text.first() {
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
            (&b""[..], Kind::Unknown),
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
