//! `millpond`, the program: one file a verb in `verbs`.
//!
//! `main` reads the command line ([`cli`]), runs the verb and turns what came of it into an exit status: 0 done, 1 the
//! answer is no, 2 wrong usage, setting or file. Answers go to stdout, everything else to stderr ([`shell`]); every error
//! has a code ([`codes`], [`failure`]).
#![forbid(unsafe_code)]

mod cli;
mod codes;
mod content;
mod failure;
mod files;
mod log;
mod opened;
mod options;
mod progress;
mod shell;
mod verbs;
mod version;

use std::process::ExitCode;

use failure::Stop;
use shell::Shell;
use verbs::Answer;

fn main() -> ExitCode {
    let (verb, look) = match cli::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(exit) => return exit,
    };
    log::start(look.verbosity);
    let mut shell = Shell::new(look);
    let answer = verb.run(&mut shell).and_then(|answer| shell.flush().map(|()| answer));
    match answer {
        Ok(Answer::Done) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Ok(Answer::Status(status)) => ExitCode::from(status),
        // Whoever reads has seen enough.
        Err(Stop::BrokenPipe) => ExitCode::SUCCESS,
        Err(Stop::Failed(failure)) => {
            shell.fail(&failure);
            ExitCode::from(2)
        }
    }
}
