//! Pickles of plain data: a reader that never executes anything and a writer that keeps sharing.
//!
//! ```
//! use millpond_snapshot::{Plain, pickle};
//!
//! let (values, root) = pickle::read(b"\x80\x04]\x94(K\x01K\x02e.").unwrap();
//! assert!(matches!(values.get(root), Plain::List([_, _])));
//! ```

pub(crate) mod arena;
mod error;
pub(crate) mod import;
pub(crate) mod machine;
mod protocol0;
pub(crate) mod reader;
pub(crate) mod word;
pub(crate) mod writer;

pub use error::PickleError;

use crate::values::{ValueId, Values};
use import::{Importer, NothingFolded};
use machine::{Keep, Machine};

/// Reads a pickle of protocol 0 to 5 that holds plain data; returns its values and the one it
/// stands for.
///
/// # Errors
///
/// Whatever else the file holds or is damaged by is a [`PickleError`]; nothing is executed, and
/// memory stays below 16 times the size of `bytes` and 64 MiB.
pub fn read(bytes: &[u8]) -> Result<(Values, ValueId), PickleError> {
    let mut machine = Machine::new(bytes, Keep);
    let end = reader::run(&mut machine, bytes)?;
    let (root, mut arena, Keep) = machine.finish(end)?;
    let mut values = Values::default();
    let limit = machine::memory_limit(bytes.len());
    let root = Importer::default().import(&mut arena, &NothingFolded, &mut values, root, limit)?;
    Ok((values, root))
}

/// Writes a value as a pickle of protocol 4 (5 where bytes are in it), shared parts once.
///
/// # Errors
///
/// Those of `out`.
pub fn write(values: &Values, root: ValueId, out: impl std::io::Write) -> std::io::Result<()> {
    let mut writer = writer::Writer::new(out, values.has_bytes())?;
    let mut shared = writer::SharedValues::new(values);
    shared.count(values, root);
    shared.write(values, root, &mut writer)?;
    writer.finish()
}
