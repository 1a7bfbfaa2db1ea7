//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser};

use crate::codes::Code;
use crate::failure::Failure;
use crate::shell::{Color, Look, Shell, Verbosity};
use crate::verbs::Verb;
use crate::version;

/// Where help lists the options that every verb has.
const EVERYWHERE: &str = "Options of every verb";

/// PyTorch's CUDA caching allocator without a GPU: what it did, why it ran out, and which setting would have fitted
#[derive(Debug, Parser)]
#[command(
    name = "millpond",
    version = version::LINE,
    max_term_width = 100,
    after_help = "Exit status: 0 done; 1 the answer is no; 2 wrong usage, setting or file.\n\
                  Errors have codes such as MP0007; `millpond explain MP0007` says more."
)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,

    /// Say nothing but the answer and errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = EVERYWHERE)]
    quiet: bool,

    /// Say more on stderr; twice and thrice for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = EVERYWHERE)]
    verbose: u8,

    /// Colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = EVERYWHERE)]
    color: Color,
}

/// The command line as clap knows it, for `completions` and `man`.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line; help, version and errors are printed here.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<(Verb, Look), ExitCode> {
    let arguments: Vec<OsString> = arguments.collect();
    let color = asked_color(&arguments);
    let choice = match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let parsed =
        command().color(choice).try_get_matches_from(arguments).and_then(|found| Cli::from_arg_matches(&found));
    match parsed {
        Ok(Cli { verb, quiet, verbose, color }) => {
            let verbosity = if quiet { Verbosity::Quiet } else { Verbosity::Verbose(verbose) };
            Ok((verb, Look { color, verbosity }))
        }
        Err(error) => Err(say(&error, Look { color, verbosity: Verbosity::Verbose(0) })),
    }
}

/// Prints what clap stopped for: help and version are answers, the rest is an error.
fn say(error: &clap::Error, look: Look) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader that went away is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    Shell::new(look).fail(&Failure::new(Code::Usage, text));
    ExitCode::from(2)
}

/// The value of `--color`, before the rest is understood: it also says how an error in the rest looks.
fn asked_color(arguments: &[OsString]) -> Color {
    let mut arguments =
        arguments.iter().filter_map(|argument| argument.to_str()).take_while(|&argument| argument != "--");
    let mut color = Color::Auto;
    while let Some(argument) = arguments.next() {
        let value = match argument {
            "--color" => arguments.next(),
            _ => argument.strip_prefix("--color="),
        };
        color = match value {
            Some("always") => Color::Always,
            Some("never") => Color::Never,
            Some("auto") => Color::Auto,
            _ => color,
        };
    }
    color
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn the_colour_is_known_before_the_rest() {
        let color = |line: &str| asked_color(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(color("millpond --color never nonsense"), Color::Never);
        assert_eq!(color("millpond stats --color=always"), Color::Always);
        assert_eq!(color("millpond stats -- --color=always"), Color::Auto);
        assert_eq!(color("millpond --color"), Color::Auto);
    }
}
