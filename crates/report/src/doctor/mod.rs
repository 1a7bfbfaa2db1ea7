//! What a diagnosis found: a report for a person, and the same for programs.
//!
//! The report goes from what is sure to what follows from it: what happened, the account of every byte, the verdict, what
//! would have been enough, what helps, how far all of it can be trusted, and the six questions that everybody asks.

mod account;
mod checks;
mod fixes;
mod happened;
mod trust;
mod verdict;

pub use trust::COLLECT;
pub use verdict::{sentences, title};

use millpond_doctor::Diagnosis;
use millpond_doctor::diagnosis::{Holder, When};
use serde::Serialize;

use crate::{Document, Paint, plain};

/// `{"schema", "devices"}`.
pub fn json(devices: &[Diagnosis]) -> String {
    #[derive(Serialize)]
    struct Body<'d> {
        devices: &'d [Diagnosis],
    }
    Document::new(Body { devices }).line()
}

/// What the report repeats from the command line, so that every command in it can be run as it stands.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The file.
    pub source: &'a str,
    /// Whether the file has several devices.
    pub has_several: bool,
}

/// A report a device.
pub fn text(devices: &[Diagnosis], asked: Asked<'_>, paint: Paint) -> String {
    let reports: Vec<String> = devices.iter().map(|device| report(device, asked, paint)).collect();
    reports.join("\n")
}

fn report(diagnosis: &Diagnosis, asked: Asked<'_>, paint: Paint) -> String {
    let heading = format!("{}, GPU {}: {}", plain(asked.source), diagnosis.device, title(diagnosis));
    let heading = match diagnosis.moment.when {
        When::Oom => paint.bad(&heading),
        When::Peak | When::State => paint.strong(&heading),
    };
    let sections = [
        ("what happened", happened::text(diagnosis)),
        ("the account at that moment", account::text(diagnosis, paint)),
        ("verdict", verdict::text(diagnosis)),
        ("what would have been enough", verdict::enough(diagnosis)),
        (fixes::name(diagnosis), fixes::text(diagnosis, asked, paint)),
        ("how far this can be trusted", trust::text(diagnosis)),
        ("six checks", checks::text(diagnosis, paint)),
    ];
    let mut text = format!("{heading}\n");
    for (name, section) in sections.into_iter().filter(|(_, section)| !section.is_empty()) {
        text.push_str(&format!("\n{}\n{section}", paint.strong(name)));
    }
    text
}

/// The frame of a stack that says most: the innermost of the program's own.
fn own_frame(stack: &[String]) -> Option<&str> {
    stack.iter().find(|line| !is_machinery(line)).or(stack.first()).map(String::as_str)
}

/// Whether a frame is PyTorch's own or has no source.
fn is_machinery(line: &str) -> bool {
    line.starts_with("torch/") || line.contains("/torch/") || line.contains(".so:") || line.contains("??:")
}

/// A block in use, in one line.
fn holder(holder: &Holder) -> String {
    use crate::words::duration;
    let bytes = millpond_driver::Bytes(holder.size);
    let entries = |age| crate::count(age, "entry", "entries");
    let age = match (holder.age, holder.age_us) {
        (None, _) => "older than the trace".into(),
        (Some(age), None) => format!("{} old", entries(age)),
        (Some(age), Some(us)) => format!("{} or {} old", entries(age), duration(us)),
    };
    let from = own_frame(&holder.stack).map_or("no stack was recorded".into(), |frame| plain(frame).into_owned());
    format!("{bytes} at {:#x}, {age}: {from}", holder.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_frame_says_most() {
        let stack: Vec<String> =
            ["torch/nn/functional.py:1 relu", "train.py:7 forward", "train.py:9 main"].map(String::from).into();
        assert_eq!(own_frame(&stack), Some("train.py:7 forward"));
        assert_eq!(own_frame(&stack[..1]), Some("torch/nn/functional.py:1 relu"));
        assert_eq!(own_frame(&[]), None);
    }
}
