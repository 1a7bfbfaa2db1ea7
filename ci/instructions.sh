#!/usr/bin/env bash
# Instructions of a pair of an allocation and a free through the Rust API, by callgrind: the difference of two runs, so that the
# start does not count. They do not depend on the machine's load. A cached pair of 4 KiB may take 260. A minute once built;
# left out, and said so, where valgrind is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! valgrind --version >/dev/null 2>&1; then
    echo "left out: valgrind is not installed"
    exit 0
fi
cargo build --quiet --release -p millpond --example pairs
pairs=${CARGO_TARGET_DIR:-target}/release/examples/pairs

count() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$pairs" "$@" 2>&1 | sed -n 's/.*Collected : //p'; }
per_pair() {
    local case=$1 live=${2:-1}
    echo $((($(count "$case" 11000 "$live") - $(count "$case" 1000 "$live")) / 10000))
}

for size in 512 4096 1048576 20971520; do echo "cached $size: $(per_pair "$size")"; done
for mix in small mixed; do
    for live in 1000 10000; do echo "random $mix, $live live: $(per_pair "$mix" "$live")"; done
done
cached=$(per_pair 4096)
[ "$cached" -le 260 ] || { echo "a cached pair of 4 KiB takes $cached instructions, more than 260"; exit 1; }
