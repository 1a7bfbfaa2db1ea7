#!/usr/bin/env bash
# The page in a headless Chromium (Debian's package chromium): it renders, scrubs, and shows what replay says. Three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -q -p millpond-cli
cd web
[ -d node_modules ] || npm ci --ignore-scripts --no-audit --no-fund
node test/run.mjs "$@"
