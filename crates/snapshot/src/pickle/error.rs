//! What can be wrong with a pickle.

use thiserror::Error;

/// Why a file is not a pickle of plain data. Offsets count bytes from the start of the unpacked
/// file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PickleError {
    /// An opcode that builds objects or calls functions. Nothing was executed.
    #[error(
        "byte {offset}: {opcode} asks to import or call Python code, which was not done; a memory \
         snapshot holds plain data only, so this is not one, or it has been tampered with"
    )]
    Code {
        /// Where the opcode stands.
        offset: usize,
        /// Its name in Python's `pickletools`.
        opcode: &'static str,
    },
    /// An opcode for data that no snapshot holds: sets, persistent ids, buffers outside the file.
    #[error(
        "byte {offset}: {opcode} is not plain data; allowed are None, booleans, integers, floats, \
         texts, bytes, lists, tuples and dicts"
    )]
    NotPlain {
        /// Where the opcode stands.
        offset: usize,
        /// Its name in Python's `pickletools`.
        opcode: &'static str,
    },
    /// A byte that is no opcode.
    #[error("byte {offset}: 0x{byte:02x} is not a pickle opcode; the file is damaged or not a pickle")]
    UnknownOpcode {
        /// Where it stands.
        offset: usize,
        /// The byte.
        byte: u8,
    },
    /// A protocol that does not exist yet.
    #[error("byte {offset}: pickle protocol {version} is unknown; protocols 0 to 5 can be read")]
    Protocol {
        /// Where it stands.
        offset: usize,
        /// The protocol.
        version: u8,
    },
    /// An argument goes past the end of the file.
    #[error(
        "byte {offset}: {opcode} needs {needed} more bytes but only {left} are left; the file is \
         cut off or damaged"
    )]
    Truncated {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
        /// Bytes its argument needs.
        needed: u64,
        /// Bytes there are.
        left: usize,
    },
    /// The file ends before the pickle does.
    #[error("byte {offset}: the file ends without STOP; it is cut off")]
    NoStop {
        /// Length of the file.
        offset: usize,
    },
    /// Something follows the pickle.
    #[error("byte {offset}: {count} bytes follow the end of the pickle; a snapshot is a single pickle")]
    TrailingBytes {
        /// Where they begin.
        offset: usize,
        /// How many there are.
        count: usize,
    },
    /// An opcode takes more values than there are.
    #[error("byte {offset}: {opcode} takes more values than there are; the file is damaged")]
    StackUnderflow {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// An opcode takes the values since the last MARK, and there is none.
    #[error("byte {offset}: {opcode} without a MARK before it; the file is damaged")]
    NoMark {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// A value is taken from the memo that was never put there.
    #[error("byte {offset}: memo entry {index} is used but was never set; the file is damaged")]
    NoMemo {
        /// Where the opcode stands.
        offset: usize,
        /// The entry.
        index: u64,
    },
    /// Items are added to something that does not take them.
    #[error("byte {offset}: {opcode} adds to something that is not a {wanted}")]
    WrongContainer {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
        /// What it adds to.
        wanted: &'static str,
    },
    /// A dict's last key has no value.
    #[error("byte {offset}: {opcode} has a key without a value; the file is damaged")]
    KeyWithoutValue {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// A text is not UTF-8.
    #[error("byte {offset}: a text is not valid UTF-8; the file is damaged")]
    Utf8 {
        /// Where its opcode stands.
        offset: usize,
    },
    /// A number or text of protocol 0 is not written as Python writes it.
    #[error("byte {offset}: the argument of {opcode} cannot be read; the file is damaged")]
    Malformed {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// An integer outside `i64::MIN..=u64::MAX`.
    #[error(
        "byte {offset}: an integer is outside -2^63 .. 2^64 - 1; no address, size or time of a \
         snapshot is that large"
    )]
    IntTooBig {
        /// Where its opcode stands.
        offset: usize,
    },
    /// A container is changed after another value was made from it.
    #[error(
        "byte {offset}: {opcode} changes a container that is already part of a finished value; \
         only a container that holds itself is written like this, and a snapshot has none"
    )]
    ChangedAfterUse {
        /// Where the opcode stands.
        offset: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// A container holds itself.
    #[error("a container holds itself; a snapshot is a tree with shared parts")]
    SelfReference,
    /// A dict's key is a container that can change.
    #[error("a dict has a list, a dict or bytes as a key; allowed are texts, numbers and tuples")]
    UnhashableKey,
    /// Reading would need more memory than a file of this size may take.
    #[error(
        "reading would take more memory than a file of this size may ask for, 16 times its size and 64 MiB; it is \
         built to exhaust memory"
    )]
    OutOfBounds,
}
