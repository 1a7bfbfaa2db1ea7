//! Plain, gzip and zstd files behind one face, with a bound on how much a packed one may become.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use crate::zstd::Frames;

/// What an unpacked file may always have, bytes: a tiny file may be packed better than any bound.
const ALWAYS: u64 = 1 << 20;

/// How many times its packed size a file may unpack to, unless asked for more.
pub const EXPANSION: u64 = 64;

/// Counts what was read of the packed file.
struct Counted<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.read.set(self.read.get() + n as u64);
        Ok(n)
    }
}

/// A file as it was before it was packed: plain, gzip or zstd, told by its first bytes.
pub struct Unpacked<'a> {
    inner: Box<dyn Read + 'a>,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
    factor: Option<u64>,
    format: Option<&'static str>,
}

/// A file unpacks to too much: what the `io::Error` of a read holds then.
#[derive(Debug, thiserror::Error)]
#[error("unpacks beyond {0} times its packed size")]
pub struct TooMuch(pub u64);

impl<'a> Unpacked<'a> {
    /// Unpacks `source` if its first bytes are those of gzip or zstd. More than `factor` times what was read of it (and more
    /// than 1 MiB) is an error; `None` sets no bound.
    ///
    /// # Errors
    /// The source's own.
    pub fn new(source: impl Read + 'a, factor: Option<u64>) -> io::Result<Self> {
        let packed = Rc::<Cell<u64>>::default();
        let mut source = BufReader::with_capacity(1 << 16, Counted { inner: source, read: packed.clone() });
        let (inner, format): (Box<dyn Read + 'a>, _) = match source.fill_buf()? {
            [0x1f, 0x8b, ..] => (Box::new(flate2::bufread::MultiGzDecoder::new(source)), "gzip"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => (Box::new(Frames::new(source)), "zstd"),
            _ => return Ok(Unpacked { inner: Box::new(source), packed, unpacked: 0, factor: None, format: None }),
        };
        Ok(Unpacked { inner, packed, unpacked: 0, factor, format: Some(format) })
    }

    /// `gzip` or `zstd`; `None` for a plain file.
    pub fn format(&self) -> Option<&'static str> {
        self.format
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.unpacked += n as u64;
        match self.factor {
            Some(factor) if self.unpacked > self.packed.get().saturating_mul(factor).max(ALWAYS) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, TooMuch(factor)))
            }
            _ => Ok(n),
        }
    }
}

impl std::fmt::Debug for Unpacked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked")
            .field("unpacked", &self.unpacked)
            .field("factor", &self.factor)
            .finish_non_exhaustive()
    }
}
