//! What the libraries trace, on stderr.

use tracing::level_filters::LevelFilter;

use crate::shell::Verbosity;

/// Starts it. A library tells what its program should know, such as a device that is full or addresses that run out; here
/// that happens to a simulated device, is what was asked for, and is in the answer: so it is shown with a `-v` only.
pub fn start(verbosity: Verbosity) {
    let level = match verbosity {
        Verbosity::Quiet | Verbosity::Verbose(0) => LevelFilter::OFF,
        Verbosity::Verbose(1) => LevelFilter::INFO,
        Verbosity::Verbose(2) => LevelFilter::DEBUG,
        Verbosity::Verbose(_) => LevelFilter::TRACE,
    };
    let log =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).without_time();
    // It fails only if another one was started before, and there is none.
    let _ = log.try_init();
}
