//! The behavioural suite of drivers.

use millpond_cuda::Cuda;
use millpond_driver::conformance::{Subject, checks};

use crate::host;

/// Runs all checks of the suite and answers their names.
///
/// # Panics
/// At the first check that does not hold, with its name and reason.
pub fn run(cuda: &Cuda) -> Vec<&'static str> {
    let subject = Subject { driver: cuda, read: &host::read, write: &host::write };
    let held = checks().map(|check| {
        check.run(&subject);
        check.name
    });
    held.collect()
}
