#!/usr/bin/env bash
# Every failure of a driver call in every golden and fuzz recording, one a run (72,640), and up to 300 in each workload
# recording (12,021): crates/replay/tests/faults.rs in full. 100 seconds on two cores, 1 to 2 minutes more to build. Prints how
# many failures were injected. Does nothing where the recordings are not there; MILLPOND_SHARED says where they are.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p millpond-replay --test faults -- --ignored --nocapture --test-threads=1
