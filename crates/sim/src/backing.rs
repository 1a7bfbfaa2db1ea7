//! The bytes of memory, where a simulation has them.

use rustc_hash::FxHashMap;

/// Bytes come into being in pages of this size when they are first written.
const PAGE: u64 = 64 << 10;

/// The bytes of one physical allocation; unwritten ones are 0.
#[derive(Debug)]
pub(crate) enum Store {
    /// Inside of this process.
    Pages(FxHashMap<u64, Box<[u8]>>),
}

impl Store {
    pub fn new() -> Self {
        Store::Pages(FxHashMap::default())
    }
}

use crate::calls::CallKind;
use crate::sim::{State, refuse};
use millpond_driver::{Code, Device, Handle, HandleType, Result, Shareable};

impl State {
    pub fn move_bytes(&mut self, _dst: u64, _src: u64, _bytes: u64) {}
    pub fn fill_bytes(&mut self, _dst: u64, _value: u8, _bytes: u64) {}
    pub fn export(&mut self, _handle: Handle, _handle_type: HandleType) -> Result<Shareable> {
        refuse(CallKind::Export, Code::ERROR_NOT_SUPPORTED, "")
    }
    pub fn import(&mut self, _shared: &Shareable, _device: Device) -> Result<Handle> {
        refuse(CallKind::Import, Code::ERROR_NOT_SUPPORTED, "")
    }
}
