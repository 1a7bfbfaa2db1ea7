//! `millpond man`: the manual pages.

use std::path::{Path, PathBuf};

use clap_mangen::Man;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::shell::Shell;
use crate::{cli, files};

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write a page for the program and one for each verb into this folder, instead of the first to stdout
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// Writes the page to stdout, or all pages into a folder.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    match &args.dir {
        None => shell.bytes(&page(&Man::new(cli::command()))?)?,
        Some(folder) => all(folder)?,
    }
    Ok(Answer::Done)
}

fn all(folder: &Path) -> Result<(), Failure> {
    let mut program = cli::command();
    // Gives the verbs the program's global options.
    program.build();
    let verbs = program.get_subcommands().filter(|verb| verb.get_name() != "help");
    let verbs = verbs.map(|verb| verb.clone().display_name(format!("millpond-{}", verb.get_name())));
    for command in std::iter::once(program.clone()).chain(verbs) {
        let man = Man::new(command);
        files::write(&folder.join(man.get_filename()), &page(&man)?)?;
    }
    Ok(())
}

fn page(man: &Man) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    // Into memory: it does not fail.
    man.render(&mut page).map_err(|error| Failure::new(Code::CannotWrite, error.to_string()))?;
    Ok(page)
}
