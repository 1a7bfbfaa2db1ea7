//! `device_check suite|costs|parity|integrity`: one of the checks, on the first device of this machine. `gpu/check.sh` runs all.
//!
//! `costs` writes the cost table to standard output and the medians, for people, to standard error.

use std::process::ExitCode;
use std::time::Duration;

use millpond_cuda::Cuda;
use millpond_gpu::integrity::{self, Beside};
use millpond_gpu::{about, costs, parity, suite};

/// How long kernels run beside mappings.
const BESIDE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_default();
    match check(&what) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("usage: device_check suite|costs|parity|integrity");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("device_check {what}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether there is such a check.
fn check(what: &str) -> anyhow::Result<bool> {
    if !["suite", "costs", "parity", "integrity"].contains(&what) {
        return Ok(false);
    }
    let cuda = Cuda::load()?;
    eprintln!("{}", about(&cuda)?);
    match what {
        "suite" => {
            let names = suite::run(&cuda);
            names.iter().for_each(|name| println!("{name}"));
            println!("{} checks hold", names.len());
        }
        "costs" => {
            let costs = costs::measure(&cuda)?;
            eprint!("{}", costs.text());
            println!("{}", costs.table()?);
        }
        "parity" => {
            for (conf, count) in parity::run(&cuda)? {
                println!(
                    "'{conf}': {count} allocations have the same sizes and offsets, and the statistics are the same"
                );
            }
        }
        _ => {
            let seen = integrity::run(&cuda, BESIDE)?;
            println!("what is written through one mapping is read through the other");
            let work = match seen.beside {
                Beside::Kernels => "kernels".to_owned(),
                Beside::FillsAndCopies(why) => format!("chains of fills and copies ({why})"),
            };
            println!("{} {work} had the right bytes while {} ranges came and went", seen.rounds, seen.ranges);
        }
    }
    Ok(true)
}
