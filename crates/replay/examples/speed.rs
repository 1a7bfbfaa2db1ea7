//! `speed FILES…`: requests read and replayed a second, on one core.

use std::path::Path;
use std::time::Instant;

use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::workload::ReadOptions;
use millpond_replay::{Machine, Runner, Setup, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let conf = std::env::var("CONF").unwrap_or_default();
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let workload = Workload::open(Path::new(&path), ReadOptions::default())?;
        let read = start.elapsed().as_secs_f64();
        let n = workload.ops.len() as f64;
        let setup = Setup { capacity: Bytes(80 << 30), settings: Settings::written(&conf)?.0, ..Setup::default() };
        let (mut best, mut ooms) = (f64::INFINITY, 0);
        for _ in 0..5 {
            let machine = Machine::new(&setup)?;
            let mut runner = Runner::new(&machine);
            let start = Instant::now();
            runner.run(&workload.ops, |_, _, _| {})?;
            best = best.min(start.elapsed().as_secs_f64());
            ooms = machine.allocator().stats().num_ooms;
        }
        println!(
            "{path}: {n} requests, read {:.2} M/s, replayed {:.2} M/s, {ooms} OOMs",
            n / read / 1e6,
            n / best / 1e6
        );
    }
    Ok(())
}
