//! The two streams: the answer on stdout, everything else on stderr.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use millpond_report::{Paint, plain};

use crate::codes::Code;
use crate::failure::{Failure, Stop};

/// Whether texts are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    fn paint(self, is_terminal: bool) -> Paint {
        let is_dumb = || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_refused = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Color::Always => Paint::ON,
            Color::Never => Paint::OFF,
            Color::Auto => Paint::new(is_terminal && !is_refused() && !is_dumb()),
        }
    }
}

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors alone.
    Quiet,
    /// Remarks and warnings, and so many levels more.
    Verbose(u8),
}

/// How the program speaks.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Colours.
    pub color: Color,
    /// Remarks.
    pub verbosity: Verbosity,
}

/// Where a verb writes.
pub struct Shell {
    stdout: BufWriter<Stdout>,
    /// Colours of stdout.
    pub paint: Paint,
    error_paint: Paint,
    verbosity: Verbosity,
}

impl Shell {
    /// The process's own streams.
    pub fn new(look: Look) -> Self {
        Shell {
            stdout: BufWriter::new(io::stdout()),
            paint: look.color.paint(io::stdout().is_terminal()),
            error_paint: look.color.paint(io::stderr().is_terminal()),
            verbosity: look.verbosity,
        }
    }

    /// Part of the answer, as it is.
    pub fn print(&mut self, text: &str) -> Result<(), Stop> {
        self.stdout.write_all(text.as_bytes()).map_err(stop)
    }

    /// A line of the answer.
    pub fn line(&mut self, text: &str) -> Result<(), Stop> {
        self.print(text)?;
        self.print("\n")
    }

    /// Bytes of the answer, which are no text.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.stdout.write_all(bytes).map_err(stop)
    }

    /// Makes sure that the answer is out.
    pub fn flush(&mut self) -> Result<(), Stop> {
        self.stdout.flush().map_err(stop)
    }

    /// A remark for the person at the terminal.
    pub fn note(&mut self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            let paint = self.error_paint;
            self.complain(&format!("{} {}", paint.doubt("note:"), plain(text)));
        }
    }

    /// An error.
    pub fn fail(&mut self, failure: &Failure) {
        let paint = self.error_paint;
        // What was answered before comes before.
        let _ = self.stdout.flush();
        self.complain(&error_text(failure, paint));
    }

    /// Whether only errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    /// Whether a progress bar has someone to look at it.
    pub fn shows_progress(&self) -> bool {
        !self.is_quiet() && io::stderr().is_terminal()
    }

    fn complain(&mut self, text: &str) {
        // There is nowhere to report that stderr is gone.
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// An error as it stands on stderr.
pub fn error_text(failure: &Failure, paint: Paint) -> String {
    let mut text = format!("{} {}", paint.bad(&format!("error[{}]:", failure.code)), plain(&failure.message));
    if let Some(help) = &failure.help {
        text.push_str(&format!("\n  {} {}", paint.strong("help:"), plain(help)));
    }
    if failure.code != Code::Usage {
        text.push_str(&format!("\n  {} millpond explain {}", paint.strong("more:"), failure.code));
    }
    text
}

fn stop(error: io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::BrokenPipe,
        _ => Failure::new(Code::CannotWrite, format!("cannot write the answer: {error}")).into(),
    }
}
