//! Errors as they are told: a code, a sentence, and where it helps what to do.

use std::fmt::Display;
use std::path::Path;

use millpond::config::ConfigError;
use millpond_replay::RunError;
use millpond_replay::parity::FindError;
use millpond_replay::workload::{Fault, WorkloadError};
use millpond_snapshot::LoadError;
use millpond_snapshot::pickle::PickleError;

use crate::codes::Code;

/// Why the program ends early.
#[derive(Debug)]
pub enum Stop {
    /// With an error.
    Failed(Failure),
    /// Nobody reads the answer any more.
    BrokenPipe,
}

/// An error.
#[derive(Debug)]
pub struct Failure {
    /// Its kind.
    pub code: Code,
    /// What was asked and what stands in the way.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Failure {
    /// An error without advice of its own.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), help: None }
    }

    /// An error about a file.
    pub fn at(code: Code, path: &Path, error: impl Display) -> Self {
        Self::new(code, format!("{}: {error}", path.display()))
    }

    /// With advice.
    pub fn help(self, help: impl Into<String>) -> Self {
        Failure { help: Some(help.into()), ..self }
    }

    /// With the file or scenario it is about.
    pub fn of(self, source: &str) -> Self {
        Failure { message: format!("{source}: {}", self.message), ..self }
    }

    /// A file that the system does not let us read.
    pub fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::at(Code::CannotRead, path, in_words(error))
    }

    /// A file that is no snapshot.
    pub fn snapshot(path: &Path, error: &LoadError) -> Self {
        let code = match error {
            // Its text begins with the path.
            LoadError::Io { source, .. } => return Self::unreadable(path, source),
            LoadError::Empty => Code::EmptyFile,
            LoadError::Unpack { .. } => Code::DamagedPacking,
            LoadError::Expansion { .. } => Code::UnpacksTooFar,
            LoadError::Pickle(PickleError::Code { .. }) => Code::HostilePickle,
            LoadError::Pickle(PickleError::OutOfBounds) => Code::TooMuchMemory,
            LoadError::Pickle(_) => Code::DamagedPickle,
            LoadError::Json(_) => Code::DamagedJson,
            LoadError::Model(_) => Code::NotASnapshot,
            // The library may learn to tell more apart.
            _ => Code::NotASnapshot,
        };
        Self::at(code, path, error)
    }

    /// A file that is no workload.
    pub fn workload(path: &Path, error: &WorkloadError) -> Self {
        match &error.fault {
            Fault::Io(source) if is_damage(source) => Self::at(Code::DamagedPacking, path, source),
            Fault::Io(source) => Self::unreadable(path, source),
            Fault::Unpacks { .. } => Self::at(Code::UnpacksTooFar, path, error),
            _ => Self::at(Code::BadWorkload, path, error),
        }
    }

    /// Settings that are refused; `of` says where they were written.
    pub fn setting(of: &str, error: &ConfigError) -> Self {
        let failure = Self::new(Code::BadSetting, format!("{of}: {error}"));
        failure.help("`millpond conf \"STRING\"` marks the place and says what PyTorch makes of it")
    }

    /// Paths without recordings.
    pub fn recordings(error: &FindError) -> Self {
        match error {
            FindError::Io { path, error } => Self::unreadable(path, error),
            FindError::Index { .. } => Self::new(Code::DamagedJson, error.to_string()),
            _ => Self::new(Code::NoRecording, error.to_string()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Failure::new(Code::BadRequest, error.to_string())
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// Whether an error comes from unpacking rather than from the system.
pub fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof)
        || (error.kind() == ErrorKind::Other && error.raw_os_error().is_none())
}

/// The system's error as part of a sentence.
fn in_words(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "there is no such file or folder".into(),
        ErrorKind::IsADirectory => "this is a folder; a file is needed here".into(),
        ErrorKind::PermissionDenied => "the permissions of the file do not allow to read it".into(),
        _ => format!("it cannot be read: {error}"),
    }
}
