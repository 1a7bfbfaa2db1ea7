//! What `millpond replay` takes.

use millpond::config::Settings;
use millpond_replay::{Assertion, AssertionError};

use crate::codes::Code;
use crate::failure::Failure;
use crate::options::{Extent, Source};

/// What it takes.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub source: Source,

    /// Settings, PyTorch's and Millpond's [default: of a snapshot the recorded ones, else PyTorch's defaults]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    pub conf: Option<String>,

    #[command(flatten)]
    pub extent: Extent,

    /// Check every use of memory by the work of a workload; exit status 1 if two uses are not in order
    #[arg(long)]
    pub hazards: bool,

    /// A claim about a figure of the JSON answer, such as 'peak_reserved < 70GiB'; exit status 1 if it does not hold
    #[arg(long = "assert", value_name = "CLAIM")]
    pub claims: Vec<String>,

    /// Answer with one JSON object
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// The settings of `--conf`, if it is given.
    pub fn settings(&self) -> Result<Option<Settings>, Failure> {
        let Some(conf) = &self.conf else { return Ok(None) };
        match Settings::written(conf) {
            Ok((settings, _)) => Ok(Some(settings)),
            Err(error) => Err(Failure::setting("--conf", &error)),
        }
    }

    /// The claims of `--assert`.
    pub fn assertions(&self) -> Result<Vec<Assertion>, Failure> {
        let parsed = self.claims.iter().map(|claim| claim.parse());
        parsed.map(|claim| claim.map_err(not_understood)).collect()
    }
}

/// A claim that cannot be understood or decided.
pub fn not_understood(error: AssertionError) -> Failure {
    Failure::new(Code::BadAssertion, error.to_string())
}
