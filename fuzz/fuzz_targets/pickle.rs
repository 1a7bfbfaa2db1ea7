//! Any bytes: an error or a snapshot, and a snapshot can be summed up, written and read equal.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run pickle corpus/pickle seeds/pickle -- -runs=1000000 -max_len=4096`
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_snapshot::{Snapshot, pickle};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((values, root)) = pickle::read(bytes) {
        let mut file = Vec::new();
        pickle::write(&values, root, &mut file).expect("memory takes all");
        let (values, root) = pickle::read(&file).expect("what was written can be read");
        let mut again = Vec::new();
        pickle::write(&values, root, &mut again).expect("memory takes all");
        assert!(again == file, "written twice, it differs");
    }
    if let Ok(snapshot) = Snapshot::from_bytes(bytes) {
        for problem in &snapshot.summary().problems {
            assert!(!problem.to_string().is_empty());
        }
        let mut file = Vec::new();
        snapshot.write_pickle(&mut file).expect("memory takes all");
        let again = Snapshot::from_bytes(&file).expect("what was written can be read");
        assert!(again == snapshot, "what was written differs");
    }
});
