//! Outcome files, and the requests that belong to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One outcome file with its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// `SCENARIO__CONFIG.out.jsonl[.gz]`.
    pub outcome: PathBuf,
    /// `SCENARIO.req.jsonl[.gz]`.
    pub requests: PathBuf,
    /// Whether the folder's `INDEX.json` says that PyTorch's own order of frees differs from run to run.
    pub unordered_frees: bool,
}

/// What stands in the way of a comparison.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// A path that cannot be looked at.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file whose name is not that of an outcome file.
    #[error("{} is no outcome file: its name would be SCENARIO__CONFIG.out.jsonl, plain or with .gz or .zst", path.display())]
    NotAnOutcome {
        /// The file.
        path: PathBuf,
    },
    /// An outcome file whose requests are not beside it.
    #[error("the requests of {} are missing: there is no {} beside it", path.display(), scenario.clone() + ".req.jsonl[.gz]")]
    NoRequests {
        /// The outcome file.
        path: PathBuf,
        /// Its scenario.
        scenario: String,
    },
    /// A folder without outcome files of its own.
    #[error("{} holds no outcome files (*.out.jsonl, *.out.jsonl.gz); subfolders are not looked into", path.display())]
    NoOutcomes {
        /// The folder.
        path: PathBuf,
    },
    /// An index that is not one.
    #[error("{}: {error}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
}

const PACKED: [&str; 3] = ["", ".gz", ".zst"];

/// The cases of outcome files and of folders: a folder's own files, in the order of their names.
///
/// # Errors
/// The first path that holds no case.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Case>, FindError> {
    let mut cases = Vec::new();
    for path in paths {
        let io = |error| FindError::Io { path: path.clone(), error };
        if !std::fs::metadata(path).map_err(io)?.is_dir() {
            let index = read_index(path.parent().unwrap_or(Path::new("")))?;
            cases.push(case(path, &index)?);
            continue;
        }
        let index = read_index(path)?;
        let mut outcomes = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            if stem(&file).is_some() {
                outcomes.push(file);
            }
        }
        if outcomes.is_empty() {
            return Err(FindError::NoOutcomes { path: path.clone() });
        }
        outcomes.sort();
        for outcome in &outcomes {
            cases.push(case(outcome, &index)?);
        }
    }
    Ok(cases)
}

/// (scenario, setting) of an outcome file.
fn stem(path: &Path) -> Option<(&str, &str)> {
    let name = path.file_name()?.to_str()?;
    let name = PACKED.iter().find_map(|packed| name.strip_suffix(&format!(".out.jsonl{packed}")))?;
    name.rsplit_once("__")
}

fn case(path: &Path, index: &Index) -> Result<Case, FindError> {
    let (scenario, config) = stem(path).ok_or_else(|| FindError::NotAnOutcome { path: path.to_owned() })?;
    let beside = PACKED.iter().map(|packed| path.with_file_name(format!("{scenario}.req.jsonl{packed}")));
    let Some(requests) = beside.into_iter().find(|file| file.exists()) else {
        return Err(FindError::NoRequests { path: path.to_owned(), scenario: scenario.to_owned() });
    };
    let unordered_frees = index.get(&(scenario.to_owned(), config.to_owned())) == Some(&false);
    Ok(Case { outcome: path.to_owned(), requests, unordered_frees })
}

/// By scenario and setting: whether the recording is deterministic.
type Index = BTreeMap<(String, String), bool>;

#[derive(Deserialize)]
struct Entry {
    scenario: String,
    config_name: String,
    #[serde(default = "yes")]
    deterministic: bool,
}

fn yes() -> bool {
    true
}

/// The folder's `INDEX.json`; nothing if there is none.
fn read_index(folder: &Path) -> Result<Index, FindError> {
    let path = folder.join("INDEX.json");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Index::new()),
        Err(error) => return Err(FindError::Io { path, error }),
    };
    let entries: Vec<Entry> = serde_json::from_slice(&text).map_err(|error| FindError::Index { path, error })?;
    Ok(entries.into_iter().map(|entry| ((entry.scenario, entry.config_name), entry.deterministic)).collect())
}
