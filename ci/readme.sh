#!/usr/bin/env bash
# The README's first command as it stands: a release build and a replay. A minute or two on two cores. The other commands of
# the README and the book are run by crates/cli/tests/documents.rs, which compares their output too.
set -euo pipefail
cd "$(dirname "$0")/.."
first=$(awk '/^```/ { inside = ($0 == "```sh") } inside && /^cargo run --release -- / { print; exit }' README.md)
[ -n "$first" ] || { echo "README.md has no command that begins with cargo run --release --" >&2; exit 1; }
echo "\$ $first"
bash -c "$first"
