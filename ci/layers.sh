#!/usr/bin/env bash
# The layer law, where unsafe may stand, one binary, one MSRV. The table is in crates/cli/tests/house.rs. Seconds once built.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --quiet -p millpond-cli --test house
