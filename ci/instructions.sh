#!/usr/bin/env bash
# Instructions of a pair of an allocation and a free, a line a case of `millpond bench`, by callgrind: the difference of two
# runs, so that the start does not count. They do not depend on the machine's load. Cases may be named; without, all of one
# thread, and those of a million live blocks with --million. Fails when a cached pair of 4 KiB takes more than 260.
# Two minutes once built; left out, and said so, where valgrind is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! valgrind --version >/dev/null 2>&1; then
    echo "left out: valgrind is not installed" >&2
    exit 0
fi
cargo build --quiet --release --locked -p millpond-cli
millpond=${CARGO_TARGET_DIR:-target}/release/millpond

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$millpond" bench "$1" --once --pairs "$2" 2>&1 |
        sed -n 's/.*Collected : //p'
}
per_pair() { echo $((($(count "$1" 22000) - $(count "$1" 2000)) / 20000)); }

cases=$("$millpond" bench list | grep -v _2$)
[ "${1:-}" != --million ] || { shift; cases="$cases random_small_1m random_mixed_1m"; }
[ $# = 0 ] || cases=$*
cached=0
for case in $cases; do
    counted=$(per_pair "$case")
    echo "$case $counted"
    [ "$case" != cached_4k ] || cached=$counted
done
[ "$cached" -le 260 ] || { echo "a cached pair of 4 KiB takes $cached instructions, more than 260" >&2; exit 1; }
