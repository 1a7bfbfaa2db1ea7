#!/usr/bin/env bash
# Everything that a machine with a real GPU can check and this project's own tests cannot, in under five minutes once built:
#
#   gpu/check.sh [FOLDER]                                  on a real GPU
#   millpond sim --backing --capacity 16G -- gpu/check.sh  over the simulated driver, to try the script itself
#
# The driver suite; the medians of the calls that an allocator makes; parity of sizes and offsets with the simulated device; data
# integrity. Into FOLDER (target/gpu) go what each step said and costs.json, a cost table with the card's name for
# `millpond sim --cost` and for crates/sim/data/cost.json. Where PYTHON (python3) has torch 2.15 and this project's package, PyTorch
# runs on Millpond, too. Exit status 1 if a step failed.
set -uo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
out=${1:-$target/gpu}
python=${PYTHON:-python3}
mkdir -p "$out"

# What `millpond sim` preloads is for the checks, not for the compiler.
plain() { env -u LD_PRELOAD -u LD_LIBRARY_PATH "$@"; }
plain cargo build --release --quiet --locked -p millpond-gpu --example device_check || exit 2
plain cargo build --release --quiet --locked -p millpond-cli || exit 2
check=$target/release/examples/device_check
millpond=$target/release/millpond

failed=()
step() {
    local name=$1 lines=$2 start=$SECONDS
    shift 2
    echo "== $name"
    if "$@" >"$out/$name.txt" 2>&1; then
        tail -n "$lines" "$out/$name.txt"
        echo "== $name: done in $((SECONDS - start)) s"
    else
        tail -n 15 "$out/$name.txt"
        echo "== $name: FAILED after $((SECONDS - start)) s"
        failed+=("$name")
    fi
}

costs() { "$check" costs >"$out/costs.json"; }

SECONDS=0
step device 99 "$millpond" device
step suite 1 "$check" suite
step costs 99 costs
step parity 3 "$check" parity
step integrity 2 "$check" integrity
if plain "$python" -c 'import millpond, torch; assert torch.__version__.startswith("2.15.")' 2>/dev/null; then
    step torch 12 "$python" examples/torch_drop_in.py --grade full --snapshot "$out/torch.pickle"
    step torch-replay 12 "$millpond" replay "$out/torch.pickle"
else
    echo "== torch: passed over, $python has no torch 2.15 or no millpond"
fi

if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]} (after $SECONDS s); everything that was said is in $out"
    exit 1
fi
echo "all good after $SECONDS s; the cost table: $out/costs.json"
