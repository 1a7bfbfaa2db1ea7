#!/usr/bin/env bash
# Every failure of a driver call in every golden and fuzz recording, one a run (72,640), and up to 300 in each workload
# recording (12,021): crates/replay/tests/faults.rs in full; then every use of memory in the workload recordings while pages move
# (pages.rs). Two minutes on two cores, one more to build. Prints how many failures were injected. With --pages also
# every failure while pages move: some 481,000 runs, 23 minutes. Does nothing where the recordings are not there; MILLPOND_SHARED
# says where they are.
set -euo pipefail
cd "$(dirname "$0")/.."
skip=(--skip while_pages_move)
[ "${1:-}" = --pages ] && skip=()
cargo test --release -p millpond-replay --test faults --test pages -- --ignored --nocapture --test-threads=1 "${skip[@]}"
