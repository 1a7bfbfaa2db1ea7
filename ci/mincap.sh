#!/usr/bin/env bash
# The smallest capacities of thirteen recorded programs under five settings, and of two of 80 GiB, against those that PyTorch's
# own allocator needed. Minutes; needs ../shared/workloads.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p millpond-doctor --test smallest -- --include-ignored --nocapture
