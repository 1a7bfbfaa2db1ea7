#!/usr/bin/env bash
# Every failure of a driver call in every golden and fuzz recording, one a run (72,640), and 300 in each workload recording:
# crates/replay/tests/faults.rs in full. 3 minutes of one core's time in release, 2 more to build. Prints how many failures
# were injected. Does nothing where the recordings are not there; MILLPOND_SHARED says where they are.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p millpond-replay --test faults -- --ignored --nocapture --test-threads=1
