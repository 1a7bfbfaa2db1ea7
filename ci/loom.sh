#!/usr/bin/env bash
# Loom: every way in which two or three threads can meet on the allocator's locks and atomics, in the models of
# crates/alloc/tests/loom_*.rs; some 20,000 ways. 2.5 minutes on two cores, 6 seconds once built.
# LOOM_MAX_PREEMPTIONS=n leaves out ways with more than n switches that no thread asked for.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
for model in crates/alloc/tests/loom_*.rs; do
    cargo test --release -p millpond --test "$(basename "$model" .rs)" "$@"
done
