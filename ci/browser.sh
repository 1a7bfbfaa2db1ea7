#!/usr/bin/env bash
# The page in a headless Chromium (Debian's package chromium): it renders, its keys work, its state at any moment is that of
# `millpond replay`, and how fast it is. A minute on two cores once chromium is installed and the program is built in release.
# `ci/browser.sh WORDS` runs the tests with these words in their names; SHOTS=FOLDER keeps pictures; SNAPSHOT=FILE is opened and timed.
set -euo pipefail
cd "$(dirname "$0")"
./debian.sh npm nodejs npm && ./debian.sh "${CHROMIUM:-chromium}" chromium fonts-dejavu-core || exit 0
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "left out: Playwright needs Node 20, this is $(node --version)"; exit 0; }
cd ..
cargo build -q --release -p millpond-cli
export MILLPOND=${CARGO_TARGET_DIR:-$PWD/target}/release/millpond
cd web
[ -d node_modules ] || npm ci --ignore-scripts --no-audit --no-fund
node test/run.mjs "$@"
