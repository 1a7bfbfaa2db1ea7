//! `millpond view FILE -o PAGE`: one HTML file that shows what happened.

use std::path::PathBuf;

use millpond_viewer::PageError;

use super::Answer;
use super::past::{self, Beside};
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::files;
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    past: past::Args,

    /// Where the page goes; *.mpv has its columns alone, to be dropped on a page that is open
    #[arg(short, long, value_name = "PAGE")]
    output: PathBuf,
}

/// Reads, replays, writes.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let past = past::look(&args.past, Beside::Recording)?;
    let runs = past.runs();
    let is_alone = args.output.extension().is_some_and(|extension| extension == "mpv");
    past.page(|page| {
        let mut bytes = Vec::new();
        let written = if is_alone { page.write_columns(&mut bytes) } else { page.write_html(&mut bytes) };
        written.map_err(|error| match error {
            PageError::Beyond(_) => Failure::new(Code::CannotReplay, error.to_string()),
            PageError::Io(_) => Failure::at(Code::CannotWrite, &args.output, error),
        })?;
        files::write(&args.output, &bytes)
    })?;
    let what = if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") };
    shell.note(&format!("{} shows {what}; open it in a browser", args.output.display()));
    Ok(Answer::Done)
}
