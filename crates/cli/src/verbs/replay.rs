//! placeholder
use super::Answer;
use crate::failure::Stop;
use crate::shell::Shell;
/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A workload
    file: std::path::PathBuf,
}
pub fn run(args: Args, _shell: &mut Shell) -> Result<Answer, Stop> {
    let _ = crate::content::of(&args.file)?;
    Ok(Answer::Done)
}
