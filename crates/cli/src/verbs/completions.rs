//! `millpond completions SHELL`: what a shell needs to complete a command line.

use clap_complete::Shell as Kind;

use super::Answer;
use crate::cli;
use crate::failure::Stop;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Kind,
}

/// Writes the script to stdout.
pub fn run(args: Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "millpond", &mut script);
    shell.bytes(&script)?;
    Ok(Answer::Done)
}
