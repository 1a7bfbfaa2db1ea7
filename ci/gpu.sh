#!/usr/bin/env bash
# gpu/check.sh, the checks for a machine with a real GPU, runs to its end over the simulated driver, and the simulated device starts
# with the cost table that it writes. Two minutes from nothing, 15 seconds once built. A machine with a real driver runs
# gpu/check.sh itself.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet --locked -p millpond-cli -p millpond-shim-libcuda -p millpond-shim-libcudart -p millpond-shim-libnvml
out=${CARGO_TARGET_DIR:-target}/gpu/simulated
millpond=${CARGO_TARGET_DIR:-target}/release/millpond
if ! said=$("$millpond" sim -- true 2>&1); then
    echo "$said"
    [[ $said == *'real driver'* ]] && echo "run gpu/check.sh by itself here" && exit 0
    exit 1
fi
PYTHON=none "$millpond" sim --backing --capacity 16G -- gpu/check.sh "$out"
"$millpond" sim --cost "$out/costs.json" --events timed -- "$millpond" device --json | grep -q 'Millpond simulated'
