//! What the libraries trace, on stderr.

use tracing::level_filters::LevelFilter;

use crate::shell::Verbosity;

/// Starts it. A library warns of what its program should know, such as a device that is full; here that is what was asked
/// for, so nothing but errors is shown without a `-v`.
pub fn start(verbosity: Verbosity) {
    let level = match verbosity {
        Verbosity::Quiet | Verbosity::Verbose(0) => LevelFilter::ERROR,
        Verbosity::Verbose(1) => LevelFilter::INFO,
        Verbosity::Verbose(2) => LevelFilter::DEBUG,
        Verbosity::Verbose(_) => LevelFilter::TRACE,
    };
    let log =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).without_time();
    // It fails only if another one was started before, and there is none.
    let _ = log.try_init();
}
