//! One case on all three, and what is asked of it.

use anyhow::Result;
use millpond_bench::{Case, Library, Mix, Run, in_turn};
use serde::Serialize;

use crate::over_c::{Millpond, Torch};

/// The three that are compared.
pub struct Subjects {
    /// PyTorch's own allocator.
    pub torch: Torch,
    /// `libmillpond`.
    pub c: Millpond,
    /// The Rust library.
    pub rust: Library,
}

/// A case and its figures, all of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// Nanoseconds of a pair on PyTorch.
    pub torch_ns: f64,
    /// On `libmillpond` over its C interface.
    pub c_ns: f64,
    /// On the Rust library.
    pub rust_ns: f64,
    /// Nanoseconds of a pair of `malloc` and `free` of 4 KiB.
    pub yardstick_ns: f64,
    /// PyTorch over `libmillpond`.
    pub ratio: f64,
    /// What the ratio must be, where something is asked.
    pub must: Option<f64>,
    /// What it should be.
    pub aim: Option<f64>,
}

/// The least ratio that a case must reach, and the one aimed at.
fn asked(case: Case) -> Option<(f64, f64)> {
    match case {
        // PyTorch splits nothing here.
        Case::Cached { size } if size >= 20 << 20 => Some((6.0, 10.0)),
        Case::Cached { .. } => Some((8.0, 10.0)),
        Case::Random { mix: Mix::Small, live: 1_000 } => Some((8.0, 15.0)),
        Case::Random { mix: Mix::Small, live: 100_000 } => Some((12.0, 15.0)),
        Case::Random { mix: Mix::Mixed, live: 1_000 } => Some((6.0, 15.0)),
        Case::Random { mix: Mix::Mixed, live: 100_000 } => Some((10.0, 15.0)),
        _ => None,
    }
}

impl Subjects {
    /// Runs a case on each in turn.
    pub fn compare(&self, case: Case, rounds: usize, pairs: u64) -> Result<Row> {
        let mut torch = Run::prepare(&self.torch, case)?;
        let mut c = Run::prepare(&self.c, case)?;
        let mut rust = Run::prepare(&self.rust, case)?;
        let times = in_turn::<anyhow::Error>(
            &mut [&mut |pairs| torch.pairs(pairs), &mut |pairs| c.pairs(pairs), &mut |pairs| Ok(rust.pairs(pairs)?)],
            rounds,
            pairs,
        )?;
        torch.finish()?;
        c.finish()?;
        rust.finish()?;
        let [torch, c, rust] = times[..] else { unreachable!("three loops have three times") };
        let asked = asked(case);
        Ok(Row {
            case: case.to_string(),
            torch_ns: torch.ns,
            c_ns: c.ns,
            rust_ns: rust.ns,
            yardstick_ns: torch.yardstick_ns,
            ratio: torch.ns / c.ns,
            must: asked.map(|(must, _)| must),
            aim: asked.map(|(_, aim)| aim),
        })
    }
}
