//! What the simulated libraries have in common: how they take arguments from C, how they answer, and how the two that own
//! no device call the one that does.

mod answer;
mod arguments;
pub mod driver;

pub use answer::{Answer, Failure, caught};
pub use arguments::{In, Out, Text, copy_text};
