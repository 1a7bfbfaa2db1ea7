//! `parity FILES AND FOLDERS…`: every decision held against recordings.

use std::path::PathBuf;
use std::process::ExitCode;

use millpond_replay::parity::{Summary, compare_all, find};

fn main() -> ExitCode {
    let mut json = false;
    let mut paths: Vec<PathBuf> = Vec::new();
    for argument in std::env::args_os().skip(1) {
        if argument == "--json" { json = true } else { paths.push(argument.into()) }
    }
    let cases = match find(&paths) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let reports = compare_all(&cases);
    let summary = Summary::new(&reports);
    if json {
        println!("{}", serde_json::to_string(&summary).unwrap_or_default());
    } else {
        reports.iter().for_each(|report| println!("{report}"));
        println!("{summary}");
    }
    ExitCode::from(u8::from(summary.identical < summary.files))
}
