//! A bar for long work, when somebody looks.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::shell::Shell;

/// A bar on stderr that goes away when it is dropped; nothing when stderr is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for `total` steps of `what` ("requests").
    pub fn new(shell: &Shell, total: u64, what: &'static str) -> Self {
        if !shell.shows_progress() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
        let form = format!("{{bar:32}} {{human_pos}} of {{human_len}} {what}, {{eta}} left");
        // The form is ours; if it were wrong, indicatif's own would do.
        bar.set_style(ProgressStyle::with_template(&form).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// So many steps are done, of so many.
    pub fn of(&self, done: usize, total: usize) {
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
    }

    /// So many steps are done.
    pub fn at(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
