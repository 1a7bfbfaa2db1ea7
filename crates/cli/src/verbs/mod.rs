//! The verbs, one file each.

mod bench;
mod completions;
mod conf;
mod device;
mod diff;
mod doctor;
mod explain;
mod export;
mod man;
mod parity;
mod past;
mod plan;
mod replay;
mod sim;
mod stats;
mod sweep;
mod view;

use crate::failure::Stop;
use crate::shell::Shell;

/// What was asked was done; what the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, or yes.
    Done,
    /// No.
    No,
    /// What the program that was run said.
    Status(u8),
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Say why a job ran out of memory, and which setting would have fitted
    Doctor(doctor::Args),
    /// Replay a workload, a snapshot or a scenario on a simulated device
    Replay(replay::Args),
    /// Replay the same requests under many settings, and find the smallest device that survives
    Sweep(sweep::Args),
    /// Find how large a cache may be beside recorded requests
    Plan(plan::Args),
    /// Say what grew between two states, by stack
    Diff(diff::Args),
    /// Say what state a snapshot holds
    Stats(stats::Args),
    /// Write one page for a browser that shows what happened
    View(view::Args),
    /// Write what happened as a file for another tool
    Export(export::Args),
    /// Say what a settings string does, or what is wrong with it
    Conf(conf::Args),
    /// Compare every decision with recordings of PyTorch's own allocator
    Parity(parity::Args),
    /// Run a program on a simulated device, behind CUDA's own interface
    Sim(sim::Args),
    /// Say what the driver and its devices are able to do
    Device(device::Args),
    /// Measure what an allocation costs on this machine
    Bench(bench::Args),
    /// Say what an error code means
    Explain(explain::Args),
    /// Write completions for a shell
    Completions(completions::Args),
    /// Write the manual page
    Man(man::Args),
}

impl Verb {
    /// Does it.
    pub fn run(self, shell: &mut Shell) -> Result<Answer, Stop> {
        match self {
            Verb::Doctor(args) => doctor::run(&args, shell),
            Verb::Replay(args) => replay::run(&args, shell),
            Verb::Sweep(args) => sweep::run(&args, shell),
            Verb::Plan(args) => plan::run(&args, shell),
            Verb::Diff(args) => diff::run(&args, shell),
            Verb::Stats(args) => stats::run(&args, shell),
            Verb::View(args) => view::run(&args, shell),
            Verb::Export(args) => export::run(&args, shell),
            Verb::Conf(args) => conf::run(&args, shell),
            Verb::Parity(args) => parity::run(&args, shell),
            Verb::Sim(args) => sim::run(&args, shell),
            Verb::Device(args) => device::run(&args, shell),
            Verb::Bench(args) => bench::run(&args, shell),
            Verb::Explain(args) => explain::run(&args, shell),
            Verb::Completions(args) => completions::run(args, shell),
            Verb::Man(args) => man::run(&args, shell),
        }
    }
}
