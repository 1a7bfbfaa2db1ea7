//! The cases of `millpond bench` on three allocators in turn: PyTorch's own, `libmillpond` over its C interface, and the Rust
//! library. `vs_torch.sh` builds and starts the program, `examples/vs_torch.rs`, on the simulated device.

mod compare;
mod over_c;
pub mod table;

pub use compare::{Row, Subjects};
pub use over_c::{Millpond, Streams, Torch};
