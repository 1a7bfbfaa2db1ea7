//! Any bytes: an error or a workload, which is written and read equal, and which can be run: the allocator is sound after it.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run workload corpus/workload seeds/workload -- -dict=workload.dict -runs=1000000 -max_len=2048`
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond::config::Settings;
use millpond_driver::Bytes;
use millpond_replay::workload::ReadOptions;
use millpond_replay::{Machine, Runner, Setup, Workload};
use millpond_sim::EventMode;

fuzz_target!(|bytes: &[u8]| {
    let workload = match Workload::read(bytes, ReadOptions::default()) {
        Ok(workload) => workload,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut text = Vec::new();
    workload.write(&mut text).expect("memory takes all");
    let again = Workload::read(text.as_slice(), ReadOptions::default()).expect("what was written can be read");
    assert_eq!(again, workload);

    // The length decides the settings, so that a file always runs in the same way.
    let conf = ["", "expandable_segments:True", "max_split_size_mb:32", "graph_capture_record_stream_reuse:True"];
    let setup = Setup {
        capacity: Bytes(1 << 30),
        events: if bytes.len() % 8 < 4 { EventMode::Immediate } else { EventMode::Manual },
        settings: Settings::written(conf[bytes.len() % 4]).expect("known keys").0,
        devices: workload.devices(),
        ..Setup::default()
    };
    let machine = Machine::new(&setup).expect("a simulated device can be had");
    let mut runner = Runner::new(&machine);
    // A request that makes no sense ends the run.
    let _ = runner.run(&workload.ops, |_, _, _| ());
    for allocator in machine.allocators() {
        assert_eq!(allocator.verify().map_err(|all| format!("{all:?}")), Ok(()));
    }
});
