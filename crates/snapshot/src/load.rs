//! Opening a snapshot: plain, gzip or zstd; a pickle or JSON.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::convert::folder::Folder;
use crate::convert::{self, ModelError};
use crate::json::{self, JsonError};
use crate::model::Snapshot;
use crate::packed::{EXPANSION, TooMuch, Unpacked};
use crate::pickle::machine::{At, Machine, memory_limit};
use crate::pickle::{PickleError, reader};

/// Why a file could not be opened as a snapshot.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("the file is empty; the program may have died before it had written its snapshot")]
    Empty,
    /// Packed data is damaged.
    #[error("the file begins as {format} but cannot be unpacked: {source}; it is cut off or damaged")]
    Unpack {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Packed data unpacks to too much.
    #[error(
        "{packed} bytes of {format} unpack to more than {allowed} bytes, {EXPANSION} times as much; \
         if the file can be trusted, unpack it first or allow the expansion"
    )]
    Expansion {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Bytes of the file.
        packed: u64,
        /// Bytes it may unpack to.
        allowed: u64,
    },
    /// It is not a pickle of plain data.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// It begins like JSON but is not.
    #[error("the file begins as JSON but is not: {0}")]
    Json(#[source] serde_json::Error),
    /// It is plain data, but not a snapshot.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// How a snapshot is opened.
///
/// ```no_run
/// use millpond_snapshot::LoadOptions;
///
/// let snapshot = LoadOptions::default().allow_expansion(true).open("snapshot.pickle.zst")?;
/// # Ok::<(), millpond_snapshot::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    allow_expansion: bool,
}

impl LoadOptions {
    /// Whether a packed file may unpack to more than 64 times its size. Memory is then bounded by
    /// what it unpacks to.
    pub fn allow_expansion(mut self, allow: bool) -> Self {
        self.allow_expansion = allow;
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, unpacked or parsed, or is not a snapshot.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Snapshot, LoadError> {
        let path = path.as_ref();
        let bytes = read_file(path).map_err(|source| LoadError::Io { path: path.into(), source })?;
        let unpacked = self.unpack(&bytes)?;
        match unpacked {
            None => parse(&bytes),
            Some(unpacked) => {
                drop(bytes);
                parse(&unpacked)
            }
        }
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    ///
    /// The bytes cannot be unpacked or parsed, or are not a snapshot.
    pub fn read(self, bytes: &[u8]) -> Result<Snapshot, LoadError> {
        match self.unpack(bytes)? {
            None => parse(bytes),
            Some(unpacked) => parse(&unpacked),
        }
    }

    /// The unpacked bytes; `None` when they are not packed.
    fn unpack(self, bytes: &[u8]) -> Result<Option<Vec<u8>>, LoadError> {
        let packed = bytes.len() as u64;
        let known = match bytes {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
            _ => "gzip",
        };
        let damaged = |source: io::Error| match source.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(TooMuch(factor)) => {
                LoadError::Expansion { format: known, packed, allowed: packed.saturating_mul(*factor) }
            }
            None => LoadError::Unpack { format: known, source },
        };
        let mut unpacker = Unpacked::new(bytes, (!self.allow_expansion).then_some(EXPANSION)).map_err(damaged)?;
        if unpacker.format().is_none() {
            return Ok(None);
        }
        let mut unpacked = Vec::new();
        unpacker.read_to_end(&mut unpacked).map_err(damaged)?;
        Ok(Some(unpacked))
    }
}

impl Snapshot {
    /// Opens a file: plain, gzip or zstd; a pickle or JSON. See [`LoadOptions`].
    ///
    /// # Errors
    ///
    /// The file cannot be read, unpacked or parsed, or is not a snapshot.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        LoadOptions::default().open(path)
    }

    /// Reads a file's bytes: plain, gzip or zstd; a pickle or JSON. See [`LoadOptions`].
    ///
    /// # Errors
    ///
    /// The bytes cannot be unpacked or parsed, or are not a snapshot.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        LoadOptions::default().read(bytes)
    }
}

/// Reads a file whole, without room to spare.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX)).map_err(io::Error::other)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Snapshot, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    let limit = memory_limit(bytes.len());
    let mut machine = Machine::new(bytes, Folder::new(limit));
    let end = run(&mut machine, bytes)?;
    let (root, arena, folder) = machine.finish(end)?;
    Ok(convert::snapshot(arena, folder, root, limit)?)
}

fn run<'a>(machine: &mut Machine<'a, Folder>, bytes: &'a [u8]) -> Result<At, LoadError> {
    if !json::looks_like_json(bytes) {
        return Ok(reader::run(machine, bytes)?);
    }
    json::run(machine, bytes).map_err(|error| match error {
        JsonError::Syntax(error) => LoadError::Json(error),
        JsonError::Machine(error) => LoadError::Pickle(error),
    })
}
