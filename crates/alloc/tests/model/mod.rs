//! A model of the allocator, written from the law alone (`spec/pytorch-allocator.md`): flat lists, linear searches, sorts by
//! the law's order. Slow and obviously right; it shares no code with the allocator, nor with the simulated device.
//!
//! - [`state`]: segments, blocks, statistics; [`malloc`], [`free`], [`expandable`], [`release`]: the rules in their order;
//! - [`pools`]: private pools, scopes, captures, exact addresses;
//! - [`device`]: the recordings' device; [`settings`]: the keys that decide; [`table`]: the order of R3.16;
//! - [`pair`]: the model and the allocator side by side; [`script`]: what a test does to both.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod device;
pub mod expandable;
pub mod free;
pub mod malloc;
pub mod pair;
pub mod pools;
pub mod release;
pub mod script;
pub mod settings;
pub mod solo;
pub mod state;
pub mod stats;
pub mod table;

pub const MIB: u64 = 1 << 20;
